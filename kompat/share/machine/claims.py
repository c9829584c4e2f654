"""Acknowledgements of single records by receipt: they are valid as long as the record was not delivered to another client.

The lock may have expired, or the broker may have been restarted: unless the record was delivered again, the acknowledgement
of its last holder is still valid. Repeating an acknowledgement is no error, because responses get lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final, NamedTuple

from kompat.errors import ErrorCode, KafkaError
from kompat.share.machine.acquisition import AcquisitionState
from kompat.share.machine.messages import AckBatch, AckType, Outcome, RecordState, Update
from kompat.share.machine.settings import ShareSettings
from kompat.types import Millis

# Of a share partition. A client can make up acknowledgements of any record: they must not fill the memory.
MOST_RUNS: Final = 20_000


class RecordAcknowledgement(NamedTuple):
    """The acknowledgement of one record."""

    offset: int
    member: str  # that acquired it
    deliveries: int  # the delivery count at that time
    kind: AckType
    wait_ms: int | None = None  # RELEASE: the back-off; RENEW: the lock duration; None: the group's setting


def validate(machine: AcquisitionState, ack: RecordAcknowledgement, settings: ShareSettings) -> bool:
    """Whether it changes anything: a repeated one does not. Raises KafkaError if it is not valid any more."""
    if ack.kind is AckType.RENEW and not settings.can_renew:
        raise _stale("this group's settings do not allow to renew a lock")
    if ack.offset < machine.start_offset:
        return _validate_repeated(ack, machine.passed.was_accepted(ack.offset))
    run = machine.at(ack.offset)
    if run is None:
        return _can_remember(machine)
    if run.state is RecordState.ACQUIRED:
        if run.member == ack.member:
            return True
        raise _stale(f"the record at offset {ack.offset} has been given to somebody else")
    if run.state is RecordState.AVAILABLE:
        if run.deliveries <= ack.deliveries:
            return True
        raise _stale(f"the record at offset {ack.offset} has been delivered again")
    return _validate_repeated(ack, run.state is RecordState.ACKNOWLEDGED)


def _validate_repeated(ack: RecordAcknowledgement, is_accepted: bool | None) -> bool:
    """Validate the acknowledgement of a record in a terminal state. If that state is not known any more, as after a restart, an
    ACCEPT is valid, since the record will not be delivered again; a REJECT is not, since there may be no dead-letter record."""
    if ack.kind is AckType.ACCEPT and is_accepted is not False:
        return False
    if ack.kind is AckType.REJECT and is_accepted is False:
        return False
    how = {True: "accepted", False: "given up", None: "done with before"}[is_accepted]
    raise _stale(f"the record at offset {ack.offset} was {how}")


def _can_remember(machine: AcquisitionState) -> bool:
    if machine.fragments >= MOST_RUNS:
        raise _stale(
            "the group has too much in mind to take an acknowledgement of a record that nobody is known to hold"
        )
    return True


def acknowledge(
    machine: AcquisitionState, acks: Sequence[RecordAcknowledgement], settings: ShareSettings, now: Millis
) -> Outcome:
    """Accept all of them, or none. Raises KafkaError."""
    found: dict[int, RecordAcknowledgement] = {}
    for each in acks:
        if found.setdefault(each.offset, each) != each:
            raise _stale(f"there are two acknowledgements of offset {each.offset}")
    due = [each for each in found.values() if validate(machine, each, settings)]
    for each in due:
        run = machine.at(each.offset)
        if run is None or run.state is not RecordState.ACQUIRED:
            machine.claim(each.member, each.offset, each.deliveries, settings, now)
    outcome = Outcome(None, [])
    for _, together in groupby(sorted(due, key=lambda each: (_together(each), each.offset)), key=_together):
        alike = list(together)
        batches = [AckBatch(each.offset, each.offset, [each.kind]) for each in alike]
        part = machine.acknowledge(alike[0].member, batches, _tuned(settings, alike[0]), now)
        outcome = Outcome(_joined(outcome.update, part.update), [*outcome.dead, *part.dead])
    return outcome


def is_held(machine: AcquisitionState, offset: int, member: str) -> bool:
    run = machine.at(offset)
    return run is not None and run.state is RecordState.ACQUIRED and run.member == member


def _together(ack: RecordAcknowledgement) -> tuple[str, int, int]:
    """The key of what can be acknowledged together: one member, the same settings."""
    return (ack.member, -1, -1) if ack.wait_ms is None else (ack.member, ack.wait_ms, ack.kind)


def _tuned(settings: ShareSettings, ack: RecordAcknowledgement) -> ShareSettings:
    if ack.wait_ms is None:
        return settings
    if ack.kind is AckType.RENEW:
        return replace(settings, lock_ms=ack.wait_ms)
    return replace(settings, backoff_ms=ack.wait_ms, receipt_backoff_ms=ack.wait_ms, max_backoff_ms=ack.wait_ms)


def _joined(first: Update | None, then: Update | None) -> Update | None:
    """Two updates, one after the other, as one."""
    if first is None or then is None:
        return then or first
    kept = [batch for batch in first.batches if batch.last >= then.start_offset]
    return Update(then.start_offset, then.complete_count, (*kept, *then.batches))


def _stale(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD_STATE, message)
