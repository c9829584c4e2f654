"""A transactional id's state, as one record of `__transaction_state` holds it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from kompat.types import TopicPartition

NO_PRODUCER_ID = -1
NO_EPOCH = -1
NO_TIME = -1
LAST_CLIENT_EPOCH = 2**15 - 2  # the one above is left for fencing the producer that holds this one


class State(IntEnum):
    """Kafka's states by Kafka's numbers.

    EMPTY ─add→ ONGOING ─end→ PREPARE_COMMIT ─markers written→ COMPLETE_COMMIT ─add→ ONGOING …
                        └───→ PREPARE_ABORT  ─markers written→ COMPLETE_ABORT  ─add→ ONGOING …
    """

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def wire_name(self) -> str:
        return "".join(word.capitalize() for word in self.name.split("_"))


PREPARED = (State.PREPARE_COMMIT, State.PREPARE_ABORT)
COMPLETED = (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """Everything the coordinator knows of a transactional id. Never changed, only replaced, by applying a record."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: State
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID  # used after the transaction completes, if the epochs are exhausted
    last_producer_epoch: int = NO_EPOCH
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIME
    updated_ms: int = NO_TIME
    client_version: int = 0  # `transaction.version` of the client; 2 bumps the epoch with every transaction

    @property
    def epoch_exhausted(self) -> bool:
        return self.producer_epoch >= LAST_CLIENT_EPOCH
