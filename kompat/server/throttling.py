"""What a request costs by its client's quotas. Its answer goes out at once and says how long the client is to wait.

For as long nothing more of the connection is begun: who does not heed what it is told is slowed all the same.
"""

from __future__ import annotations

import types
from collections.abc import Generator
from struct import Struct
from time import perf_counter
from typing import TYPE_CHECKING, Any

from kompat.protocol.codec import response_header_size

if TYPE_CHECKING:
    from kompat.cluster.client_quotas import ClientQuotas
    from kompat.server.dispatch import Exchange

PRODUCE, FETCH, SHARE_FETCH = 0, 1, 78

_THROTTLE = Struct(">i")  # stands first in the answers of all APIs that are forwarded


class Bill:
    """Of one request: the time that it takes of the event loop, and its bytes."""

    __slots__ = ("_quotas", "_since", "_spent")

    def __init__(self, quotas: ClientQuotas, begun: float) -> None:
        self._quotas = quotas
        self._since = begun
        self._spent = 0.0

    def pause(self) -> None:
        """The request waits."""
        self._spent += perf_counter() - self._since

    def go_on(self) -> None:
        self._since = perf_counter()

    @types.coroutine
    def timed(self, work: Any) -> Generator[Any, Any, Any]:
        """A handler's coroutine, by the time of its steps."""
        step, value = work.send, None
        while True:
            self.go_on()
            try:
                awaited = step(value)
            except StopIteration as done:
                return done.value
            finally:
                self.pause()
            try:
                step, value = work.send, (yield awaited)
            except BaseException as error:  # noqa: BLE001 - it is the handler's to deal with
                step, value = work.throw, error

    def settle(self, exchange: Exchange, answer_size: int, told: int = 0) -> int:
        """Milliseconds that the client has to wait; its connection is muted for so long. `told`: by the handler already."""
        client, client_id = exchange.client, exchange.header.client_id
        key = exchange.api.key
        if key == PRODUCE:
            told = max(told, self._quotas.produced(client.principal, client_id, exchange.frame_size))
        elif key in (FETCH, SHARE_FETCH):
            told = max(told, self._quotas.fetched(client.principal, client_id, answer_size))
        spent = self._spent + perf_counter() - self._since
        told = max(told, self._quotas.worked(client.principal, client_id, spent))
        if told and client.mute is not None:
            client.mute(told / 1000)
        return told


def forwarded(exchange: Exchange, answer: list[Any]) -> None:
    """Another broker has told the client how long to wait: here its connection is muted."""
    at = response_header_size(exchange.header)
    head = b"".join(answer)[at : at + _THROTTLE.size]
    told = _THROTTLE.unpack(head)[0] if len(head) == _THROTTLE.size else 0
    if told > 0 and exchange.client.mute is not None:
        exchange.client.mute(told / 1000)
