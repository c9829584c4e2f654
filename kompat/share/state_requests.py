"""Requests to the share coordinator: the leader of a share partition's partition of `__share_group_state`.

Leaders move and responses get lost, so a request may arrive twice; the second time it has no effect: writes are numbered,
and epochs fence outdated writers.
"""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar
from uuid import UUID

from kompat.rpc.messages import LeaderRequest
from kompat.share.machine.messages import Update
from kompat.share.machine.state import Fence, Stored, Summary, Writing
from kompat.share.records import ShareKey
from kompat.types import LeaderEpoch, Offset

R_co = TypeVar("R_co", covariant=True)


class StateRequest(LeaderRequest[R_co], Generic[R_co], frozen=True):
    patience: ClassVar[float] = 10.0
    is_idempotent: ClassVar[bool] = True


class ReadState(StateRequest[Stored], frozen=True):
    """The state of a share partition, which only the sender may change from now on. Without a state it starts at the offset."""

    key: ShareKey
    start_offset: Offset
    leader_epoch: LeaderEpoch
    writer: str


class WriteState(StateRequest[None], frozen=True):
    key: ShareKey
    update: Update
    fence: Fence
    writing: Writing


class ReadSummary(StateRequest[Summary], frozen=True):
    key: ShareKey


class InitializeState(StateRequest[None], frozen=True):
    """Reset the group to an offset."""

    key: ShareKey
    start_offset: Offset
    leader_epoch: LeaderEpoch


class EnsureStates(StateRequest[None], frozen=True):
    """Initialize states; their start offset is determined on first use."""

    keys: tuple[ShareKey, ...]


class DeleteStates(StateRequest[None], frozen=True):
    keys: tuple[ShareKey, ...]


class ListStates(StateRequest[list[ShareKey]], frozen=True):
    group_id: str


class ListTopics(StateRequest[list[tuple[str, UUID]]], frozen=True):
    """All groups with the topics that they have a state for."""
