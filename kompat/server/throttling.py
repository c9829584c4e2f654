"""Charges a request to its client's quotas. Its response is sent at once, with the throttle time.

For that time no request of the connection is begun, so a client that ignores the throttle time is slowed all the same.
"""

from __future__ import annotations

from struct import Struct
from time import perf_counter
from typing import TYPE_CHECKING, Any

from kompat.handlers.support.loop_time import LoopTime
from kompat.protocol.api_keys import ApiKey
from kompat.protocol.codec import response_header_size

if TYPE_CHECKING:
    from kompat.cluster.client_quotas import ClientQuotas
    from kompat.server.dispatch import Exchange

_THROTTLE = Struct(">i")  # the first field in the responses of all APIs that are forwarded


class Bill(LoopTime):
    """The cost of one request: its time on the event loop, and its bytes."""

    __slots__ = ("_quotas",)

    def __init__(self, quotas: ClientQuotas, begun: float) -> None:
        super().__init__(begun)
        self._quotas = quotas

    def charge(self, exchange: Exchange, answer_size: int, throttle_ms: int = 0) -> int:
        """The throttle time, for which the connection is muted. `throttle_ms`: the one that the handler has set already."""
        client, client_id = exchange.client, exchange.header.client_id
        key = exchange.api.key
        if key == ApiKey.Produce:
            throttle_ms = max(throttle_ms, self._quotas.produced(client.principal, client_id, exchange.frame_size))
        elif key in (ApiKey.Fetch, ApiKey.ShareFetch):
            throttle_ms = max(throttle_ms, self._quotas.fetched(client.principal, client_id, answer_size))
        spent = self.spent + perf_counter() - self._since
        throttle_ms = max(throttle_ms, self._quotas.worked(client.principal, client_id, spent))
        if throttle_ms and client.mute is not None:
            client.mute(throttle_ms / 1000)
        return throttle_ms


def passed_on(exchange: Exchange, answer: list[Any]) -> list[Any]:
    """Another broker's response. It contains the throttle time: here the connection is muted for it."""
    if exchange.bill is None:
        return answer
    at = response_header_size(exchange.header)
    head = b"".join(answer)[at : at + _THROTTLE.size]
    throttle_ms = _THROTTLE.unpack(head)[0] if len(head) == _THROTTLE.size else 0
    if throttle_ms > 0 and exchange.client.mute is not None:
        exchange.client.mute(throttle_ms / 1000)
    return answer
