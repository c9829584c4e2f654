"""Applies records: the only place where groups are created and removed."""

from collections.abc import Sequence
from typing import Any, get_args

from kompat.groups.machine.classic import ClassicGroup
from kompat.groups.machine.consumer import ConsumerGroup
from kompat.groups.machine.modern import GroupKind, ModernGroup
from kompat.groups.machine.offsets import Offsets
from kompat.groups.machine.state import GroupState
from kompat.groups.records import (
    ConsumerGroupMetadata,
    ConsumerGroupRecord,
    EndTransaction,
    GroupMetadata,
    GroupMetadataValue,
    GroupRecord,
    OffsetCommit,
)


class Replay:
    def __init__(self, state: GroupState, offsets: Offsets, kinds: Sequence[GroupKind]) -> None:
        self._state = state
        self._offsets = offsets
        self._groups: dict[type, type[ModernGroup[Any]]] = {
            **dict.fromkeys(get_args(ConsumerGroupRecord), ConsumerGroup),
            **{record: kind.group_class for kind in kinds for record in kind.record_classes},
        }
        self._ends = {ConsumerGroupMetadata, *(next(iter(kind.record_classes)) for kind in kinds)}

    def apply(self, record: GroupRecord) -> None:
        if isinstance(record, OffsetCommit):
            if record.value is not None and record.group_id not in self._state.groups:
                self._state.groups[record.group_id] = ClassicGroup(record.group_id)
            self._offsets.apply(record)
        elif isinstance(record, GroupMetadata):
            self._apply_classic(record.group_id, record.value)
        elif isinstance(record, EndTransaction):
            self._offsets.apply_end(record)
        elif (group_class := self._groups.get(type(record))) is not None:
            self._apply_modern(record, group_class)

    def _apply_classic(self, group_id: str, value: GroupMetadataValue | None) -> None:
        known = self._state.groups.get(group_id)
        if value is None:
            # After a group was converted to another type, this record may be older than the group.
            if isinstance(known, ClassicGroup):
                del self._state.groups[group_id]
            return
        group = self._state.prepared.pop(group_id, None)
        if group is None and self._state.is_live and isinstance(known, ClassicGroup):
            group = known  # the command has already changed what its record says
        if isinstance(known, ModernGroup):
            known.unfollow()
        if group is None:
            group = ClassicGroup.load(group_id, value)
        group.persisted = value
        self._state.groups[group_id] = group

    def _apply_modern(self, record: Any, group_class: type[ModernGroup[Any]]) -> None:
        group_id = record.group_id
        group = self._state.groups.get(group_id)
        if not isinstance(group, group_class):
            # A tombstone of a group that was deleted, or has another type by now; or the first record of a group.
            # Older offsets may have created a simple group for it meanwhile.
            if record.value is None or not _may_begin(group):
                return
            group = self._state.groups[group_id] = group_class(group_id, self._state.followers)
        if record.value is None and type(record) in self._ends:
            group.unfollow()
            del self._state.groups[group_id]
        else:
            group.apply(record)


def _may_begin(known: ClassicGroup | ModernGroup[Any] | None) -> bool:
    """Whether this can be the first record of a group."""
    return known is None or (isinstance(known, ClassicGroup) and known.is_simple)
