"""What replaces damaged batches, and what to do where nothing can. Pure; mending.py uses it.

Replicas have the same bytes at the same offsets, except for what each of them has compacted by itself. So another's batch is taken only if it
has the size and the newest timestamp that this broker has noted beside its own; where the log is compacted, any batch that ends at the
same offset: it holds what another replica still needs of these records, and so does this one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from kompat.log.storage.store import Rewrite, StoredBatch
from kompat.protocol.records import BatchHeader, empty_batch, read_header
from kompat.types import Buffer, Millis, NodeId, Offset


@dataclass(frozen=True, slots=True)
class Offer:
    """What another replica has from an offset on."""

    batches: Mapping[int, Buffer]  # by base offset
    end: Offset  # it is all before this


def replacements(damaged: Sequence[StoredBatch], offer: Offer, *, is_compacted: bool) -> list[Rewrite]:
    """As many of the damaged batches as the offer has an answer to."""
    found = []
    for stored in damaged:
        content = offer.batches.get(stored.base_offset)
        if content is None:
            if is_compacted and stored.last_offset < offer.end:
                found.append(_rewrite(stored, _empty_batch(stored)))
        elif _is_replacement(stored, content, is_compacted=is_compacted):
            found.append(_rewrite(stored, content))
    return found


def _is_replacement(stored: StoredBatch, content: Buffer, *, is_compacted: bool) -> bool:
    header = read_header(content)
    if header.last_offset != stored.last_offset:
        return False
    return is_compacted or (len(content), header.max_timestamp) == (stored.size, stored.max_timestamp)


def _rewrite(stored: StoredBatch, content: Buffer) -> Rewrite:
    return Rewrite(stored.base_offset, stored.last_offset, Millis(read_header(content).max_timestamp), content)


def _empty_batch(stored: StoredBatch) -> bytearray:
    """All of its records were compacted away on another replica."""
    time = stored.max_timestamp
    delta = stored.last_offset - stored.base_offset
    return empty_batch(BatchHeader(stored.base_offset, 0, 0, 2, 0, 0, delta, time, time, -1, -1, -1, 0))


class Answer(Enum):
    """The outcome of a request to one replica."""

    MENDED = auto()  # its batch is in the log
    UNUSABLE = auto()  # it has the batch, but this broker cannot put it into its log
    HAS_NONE = auto()  # its own is damaged, too, or it does not have it
    SILENT = auto()  # it could not be reached, or does not know yet


class Conclusion(Enum):
    MENDED = auto()
    HAND_OVER = auto()  # another replica can lead, and serve what this one cannot
    WAIT = auto()  # a replica that could not be reached may have it
    LOST = auto()  # no replica has it


def conclude(answers: Mapping[NodeId, Answer], voters: Sequence[NodeId]) -> tuple[Conclusion, NodeId | None]:
    """The conclusion from all answers, and the new leader, if there is to be one."""
    if Answer.MENDED in answers.values():
        return Conclusion.MENDED, None
    better = [node for node, answer in answers.items() if answer is Answer.UNUSABLE]
    to = next((node for node in better if node in voters), None)
    if to is not None:
        return Conclusion.HAND_OVER, to
    if better or Answer.SILENT in answers.values():
        return Conclusion.WAIT, None
    return Conclusion.LOST, None
