"""Kafka's requests, made by the broker itself for whoever came by HTTP: the same handlers, under the name of the same user.

Here, they are a call. Where another broker has to answer, they go over the link to it as a client's frame would, and what
comes back is read as a client would read it. Either way a response comes back, and what failed stands in its error codes.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Any, cast

from kompat.cluster.calls import Call
from kompat.coordination.shards import home_of
from kompat.errors import ErrorCode, KafkaError, PeerError, StorageError
from kompat.handlers import APIS
from kompat.handlers.base import Api, Context
from kompat.handlers.find_coordinator import HOMES, KeyType
from kompat.protocol.codec import decode_response, encode_request
from kompat.protocol.messages import classes
from kompat.types import Buffer, LogId, NodeId

if TYPE_CHECKING:
    from kompat.cluster.member import Member
    from kompat.handlers.services import Services

CLIENT_ID = "kompat-http"
PATIENCE = 30.0  # seconds for another broker's answer, beyond what the request itself asks it to wait
LED_WITHIN = 5.0  # seconds for a partition to have a leader
# These know topics by name up to here, as whoever comes by HTTP does.
PRODUCE, FETCH = 0, 1
NAMED = {PRODUCE: 12, FETCH: 12}
LONGEST_WAIT = 30.0  # seconds, whatever a quota says

_CLIENT_SIZE = Struct(">H")
_numbers = itertools.count(1)


@dataclass(slots=True)
class Caller:
    """Who asks, and from where."""

    principal: str = "User:ANONYMOUS"
    client_host: str = "127.0.0.1"
    local_address: tuple[str, int] = ("127.0.0.1", 0)  # of Kafka's port, as this broker knows it

    @property
    def connection_id(self) -> str:
        return f"http-{self.client_host}"


class Requests:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._apis = {api.key: api for api in APIS}

    async def send(self, caller: Caller, message: Any, *, to: NodeId | None = None, version: int | None = None) -> Any:
        """The response. `to`: the broker that has to answer; else this one, or the controller where the API is for it."""
        api = self._apis[_key(message)]
        if version is None:
            version = NAMED.get(api.key, api.versions.high)
        try:
            response = await self._answer(caller, api, version, message, to)
        except StorageError as error:
            return api.failure(message, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
        except KafkaError as error:
            return api.failure(message, error)
        if self._services.quotas.is_enabled:
            await self._slow_down(getattr(response, "throttle_time_ms", 0))
        return response

    async def _answer(self, caller: Caller, api: Api[Any, Any], version: int, message: Any, to: NodeId | None) -> Any:
        member = self._services.cluster.member
        if member is not None and to is not None and to != self._services.node_id:
            return await self._at_peer(member, to, caller, api, version, message)
        if member is not None and api.is_for_controller(message) and not member.controller.is_here:
            return await self._at_controller(member, caller, api, version, message)
        response = await self._here(caller, api, version, message)
        if self._services.quotas.is_enabled:
            self._charge(caller, api.key, message, response)
        return response

    def _charge(self, caller: Caller, key: int, message: Any, response: Any) -> None:
        """As the dispatcher does it for those who come by Kafka's port."""
        if key == PRODUCE:
            size = sum(len(p.records or b"") for topic in message.topic_data for p in topic.partition_data)
            waits = self._services.quotas.produced(caller.principal, CLIENT_ID, size)
        elif key == FETCH:
            size = sum(len(joined(p.records)) for topic in response.responses for p in topic.partitions)
            waits = self._services.quotas.fetched(caller.principal, CLIENT_ID, size)
        else:
            return
        response.throttle_time_ms = max(response.throttle_time_ms, waits)

    async def _slow_down(self, told_ms: int) -> None:
        """Who comes by HTTP is not told how long to wait, but made to."""
        if told_ms > 0:
            await asyncio.sleep(min(told_ms / 1000, LONGEST_WAIT))

    async def _here(self, caller: Caller, api: Api[Any, Any], version: int, message: Any) -> Any:
        context = Context(
            services=self._services,
            api_version=version,
            client_id=CLIENT_ID,
            client_host=caller.client_host,
            connection_id=caller.connection_id,
            local_address=caller.local_address,
            principal=caller.principal,
        )
        result = api.handle(context, message)
        return await cast("Awaitable[Any]", result) if hasattr(result, "__await__") else result

    async def _at_peer(
        self, member: Member, to: NodeId, caller: Caller, api: Api[Any, Any], version: int, message: Any
    ) -> Any:
        seconds = PATIENCE + getattr(message, "max_wait_ms", 0) / 1000
        try:
            answer = await member.peers.call(to, Call.REQUEST, _frame(caller, api, version, message), seconds)
        except PeerError as lost:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {to} has not answered: {lost}") from lost
        return decode_response(classes(api.key)[1], version, answer)

    async def _at_controller(
        self, member: Member, caller: Caller, api: Api[Any, Any], version: int, message: Any
    ) -> Any:
        answer = await member.controller.call(Call.FORWARD, _frame(caller, api, version, message))
        return decode_response(classes(api.key)[1], version, answer)

    # -- whom to ask -----------------------------------------------------------------------------------------------
    async def to_leader(self, topic: str, partition: int) -> NodeId:
        """The broker that leads a partition. Raises UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE."""
        cluster = self._services.cluster
        found = cluster.topic(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            what = f"topic {topic}" if found is None else f"partition {partition} of {topic}"
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no {what}.")
        member = cluster.member
        if member is None:
            return self._services.node_id
        log_id = LogId(found.id, partition)
        await member.network.until(lambda: _leader(member, log_id) is not None, LED_WITHIN)
        leader = _leader(member, log_id)
        if leader is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"Nobody leads partition {partition} of {topic} now.")
        return leader

    async def to_coordinator(self, key: str, kind: KeyType = KeyType.GROUP) -> NodeId:
        """The broker that coordinates a group, or a transactional id. Raises LEADER_NOT_AVAILABLE, NOT_CONTROLLER."""
        cluster = self._services.cluster
        if cluster.member is None:
            return self._services.node_id
        topic = await cluster.ensure_internal_topic(HOMES[kind])
        return await self.to_leader(topic.name, home_of(key, len(topic.partitions)))


def joined(records: Buffer | Sequence[Buffer] | None) -> bytes:
    """The records of a Fetch: buffers here, one from another broker."""
    if records is None:
        return b""
    if isinstance(records, (bytes, bytearray, memoryview)):
        return bytes(records)
    return b"".join(records)


def _leader(member: Member, log_id: LogId) -> NodeId | None:
    led = member.leaders.of(log_id)
    return None if led is None else led.leader


def _key(message: Any) -> int:
    schema = getattr(type(message), "SCHEMA", None)
    if schema is not None:
        return int(schema.api_key)
    return _BY_HAND[type(message).__name__]


_BY_HAND = {"ProduceRequest": 0, "FetchRequest": 1}  # whose classes have no schema


def _frame(caller: Caller, api: Api[Any, Any], version: int, message: Any) -> list[Buffer]:
    """As `server.forwarding` reads it: who the client is, then its request."""
    told = json.dumps([caller.client_host, caller.connection_id, caller.local_address, caller.principal]).encode()
    request = encode_request(
        classes(api.key)[0], version, message, correlation_id=next(_numbers) & 0x7FFFFFFF, client_id=CLIENT_ID
    )
    return [_CLIENT_SIZE.pack(len(told)), told, request]
