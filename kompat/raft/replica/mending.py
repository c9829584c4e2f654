"""Repairs damaged batches from other replicas; mending_rules.py decides what is taken.

A read that meets a damaged batch waits until it is repaired, and reads it again. A stretch is repaired at once: where one batch
of a file is gone, its neighbours mostly are, too. The new bytes go to another place in the store; offsets and bytes are those of the other replica.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, Final

from kompat import _native
from kompat.errors import DamagedBatch, DamagedData, DamagedOffsets, ErrorCode, KafkaError, PeerError, StorageError
from kompat.log.storage.store import PartitionStore, Rewrite, StoredBatch
from kompat.protocol.records import read_header, split_batches
from kompat.raft.replica.log import not_leader
from kompat.raft.replica.mending_rules import Answer, Conclusion, Offer, conclude, replacements
from kompat.types import Buffer, NodeId, Offset

if TYPE_CHECKING:
    from kompat.raft.ports import Peers
    from kompat.raft.replica.replica import Replica
    from kompat.raft.replication import Replication

MEND: Final = 1  # the kind of call
SECONDS: Final = 10.0  # for an answer
CHUNK: Final = 1 << 20
_KEY_SIZE: Final = 20
_OFFSET = Struct(">q")
_HAS_NONE = (ErrorCode.CORRUPT_MESSAGE, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class Mending:
    def __init__(self, owner: Replication, peers: Peers) -> None:
        self._owner = owner
        self._peers = peers
        self._under_way: dict[tuple[Replica, int], asyncio.Future[None]] = {}

    # -- giving ----------------------------------------------------------------------------------------------------
    async def give(self, _: NodeId, body: memoryview) -> Sequence[Buffer]:
        """A call's handler: whole batches from an offset on, up to some size, and the offset after them."""
        replica = self._owner.find(bytes(body[:_KEY_SIZE]))
        if replica is None or replica.partition.is_dropped:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        first, partition = Offset(_OFFSET.unpack_from(body, _KEY_SIZE)[0]), replica.partition
        if replica.is_installing or first >= partition.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"offset {first} is not known to be committed here")
        if first < partition.log_start_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"the log starts at {partition.log_start_offset} here")
        end = partition.high_watermark
        try:  # from this broker's disk alone: two that have lost the same batch must not request it of each other endlessly
            run = await asyncio.get_running_loop().run_in_executor(None, partition.store.read, first, CHUNK, end)
        except DamagedBatch as damage:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(damage)) from damage
        except StorageError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        return [_OFFSET.pack(run.next_offset if run.buffers else end), *run.buffers]

    # -- taking ----------------------------------------------------------------------------------------------------
    async def mend(self, replica: Replica, damage: DamagedBatch) -> None:
        """Returns when the read can be tried again. Raises the KafkaError for its readers."""
        place = (replica, damage.first)
        under_way = self._under_way.get(place)
        if under_way is None:
            under_way = self._under_way[place] = asyncio.ensure_future(self._mend(replica, damage))
            under_way.add_done_callback(lambda done: self._ended(place, done))
        await asyncio.shield(under_way)  # others wait for it, too

    def _ended(self, place: tuple[Replica, int], done: asyncio.Future[None]) -> None:
        del self._under_way[place]
        if not done.cancelled():
            done.exception()  # the waiting reads have it

    async def _mend(self, replica: Replica, damage: DamagedBatch) -> None:
        answers: dict[NodeId, Answer] = {}
        for node in self._others(replica):
            answers[node] = await self._ask(replica, damage, node)
            if answers[node] is Answer.MENDED:
                return
        conclusion, to = conclude(answers, replica.voters)
        self._act(replica, damage, conclusion, to)

    def _others(self, replica: Replica) -> list[NodeId]:
        members = {*replica.voters, *replica.learners} - {self._owner.node_id}
        return sorted(members, key=lambda node: (node != replica.leader, node))

    async def _ask(self, replica: Replica, damage: DamagedBatch, node: NodeId) -> Answer:
        first = max(damage.first, replica.partition.log_start_offset)  # which may lie within a batch
        place = [replica.partition.log_id.key, _OFFSET.pack(first)]
        try:
            answer = await self._peers.call(node, MEND, place, SECONDS)
        except PeerError:
            return Answer.SILENT
        except KafkaError as error:
            return Answer.HAS_NONE if error.code in _HAS_NONE else Answer.SILENT
        batches = answer[_OFFSET.size :]
        if _native.whole_batches(batches) != len(batches):
            return Answer.HAS_NONE
        offered = {read_header(batch).base_offset: batch for batch in split_batches(batches)}
        return await self._take(replica, damage, Offer(offered, Offset(_OFFSET.unpack_from(answer)[0])), node)

    async def _take(self, replica: Replica, damage: DamagedBatch, offer: Offer, node: NodeId) -> Answer:
        partition = replica.partition
        is_compacted = partition.config.compact or partition.state.cleaned_offset > damage.first
        loop = asyncio.get_running_loop()
        try:
            damaged = await loop.run_in_executor(None, _damaged, partition.store, Offset(damage.first), offer.end)
        except (DamagedData, StorageError):  # the database itself
            return Answer.UNUSABLE
        rewrites = replacements(damaged, offer, is_compacted=is_compacted)
        if not damaged:
            return Answer.MENDED  # meanwhile, or it is removed
        if not rewrites or rewrites[0].base_offset != damaged[0].base_offset or replica.is_installing:
            return Answer.UNUSABLE
        return await self._put(replica, rewrites, node)

    async def _put(self, replica: Replica, rewrites: Sequence[Rewrite], node: NodeId) -> Answer:
        partition = replica.partition
        committed = [each for each in rewrites if each.last_offset < partition.high_watermark]
        if not committed or partition.is_dropped:
            return Answer.UNUSABLE
        first = committed[0].base_offset
        try:
            await partition.upkeep.take_mended(committed)
            left = await asyncio.get_running_loop().run_in_executor(
                None, _damaged, partition.store, first, Offset(first + 1)
            )
        except (DamagedData, KafkaError, StorageError):
            return Answer.UNUSABLE
        if left:  # the disk does not keep it here, either
            return Answer.UNUSABLE
        name = f"{partition.topic}-{partition.index}"
        partition.damages.repair(name, first, committed[-1].last_offset, len(committed), node)
        return Answer.MENDED

    # -- where that does not help ----------------------------------------------------------------------------------
    def _act(self, replica: Replica, damage: DamagedBatch, conclusion: Conclusion, to: NodeId | None) -> None:
        """Raises the KafkaError for the readers."""
        partition = replica.partition
        name = f"{partition.topic}-{partition.index}"
        if conclusion is Conclusion.HAND_OVER and to is not None and replica.is_leading:
            partition.damages.give_up(name, damage, f"broker {to} has them, and is to lead instead of this one")
            with suppress(KafkaError):
                replica.transfer_leadership(to)
            raise not_leader(f"offsets {damage.first} to {damage.last} are damaged here, and broker {to} has them")
        if conclusion is Conclusion.LOST:
            partition.damages.give_up(name, damage, "no other replica has them")
            raise DamagedOffsets(damage.first, damage.last)
        partition.damages.give_up(name, damage, "a replica that may have them cannot be asked at the moment")
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(damage))


def _damaged(store: PartitionStore, first: Offset, end: Offset) -> list[StoredBatch]:
    """In a worker thread: what is damaged of the batches in [first, end)."""
    found = []
    for stored in store.batches(first):
        if stored.base_offset >= end:
            break
        try:
            store.read(stored.base_offset, 1, Offset(stored.base_offset + 1))
        except DamagedBatch:
            found.append(stored)
    return found
