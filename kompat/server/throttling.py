"""What a request costs by its client's quotas. Its answer goes out at once and says how long the client is to wait.

For as long nothing more of the connection is begun: who does not heed what it is told is slowed all the same.
"""

from __future__ import annotations

from struct import Struct
from time import perf_counter
from typing import TYPE_CHECKING, Any

from kompat.handlers.loop_time import LoopTime
from kompat.protocol.codec import response_header_size

if TYPE_CHECKING:
    from kompat.cluster.client_quotas import ClientQuotas
    from kompat.server.dispatch import Exchange

PRODUCE, FETCH, SHARE_FETCH = 0, 1, 78

_THROTTLE = Struct(">i")  # stands first in the answers of all APIs that are forwarded


class Bill(LoopTime):
    """Of one request: the time that it takes of the event loop, and its bytes."""

    __slots__ = ("_quotas",)

    def __init__(self, quotas: ClientQuotas, begun: float) -> None:
        super().__init__(begun)
        self._quotas = quotas

    def settle(self, exchange: Exchange, answer_size: int, told: int = 0) -> int:
        """Milliseconds that the client has to wait; its connection is muted for so long. `told`: by the handler already."""
        client, client_id = exchange.client, exchange.header.client_id
        key = exchange.api.key
        if key == PRODUCE:
            told = max(told, self._quotas.produced(client.principal, client_id, exchange.frame_size))
        elif key in (FETCH, SHARE_FETCH):
            told = max(told, self._quotas.fetched(client.principal, client_id, answer_size))
        spent = self.spent + perf_counter() - self._since
        told = max(told, self._quotas.worked(client.principal, client_id, spent))
        if told and client.mute is not None:
            client.mute(told / 1000)
        return told


def passed_on(exchange: Exchange, answer: list[Any]) -> list[Any]:
    """Another broker's answer. It has told the client how long to wait: here its connection is muted."""
    if exchange.bill is None:
        return answer
    at = response_header_size(exchange.header)
    head = b"".join(answer)[at : at + _THROTTLE.size]
    told = _THROTTLE.unpack(head)[0] if len(head) == _THROTTLE.size else 0
    if told > 0 and exchange.client.mute is not None:
        exchange.client.mute(told / 1000)
    return answer
