"""What brokers tell each other of share partitions' states, as JSON has it: lists of numbers and texts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from kompat.share.machine.messages import RecordState, StateBatch, Update
from kompat.share.machine.state import Stored, Summary
from kompat.share.records import ShareKey
from kompat.types import Offset


def key(of: ShareKey) -> list[Any]:
    return [of.group_id, of.topic_id.hex, of.partition]


def read_key(told: Sequence[Any]) -> ShareKey:
    return ShareKey(told[0], UUID(told[1]), told[2])


def stored(of: Stored) -> list[Any]:
    return [of.start_offset, of.state_epoch, of.batches]


def read_stored(told: Sequence[Any]) -> Stored:
    return Stored(Offset(told[0]), told[1], _read_batches(told[2]))


def update(of: Update) -> list[Any]:
    return [of.start_offset, of.complete_count, of.batches]


def read_update(told: Sequence[Any]) -> Update:
    return Update(Offset(told[0]), told[1], _read_batches(told[2]))


def summary(of: Summary) -> list[Any]:
    return [of.start_offset, of.complete_count, of.leader_epoch, of.state_epoch]


def read_summary(told: Sequence[Any]) -> Summary:
    start, complete, leader_epoch, state_epoch = told
    return Summary(
        start_offset=Offset(start), complete_count=complete, leader_epoch=leader_epoch, state_epoch=state_epoch
    )


def _read_batches(told: Iterable[Sequence[int]]) -> tuple[StateBatch, ...]:
    return tuple(StateBatch(first, last, RecordState(state), count) for first, last, state, count in told)
