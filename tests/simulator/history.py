"""What brokers have shown, and what must never be shown: a committed record that changes, or goes."""

from dataclasses import dataclass, field

from kompat.errors import DamagedBatch
from kompat.log import checkpoint
from kompat.log.storage.store import EntryKind
from kompat.protocol.records import iterate, read_header, split_batches
from kompat.raft import states
from kompat.raft.replica.log import Unapplied
from kompat.types import Offset
from tests.simulator.cluster import Node


class Violation(AssertionError):  # noqa: N818 - it is what the simulation is looking for
    """Something that must never happen."""


@dataclass
class Seen:
    """What was seen of one broker since it started."""

    high_watermark: int = 0
    checked: int = 0  # offsets before it were compared
    applied: int = -1  # up to there states were compared


@dataclass
class History:
    committed: dict[int, tuple[int, bytes | None]] = field(default_factory=dict)  # offset → leader epoch, value
    writes: dict[int, bytes] = field(default_factory=dict)  # index → the states that came with it
    leaders: dict[int, int] = field(default_factory=dict)  # epoch → broker
    acknowledged: dict[int, bytes] = field(default_factory=dict)  # offset → value
    rotten: int = 0  # batches whose bits flipped on one disk
    start: int = 0  # the highest start of the log that was seen
    copied: set[int] = field(
        default_factory=set
    )  # brokers that took up a copy: their states run ahead of what is applied
    _seen: dict[Node, Seen] = field(default_factory=dict)

    def acknowledge(self, offset: int, *values: bytes) -> None:
        for place, value in enumerate(values):
            if self.acknowledged.setdefault(offset + place, value) != value:
                raise Violation(f"offset {offset + place} was acknowledged twice: {value!r}")

    def look(self, node: Node) -> None:
        """Compare what a broker shows now with all that any of them has shown."""
        partition, replica = node.partition, node.replica
        if replica.is_installing or replica.log.last_ever is not None:
            self._seen.pop(node, None)
            return
        seen = self._seen.setdefault(node, Seen())
        if partition.high_watermark < seen.high_watermark:
            raise Violation(f"broker {node.node_id}: high watermark fell from {seen.high_watermark}: {partition}")
        seen.high_watermark = partition.high_watermark
        self._look_at_role(node)
        self._look_at_records(node, seen)

    def _look_at_role(self, node: Node) -> None:
        if node.replica.group.is_leader:
            other = self.leaders.setdefault(node.replica.group.term, node.node_id)
            if other != node.node_id:
                raise Violation(f"brokers {other} and {node.node_id} lead in epoch {node.replica.group.term}")
        if node.replica.is_leading:
            known = max(self.acknowledged, default=-1)
            if node.replica.epoch == max(self.leaders) and node.partition.high_watermark <= known:
                raise Violation(f"broker {node.node_id} leads, and does not have offset {known}: {node.partition}")

    def _look_at_records(self, node: Node, seen: Seen) -> None:
        partition = node.partition
        self.start = max(self.start, partition.log_start_offset)
        offset = max(seen.checked, partition.log_start_offset)
        if not node.is_quiet:
            return  # what is staged cannot be read yet
        end = partition.high_watermark
        while offset < end:
            try:
                run = partition.store.read(Offset(offset), 1 << 20, end)
            except DamagedBatch:  # until somebody reads it by the partition
                break
            if not run.buffers:
                raise Violation(f"broker {node.node_id} has no batch at {offset}: {partition}")
            for batch in (each for buffer in run.buffers for each in split_batches(memoryview(buffer))):
                offset = self._look_at_batch(node, batch, offset)
        seen.checked = offset

    def _look_at_batch(self, node: Node, batch: memoryview, offset: int) -> int:
        header = read_header(batch)
        if header.base_offset > offset and offset > node.partition.log_start_offset:
            raise Violation(f"broker {node.node_id} has a gap from {offset} to {header.base_offset}: {node.partition}")
        for record in iterate(batch):
            shown = header.leader_epoch, record.value
            known = self.committed.setdefault(record.offset, shown)
            if known != shown:
                raise Violation(f"offset {record.offset} is {shown} on broker {node.node_id}, and was {known}")
        return header.last_offset + 1

    # -- states ----------------------------------------------------------------------------------------------------
    def look_at_states(self, node: Node) -> None:
        """The states are those of the applied entries, neither more nor less."""
        replica = node.replica
        if (
            node.node_id in self.copied
            or replica.is_installing
            or replica.log.last_ever is not None
            or not node.is_quiet
        ):
            return
        seen = self._seen[node]
        if seen.applied == replica.log.applied:
            return
        seen.applied = replica.log.applied
        expected: dict[bytes, bytes] = {}
        for index in sorted(index for index in self.writes if index <= replica.log.applied):
            for name, value in states.decode_writes(self.writes[index]):
                if value is None:
                    expected.pop(name, None)
                else:
                    expected[name] = value
        if states_of(node) != expected:
            raise Violation(
                f"broker {node.node_id} has other states than entries up to {replica.log.applied} say: "
                f"{sorted(states_of(node).items())} and not {sorted(expected.items())}"
            )

    def applied(self, node: Node, entry: Unapplied) -> None:
        """A broker applies an entry: all have to apply the same."""
        if entry.kind in (EntryKind.DATA, EntryKind.STATES):
            known = self.writes.setdefault(entry.index, entry.payload)
            if known != entry.payload:
                raise Violation(f"entry {entry.index} writes {entry.payload!r} on {node.node_id}, and wrote {known!r}")

    def look_at_end(self, nodes: list[Node]) -> None:
        """All is well again: everybody has everything."""
        for node in nodes:
            self.look(node)
            for offset, value in self.acknowledged.items():
                if offset >= self.start and self.committed.get(offset, (0, None))[1] != value:
                    raise Violation(
                        f"offset {offset} was acknowledged as {value!r}, and is {self.committed.get(offset)}"
                    )
            if states_of(node) != states_of(nodes[0]):
                raise Violation(f"brokers {node.node_id} and {nodes[0].node_id} have other states")
            if node.partition.log_start_offset != nodes[0].partition.log_start_offset:
                raise Violation(f"brokers {node.node_id} and {nodes[0].node_id} start elsewhere")


def states_of(node: Node) -> dict[bytes, bytes]:
    internal = (states.PREFIX, checkpoint.CHECKPOINT, checkpoint.SEGMENT, checkpoint.ABORTED)
    return {name: value for name, value in node.partition.store.states(b"") if not name.startswith(internal)}
