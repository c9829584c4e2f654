"""Words about single records, by whoever was given them: they count as long as the record was not given to somebody else.

A lock may have ended meanwhile, or the process that knew of it: as long as nobody else has had the record, its last
holder's word is still good. Of what is done with already, to say the same again is no error: answers get lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final, NamedTuple

from kompat.errors import ErrorCode, KafkaError
from kompat.share.machine.messages import AckBatch, AckType, Outcome, RecordState, Update
from kompat.share.machine.partition import SharePartition
from kompat.share.machine.settings import ShareSettings
from kompat.types import Millis

# Of a share partition. Whoever has had nothing can say something of any record: that must not fill the memory.
MOST_RUNS: Final = 20_000


class Said(NamedTuple):
    """What is said of one record."""

    offset: int
    member: str  # that it was given to
    deliveries: int  # how often it had been delivered then
    kind: AckType
    wait_ms: int | None = (
        None  # RELEASE: how long nobody gets it; RENEW: how long the lock is; None: as the group has it
    )


def judge(machine: SharePartition, said: Said, settings: ShareSettings) -> bool:
    """Whether it changes anything: not where all is done already. KafkaError where the word does not count any more."""
    if said.kind is AckType.RENEW and not settings.can_renew:
        raise _stale("this group's settings do not allow to renew a lock")
    if said.offset < machine.start_offset:
        return _judge_again(said, machine.passed.was_accepted(said.offset))
    run = machine.at(said.offset)
    if run is None:
        return _can_remember(machine)
    if run.state is RecordState.ACQUIRED:
        if run.member == said.member:
            return True
        raise _stale(f"the record at offset {said.offset} has been given to somebody else")
    if run.state is RecordState.AVAILABLE:
        if run.deliveries <= said.deliveries:
            return True
        raise _stale(f"the record at offset {said.offset} has been delivered again")
    return _judge_again(said, run.state is RecordState.ACKNOWLEDGED)


def _judge_again(said: Said, is_accepted: bool | None) -> bool:
    """Of a record that is done with. Where nobody knows any more how, as after a restart, it is true that it will not come again,
    but not that it has a dead letter."""
    if said.kind is AckType.ACCEPT and is_accepted is not False:
        return False
    if said.kind is AckType.REJECT and is_accepted is False:
        return False
    how = {True: "accepted", False: "given up", None: "done with before"}[is_accepted]
    raise _stale(f"the record at offset {said.offset} was {how}")


def _can_remember(machine: SharePartition) -> bool:
    if machine.fragments >= MOST_RUNS:
        raise _stale("the group has too much in mind to take a word about a record that nobody is known to hold")
    return True


def settle(machine: SharePartition, said: Sequence[Said], settings: ShareSettings, now: Millis) -> Outcome:
    """Take everybody's word: all of it, or none. Raises KafkaError."""
    found: dict[int, Said] = {}
    for each in said:
        if found.setdefault(each.offset, each) != each:
            raise _stale(f"two things are said of offset {each.offset}")
    due = [each for each in found.values() if judge(machine, each, settings)]
    for each in due:
        run = machine.at(each.offset)
        if run is None or run.state is not RecordState.ACQUIRED:
            machine.claim(each.member, each.offset, each.deliveries, settings, now)
    outcome = Outcome(None, [])
    for _, together in groupby(sorted(due, key=lambda each: (_breath(each), each.offset)), key=_breath):
        words = list(together)
        batches = [AckBatch(each.offset, each.offset, [each.kind]) for each in words]
        part = machine.acknowledge(words[0].member, batches, _tuned(settings, words[0]), now)
        outcome = Outcome(_joined(outcome.update, part.update), [*outcome.dead, *part.dead])
    return outcome


def is_held(machine: SharePartition, offset: int, member: str) -> bool:
    run = machine.at(offset)
    return run is not None and run.state is RecordState.ACQUIRED and run.member == member


def _breath(said: Said) -> tuple[str, int, int]:
    """What can be said in one: of one member, under the same settings."""
    return (said.member, -1, -1) if said.wait_ms is None else (said.member, said.wait_ms, said.kind)


def _tuned(settings: ShareSettings, said: Said) -> ShareSettings:
    if said.wait_ms is None:
        return settings
    if said.kind is AckType.RENEW:
        return replace(settings, lock_ms=said.wait_ms)
    return replace(settings, backoff_ms=said.wait_ms, receipt_backoff_ms=said.wait_ms, max_backoff_ms=said.wait_ms)


def _joined(first: Update | None, then: Update | None) -> Update | None:
    """Two changes, one after the other, as one."""
    if first is None or then is None:
        return then or first
    kept = [batch for batch in first.batches if batch.last >= then.start_offset]
    return Update(then.start_offset, then.complete_count, (*kept, *then.batches))


def _stale(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD_STATE, message)
