"""Kafka requests on behalf of HTTP clients: they use the same handlers, with the same principal.

On this broker, a request is a call of the handler. For another broker, it is sent as a client's frame, and its response is
decoded as a client does. Either way the result is a response with error codes.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kompat.coordination.shards import partition_for
from kompat.errors import ErrorCode, KafkaError, StorageError
from kompat.handlers import BY_KEY
from kompat.handlers.find_coordinator import COORDINATOR_TOPICS, KeyType
from kompat.handlers.support.base import Api, Context
from kompat.handlers.support.forwarded import BrokerFrame, ControllerFrame, ForwardedClient, LongPollFrame
from kompat.handlers.support.in_parts import answer, answer_in_parts
from kompat.handlers.support.parts import cut_for
from kompat.protocol.api_keys import ApiKey
from kompat.protocol.codec import decode_response, encode_request
from kompat.protocol.messages import classes
from kompat.rpc.messages import CONTROLLER
from kompat.types import Buffer, LogId, NodeId

if TYPE_CHECKING:
    from kompat.handlers.support.services import Services

CLIENT_ID = "kompat-http"
PATIENCE = 30.0  # seconds for another broker's response, beyond the wait time of the request
LED_WITHIN = 5.0  # seconds for a partition to have a leader
# The last versions with topic names, which HTTP clients use.
NAMED = {ApiKey.Produce: 12, ApiKey.Fetch: 12}
LONGEST_WAIT = 30.0  # seconds, whatever the throttle time is

_numbers = itertools.count(1)


@dataclass(slots=True)
class Caller:
    """The principal and the addresses of a client."""

    principal: str = "User:ANONYMOUS"
    client_host: str = "127.0.0.1"
    local_address: tuple[str, int] = ("127.0.0.1", 0)  # of the Kafka listener

    @property
    def connection_id(self) -> str:
        return f"http-{self.client_host}"


class Requests:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def send(self, caller: Caller, message: Any, *, to: NodeId | None = None, version: int | None = None) -> Any:
        """The response. `to` is the broker that handles the request: by default this one, or the controller if the API needs it."""
        api = BY_KEY[ApiKey[type(message).__name__.removesuffix("Request")]]
        if version is None:
            version = NAMED.get(api.key, api.versions.high)
        cut = cut_for(api.handler.parts, message)
        try:
            if cut is None:
                response = await self._answer(caller, api, version, message, to)
            else:
                response = await answer_in_parts(
                    api, message, cut, lambda part: self._answer(caller, api, version, part, to), _refusal
                )
        except (StorageError, KafkaError) as error:
            return api.handler.failure(message, _refusal(error))
        if self._services.quotas.is_enabled:
            await self._slow_down(getattr(response, "throttle_time_ms", 0))
        return response

    async def _answer(self, caller: Caller, api: Api, version: int, message: Any, to: NodeId | None) -> Any:
        if to is not None and to != self._services.node_id:
            return await self._at_broker(to, caller, api, version, message)
        if api.handler.is_for_controller(message) and not self._services.cluster.is_controller:
            return await self._at_controller(caller, api, version, message)
        response = await self._here(caller, api, version, message)
        if self._services.quotas.is_enabled:
            self._charge(caller, api.key, message, response)
        return response

    def _charge(self, caller: Caller, key: ApiKey, message: Any, response: Any) -> None:
        """Charge the quotas, as the dispatcher does for clients of Kafka listeners."""
        if key is ApiKey.Produce:
            size = sum(len(p.records or b"") for topic in message.topic_data for p in topic.partition_data)
            waits = self._services.quotas.produced(caller.principal, CLIENT_ID, size)
        elif key is ApiKey.Fetch:
            size = sum(len(joined(p.records)) for topic in response.responses for p in topic.partitions)
            waits = self._services.quotas.fetched(caller.principal, CLIENT_ID, size)
        else:
            return
        response.throttle_time_ms = max(response.throttle_time_ms, waits)

    async def _slow_down(self, throttle_ms: int) -> None:
        """Delay the response: HTTP clients know no throttle time."""
        if throttle_ms > 0:
            await asyncio.sleep(min(throttle_ms / 1000, LONGEST_WAIT))

    async def _here(self, caller: Caller, api: Api, version: int, message: Any) -> Any:
        context = Context(
            services=self._services,
            api_version=version,
            client_id=CLIENT_ID,
            client_host=caller.client_host,
            connection_id=caller.connection_id,
            local_address=caller.local_address,
            principal=caller.principal,
        )
        return await answer(api, context, message)

    async def _at_broker(self, to: NodeId, caller: Caller, api: Api, version: int, message: Any) -> Any:
        waits_ms = getattr(message, "max_wait_ms", 0)
        request = (LongPollFrame if waits_ms else BrokerFrame)(_client(caller), _frame(api, version, message))
        answer = await self._services.cluster.rpc.call(to, request, answered_within=PATIENCE + waits_ms / 1000)
        return decode_response(classes(api.key)[1], version, answer)

    async def _at_controller(self, caller: Caller, api: Api, version: int, message: Any) -> Any:
        request = ControllerFrame(_client(caller), _frame(api, version, message))
        answer = await self._services.cluster.rpc.call(CONTROLLER, request)
        return decode_response(classes(api.key)[1], version, answer)

    # -- leaders and coordinators ----------------------------------------------------------------------------------
    async def to_leader(self, topic: str, partition: int) -> NodeId:
        """The broker that leads a partition. Raises UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE."""
        cluster = self._services.cluster
        found = cluster.topic(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            what = f"topic {topic}" if found is None else f"partition {partition} of {topic}"
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{what[0].upper()}{what[1:]} does not exist.")
        log_id, local = LogId(found.id, partition), cluster.local
        await local.network.until(lambda: local.leader(log_id) is not None, LED_WITHIN)
        leader = local.leader(log_id)
        if leader is None:
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"Partition {partition} of {topic} has no leader at the moment."
            )
        return leader

    async def to_coordinator(self, key: str, kind: KeyType = KeyType.GROUP) -> NodeId:
        """The broker that coordinates a group, or a transactional id. Raises LEADER_NOT_AVAILABLE, NOT_CONTROLLER."""
        topic = await self._services.cluster.ensure_internal_topic(COORDINATOR_TOPICS[kind])
        return await self.to_leader(topic.name, partition_for(key, len(topic.partitions)))


def _refusal(error: Exception) -> KafkaError:
    """The error for the response. Raises errors that Kafka has no code for."""
    if isinstance(error, StorageError):
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    if not isinstance(error, KafkaError):
        raise error
    return error


def joined(records: Buffer | Sequence[Buffer] | None) -> bytes:
    """The records of a Fetch: several buffers of this broker, or one of another broker."""
    if records is None:
        return b""
    if isinstance(records, (bytes, bytearray, memoryview)):
        return bytes(records)
    return b"".join(records)


def _client(caller: Caller) -> ForwardedClient:
    return ForwardedClient(caller.client_host, caller.connection_id, caller.local_address, caller.principal)


def _frame(api: Api, version: int, message: Any) -> memoryview:
    number = next(_numbers) & 0x7FFFFFFF
    request = classes(api.key)[0]
    return memoryview(encode_request(request, version, message, correlation_id=number, client_id=CLIENT_ID))
