"""Java, franz-go and sarama, through their worker processes."""

import base64
from collections.abc import Sequence
from typing import Any

from interop_tests.support.clients.base import CALL_SECONDS, MAX_REQUEST_BYTES, Fetched, Message, SendError
from interop_tests.support.worker import Worker


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else base64.b64encode(raw).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _message(message: Message) -> dict[str, Any]:
    return {
        "partition": message.partition,
        "key": _text(message.key),
        "value": _text(message.value),
        "headers": [[name, _text(value)] for name, value in message.headers],
        "timestamp": message.timestamp,
    }


def _fetched(record: dict[str, Any]) -> Fetched:
    return Fetched(
        offset=record["offset"],
        value=_bytes(record["value"]),
        key=_bytes(record["key"]),
        headers=tuple((name, _bytes(value)) for name, value in record["headers"]),
        timestamp=record["timestamp"],
        timestamp_type=record["timestamp_type"] if record["timestamp_type"] >= 0 else None,
    )


def _offsets(results: list[dict[str, Any]]) -> list[int]:
    for result in results:
        if result.get("code"):
            raise SendError(result["code"], result["message"])
    return [result["offset"] for result in results]


class Java:
    """The Java client of the worker's class path."""

    def __init__(self, name: str, worker: Worker) -> None:
        self.name = name
        self._worker = worker

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[int]:
        config = {
            "compression.type": codec,
            "acks": acks,
            "enable.idempotence": str(idempotent).lower(),
            "max.request.size": MAX_REQUEST_BYTES,
            "buffer.memory": 2 * MAX_REQUEST_BYTES,
        }
        wanted = [_message(message) for message in messages]
        return _offsets(self._worker.call("produce", bootstrap, topic=topic, messages=wanted, config=config))

    def consume(
        self,
        bootstrap: str,
        topic: str,
        partition: int,
        *,
        start: int,
        count: int,
        seconds: float = CALL_SECONDS,
        read_committed: bool = False,
    ) -> list[Fetched]:
        isolation = "read_committed" if read_committed else "read_uncommitted"
        config = {
            "isolation.level": isolation,
            "auto.offset.reset": "none",
            "fetch.max.wait.ms": 200,
            "enable.auto.commit": "false",
        }
        where = {
            "topic": topic,
            "partition": partition,
            "start": start,
            "count": count,
            "timeout_ms": int(seconds * 1000),
        }
        return [_fetched(record) for record in self._worker.call("consume", bootstrap, config=config, **where)]

    def watermarks(self, bootstrap: str, topic: str, partition: int) -> tuple[int, int]:
        low, high = self._worker.call("watermarks", bootstrap, topic=topic, partition=partition)
        return low, high

    def offset_for_time(self, bootstrap: str, topic: str, partition: int, timestamp: int) -> int | None:
        found: int | None = self._worker.call(
            "offset_for_time", bootstrap, topic=topic, partition=partition, timestamp=timestamp
        )
        return found


class Go:
    """franz-go or sarama."""

    def __init__(self, name: str, worker: Worker) -> None:
        self.name = name
        self._worker = worker

    def call(self, verb: str, bootstrap: str, **arguments: Any) -> Any:
        return self._worker.call(verb, bootstrap, client=self.name, **arguments)

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[int]:
        wanted = [_message(message) for message in messages]
        return _offsets(
            self.call("produce", bootstrap, topic=topic, messages=wanted, codec=codec, acks=acks, idempotent=idempotent)
        )

    def consume(
        self,
        bootstrap: str,
        topic: str,
        partition: int,
        *,
        start: int,
        count: int,
        seconds: float = CALL_SECONDS,
        read_committed: bool = False,
    ) -> list[Fetched]:
        where = {
            "topic": topic,
            "partition": partition,
            "start": start,
            "count": count,
            "timeout_ms": int(seconds * 1000),
        }
        return [_fetched(record) for record in self.call("consume", bootstrap, read_committed=read_committed, **where)]

    def watermarks(self, bootstrap: str, topic: str, partition: int) -> tuple[int, int]:
        low, high = self.call("watermarks", bootstrap, topic=topic, partition=partition)
        return low, high

    def offset_for_time(self, bootstrap: str, topic: str, partition: int, timestamp: int) -> int | None:
        found: int | None = self.call(
            "offset_for_time", bootstrap, topic=topic, partition=partition, timestamp=timestamp
        )
        return found
