"""Copies of a log for replicas that need entries which are no longer kept: new ones, and those that were away for long.

A copy is of the log up to an applied entry: its checkpoint, the batches, and the states that came with the entries. It is
streamed in pieces while the leader works on, so batches may be cleaned or dropped and states change meanwhile. That does no harm:
whatever drops batches or changes a state is a later entry, which the replica gets, and applies, afterwards.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from kompat.clock import Clock
from kompat.errors import ErrorCode, KafkaError, PeerError, StorageError
from kompat.log import checkpoint, recovery
from kompat.log.checkpoint import LogState
from kompat.log.partition import Partition
from kompat.log.segments import SEGMENT_SIZE, Segment
from kompat.raft import states as states
from kompat.raft.engine import Message, describe_message
from kompat.raft.ports import Peers
from kompat.raft.replica.install import Installation, needs_copy
from kompat.raft.replica.replica import Replica
from kompat.types import Buffer, NodeId, RaftIndex

if TYPE_CHECKING:
    from kompat.raft.replication import Replication

logger = logging.getLogger(__name__)

COPY: Final = 1  # the kind of stream
CHUNK = 256 * 1024
STATES_AT_ONCE = 1000
BATCHES, STATES = b"B", b"S"
_LENGTHS = Struct(">20sIII")


class Head(NamedTuple):
    """What a copy begins with."""

    log_key: bytes
    header: bytes  # of Raft's message, for when the copy is whole
    checkpoint: bytes
    segments: Sequence[Segment]

    def encode(self) -> bytes:
        segments = b"".join(segment.encode() for segment in self.segments)
        lengths = _LENGTHS.pack(self.log_key, len(self.header), len(self.checkpoint), len(segments))
        return b"".join((lengths, self.header, self.checkpoint, segments))

    @classmethod
    def decode(cls, data: bytes) -> Head:
        log_key, header, state, segments = _LENGTHS.unpack_from(data)
        at = _LENGTHS.size
        end = at + header + state + segments
        rows = [data[row : row + SEGMENT_SIZE] for row in range(at + header + state, end, SEGMENT_SIZE)]
        return cls(
            log_key, data[at : at + header], data[at + header : at + header + state], list(map(Segment.decode, rows))
        )


class Copies:
    def __init__(self, owner: Replication, peers: Peers, clock: Clock) -> None:
        self._owner = owner
        self._peers = peers
        self._clock = clock

    # -- giving ----------------------------------------------------------------------------------------------------
    def offer(self, replica: Replica, message: Message) -> None:
        """Raft has decided that a replica needs a copy."""
        to, snapshot = NodeId(message.to), message.snapshot
        assert snapshot is not None, message  # noqa: S101 - that is what makes it an offer
        last = RaftIndex(snapshot.index)
        state = recovery.recover_until(replica.partition.store, self._clock.now(), RaftIndex(last + 1))
        if state is None or to in replica.copies:
            replica.group.report_snapshot(to, ok=False)
            return
        state.start_index = RaftIndex(last + 1)
        state.log_start_offset = replica.partition.log_start_offset  # the stored checkpoint may not have it yet
        replica.copies[to] = last
        logger.info("%s: broker %d gets a copy up to offset %d", replica.partition, to, state.log_end_offset)
        self._owner.spawn(self._send(replica, to, message.header, state))

    async def _send(self, replica: Replica, to: NodeId, header: bytes, state: LogState) -> None:
        group, partition = replica.group, replica.partition
        head = Head(partition.log_id.key, header, checkpoint.encode(state), state.segments.all())
        is_whole = False
        try:
            await self._peers.stream(to, COPY, head.encode(), _chunks(partition, state))
            is_whole = True
        except (KafkaError, PeerError, StorageError) as error:
            logger.warning("%s: broker %d did not get its copy: %s", partition, to, error)
        finally:
            replica.copies.pop(to, None)
            if replica.group is group:
                group.report_snapshot(to, is_whole)
                self._owner.wake(replica)

    # -- taking ----------------------------------------------------------------------------------------------------
    async def receive(self, sender: NodeId, data: bytes, chunks: AsyncIterator[memoryview]) -> bytes:
        """A stream handler. Its response is empty: that there is one confirms the copy."""
        head = Head.decode(bytes(data))
        replica = self._owner.find(head.log_key)
        if replica is None or replica.partition.is_dropped:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if replica.is_installing:
            raise KafkaError(ErrorCode.REASSIGNMENT_IN_PROGRESS, "another copy is on its way in")
        if needs_copy(replica, describe_message(head.header)):
            await self._install(replica, head, chunks)
        replica.receive(head.header, ())
        return b""

    async def _install(self, replica: Replica, head: Head, chunks: AsyncIterator[memoryview]) -> None:
        message = describe_message(head.header)
        installation = Installation(replica, message, head.checkpoint, head.segments)
        replica.is_installing = True
        try:
            await installation.begin()
            async for chunk in chunks:
                if bytes(chunk[:1]) == BATCHES:
                    installation.take_batches(chunk[1:])
                else:
                    installation.take_states(bytes(chunk[1:]))
                await installation.written()
            await installation.end()
        finally:
            replica.end_installation()


async def _chunks(partition: Partition, state: LogState) -> AsyncIterator[Sequence[Buffer]]:
    loop, store = asyncio.get_running_loop(), partition.store
    offset, end = state.segments.first.base_offset, state.log_end_offset
    while offset < end:
        run = await partition.read_mended(partial(store.read, offset, CHUNK, end))
        if not run.buffers:
            break
        yield [BATCHES, *run.buffers]
        offset = run.next_offset
    name, after = b"", checkpoint.aborted_name(end)
    while found := await loop.run_in_executor(None, store.state_range, name, LAST_NAME, STATES_AT_ONCE, CHUNK):
        yield [STATES, states.encode_writes([each for each in found if _is_copied(each[0], after)])]
        name = found[-1][0] + b"\0"


LAST_NAME = b"\xff" * 32


def _is_copied(name: bytes, first_new_aborted: bytes) -> bool:
    """States that each replica keeps for itself are not copied; nor those of a part of the log that is not in the copy."""
    if name.startswith(checkpoint.ABORTED):
        return name < first_new_aborted
    return not name.startswith((states.PREFIX, checkpoint.SEGMENT)) and name != checkpoint.CHECKPOINT
