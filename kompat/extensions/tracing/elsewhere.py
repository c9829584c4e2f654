"""Events for partitions of `__kompat_trace` that other brokers lead: a broker that leads none of them sends its own there."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from typing import Any

from kompat.extensions.anywhere import Anywhere
from kompat.extensions.tracing.index import Names
from kompat.log.commit import Pending
from kompat.log.partition import Partition

Append = Callable[[Partition, bytearray, Names], Pending]


class Elsewhere:
    def __init__(self, topic: str, anywhere: Anywhere, append: Append) -> None:
        """`append` writes what other brokers send."""
        self._topic = topic
        self._anywhere = anywhere
        self._append = append
        anywhere.serve("trace-write", self._on_write)

    def exists(self) -> bool:
        return self._anywhere.exists(self._topic)

    async def send(self, spread: int, batch: bytearray, names: Names) -> None:
        """Until it is committed. Raises KafkaError."""
        places = self._anywhere.places(self._topic)
        place = places[spread % len(places)]
        others = [[_text(name), _text(value)] for name, value in names.others.items()]
        told = [place.topic_id.hex, place.partition, _text(batch), [each.hex() for each in names.trace_ids], others]
        await self._anywhere.ask(place, "trace-write", told)

    async def _on_write(self, told: Sequence[Any]) -> None:
        partition = self._anywhere.required(told)
        batch, trace_ids, others = told[2:]
        names = Names([bytes.fromhex(each) for each in trace_ids], {b64decode(n): b64decode(v) for n, v in others})
        await self._append(partition, bytearray(b64decode(batch)), names).wait()


def _text(value: bytes | bytearray) -> str:
    return b64encode(value).decode()
