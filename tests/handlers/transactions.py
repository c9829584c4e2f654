"""Transactional producers, spoken for request by request."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

from kompat.errors import ErrorCode
from kompat.protocol.records import Record, build_batch
from tests.handlers.conftest import Asker

NUMBERS = count()
PATIENCE = 10.0  # seconds
T = TypeVar("T")


def eventually(look: Callable[[], T], is_it: Callable[[T], bool]) -> T:
    """What comes to be true in its own time, such as the markers of an end that is decided."""
    deadline = time.monotonic() + PATIENCE
    while not is_it(found := look()):
        assert time.monotonic() < deadline, found
        time.sleep(0.01)
    return found


@dataclass
class Transactional:
    """A producer with a transactional id; `version` is that of EndTxn: 5 gets a new epoch with every end."""

    ask: Asker
    name: str
    id: int = -1
    epoch: int = -1
    version: int = 3

    def init(self, version: int = 5, timeout_ms: int = 60_000, **fields: Any) -> ErrorCode:
        """Asks again while the transaction before is being ended, as clients do."""
        request = {"transactional_id": self.name, "transaction_timeout_ms": timeout_ms, **fields}
        answer = eventually(
            lambda: self.ask("InitProducerId", version, **request),
            lambda answer: bool(answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS),
        )
        if answer.error_code == ErrorCode.NONE:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return ErrorCode(answer.error_code)

    def add(self, topic: str, *indices: int, version: int = 3, verify_only: bool = False) -> list[ErrorCode]:
        topics = [{"name": topic, "partitions": list(indices or [0])}]
        if version < 4:
            fields = {"transactional_id": self.name, "producer_id": self.id, "producer_epoch": self.epoch}
            request = {f"v3_and_below_{name}": value for name, value in {**fields, "topics": topics}.items()}
            [result] = self.ask("AddPartitionsToTxn", version, **request).results_by_topic_v3_and_below
        else:
            transaction = {
                "transactional_id": self.name,
                "producer_id": self.id,
                "producer_epoch": self.epoch,
                "verify_only": verify_only,
                "topics": topics,
            }
            answer = self.ask("AddPartitionsToTxn", version, transactions=[transaction])
            [result] = answer.results_by_transaction[0].topic_results
        return [ErrorCode(each.partition_error_code) for each in result.results_by_partition]

    def add_group(self, group: str, version: int = 4) -> ErrorCode:
        producer = {"transactional_id": self.name, "producer_id": self.id, "producer_epoch": self.epoch}
        return ErrorCode(self.ask("AddOffsetsToTxn", version, group_id=group, **producer).error_code)

    def commit_offsets(
        self, group: str, topic: str, offset: int = 7, version: int = 5, **fields: Any
    ) -> list[ErrorCode]:
        indices = fields.pop("partitions", [0])
        partitions = [{"partition_index": i, "committed_offset": offset} for i in indices]
        request = {
            "transactional_id": self.name,
            "producer_id": self.id,
            "producer_epoch": self.epoch,
            "group_id": group,
            "topics": [{"name": topic, "partitions": partitions}],
            **fields,
        }
        [told] = self.ask("TxnOffsetCommit", version, **request).topics
        return [ErrorCode(each.error_code) for each in told.partitions]

    def produce(self, topic: str, sequence: int = 0, version: int = 9) -> ErrorCode:
        """One record to partition 0."""
        batch = build_batch(
            [Record(0, int(time.time() * 1000), None, b"value", [])],
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        data = [{"name": topic, "partition_data": [{"index": 0, "records": bytes(batch)}]}]
        request = {"transactional_id": self.name, "acks": -1, "timeout_ms": 1000, "topic_data": data}
        answer = self.ask("Produce", version, **request)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    def end(self, *, commit: bool = True) -> Any:
        producer = {"transactional_id": self.name, "producer_id": self.id, "producer_epoch": self.epoch}
        return self.ask("EndTxn", self.version, committed=commit, **producer)

    def commit(self) -> None:
        self._end(commit=True)

    def abort(self) -> None:
        self._end(commit=False)

    def _end(self, *, commit: bool) -> None:
        answer = self.end(commit=commit)
        assert answer.error_code == ErrorCode.NONE, answer
        if self.version >= 5:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        ended = "CompleteCommit" if commit else "CompleteAbort"
        eventually(self.state, lambda state: state == ended)

    def describe(self) -> Any:
        [described] = self.ask("DescribeTransactions", 0, transactional_ids=[self.name]).transaction_states
        return described

    def state(self) -> str:
        return str(self.describe().transaction_state)


def a_producer(ask: Asker, **fields: Any) -> Transactional:
    producer = Transactional(ask, f"transactional-{next(NUMBERS)}", **fields)
    assert producer.init() is ErrorCode.NONE
    return producer


def latest(ask: Asker, topic: str, *, committed: bool) -> int:
    """Where a reader of all, or of what is committed, stands at the end of partition 0."""
    asked = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    answer = ask("ListOffsets", 9, replica_id=-1, isolation_level=int(committed), topics=asked)
    return int(answer.topics[0].partitions[0].offset)


FENCED_SINCE = 2  # version of AddPartitionsToTxn and EndTxn that knows PRODUCER_FENCED


def fenced(version: int) -> ErrorCode:
    return ErrorCode.PRODUCER_FENCED if version >= FENCED_SINCE else ErrorCode.INVALID_PRODUCER_EPOCH
