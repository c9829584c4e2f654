"""Replicas over a bad network and bad disks, all from one seed; what must never happen raises `Violation`."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from kompat.raft.engine import (
    EMPTY_STATE,
    ChangeKind,
    MembershipRefused,
    Message,
    MessageKind,
    NotLeader,
    RaftError,
    RaftGroup,
    RaftGroups,
    Ready,
    Role,
    Settings,
    fresh_state,
    open_group,
)

from .disk import Applied, Disk, Stored

EVERYBODY = (1, 2, 3, 4, 5)
KEY = 7
SETTINGS = Settings(max_bytes=40, max_inflight=4, cache_bytes=60)


class Violation(AssertionError):  # noqa: N818 (it is a finding)
    """A promise of Raft is broken."""


@dataclass(frozen=True)
class Beats:
    """Heartbeats, or answers to them, as brokers exchange them."""

    sender: int
    to: int
    blob: bytes
    is_reply: bool


@dataclass
class Replica:
    disk: Disk
    group: RaftGroup
    groups: RaftGroups
    waiting: list[Ready] = field(default_factory=list)
    """Readies whose messages wait for the disk."""

    reads: dict[bytes, int] = field(default_factory=dict)
    """What a read must see at least."""


@dataclass
class Tally:
    commits: int = 0
    crashes: int = 0
    snapshots: int = 0
    fetches: int = 0
    memberships: int = 0
    reads: int = 0
    quiet: int = 0


class World:
    """`stormy` has one election after the other. A seed also chooses who founds the group and how it ticks."""

    def __init__(self, seed: int, *, bug: str = "", stormy: bool = False) -> None:
        self._seed, self._bug, self._stormy = seed, bug, stormy
        self._founders = (1, 2, 3) if stormy or seed % 5 else (1,)
        self._random = random.Random(seed)
        self._disorder, self._outage = (0.5, (0, 2)) if stormy else (0.3, (20, 200))
        self._shared_ticks = seed % 2 == 1
        self._quiet_after = 2 if seed % 4 == 3 else 0
        self._net: list[Message | Beats] = []
        self._cut: set[tuple[int, int]] = set()
        self._down: dict[int, int] = {}
        self._now = 0
        self._committed: dict[int, Stored] = {}
        self._highest = 1
        self._leaders: dict[int, int] = {}
        self._proposed = 0
        self.tally = Tally()
        self.trace: list[tuple[int, ...]] = []
        self._replicas = {node: self._start(node, self._new_disk(node)) for node in EVERYBODY}
        self._actions = self._weighted()

    def _new_disk(self, node: int) -> Disk:
        return Disk(fresh_state(self._founders) if node in self._founders else EMPTY_STATE, self._bug)

    def _start(self, node: int, disk: Disk) -> Replica:
        try:
            group = open_group(node, disk.synced.state(), seed=self._seed, settings=SETTINGS)
        except ValueError as error:
            raise Violation(f"seed {self._seed}: replica {node} cannot start again: {error}") from error
        groups = RaftGroups(node, quiet_after=self._quiet_after)
        groups.add(KEY, group)
        return Replica(disk, group, groups)

    def _weighted(self) -> tuple[list[Callable[[], None]], list[int]]:
        weighted: list[tuple[Callable[[], None], int, int]] = [
            (self._tick, 250, 30),
            (self._deliver, 480, 600),
            (self._campaign, 0, 25),
            (self._propose, 80, 40),
            (self._sync, 80, 120),
            (self._crash, 5, 60),
            (self._divide, 5, 2),
            (self._cut.clear, 8, 10),
            (self._compact, 8, 0),
            (self._read, 8, 0),
            (self._transfer, 3, 5),
            (self._wake, 10, 0),
            (self._change_members, 6, 0),
        ]
        return [action for action, _, _ in weighted], [storm if self._stormy else calm for _, calm, storm in weighted]

    def run(self, steps: int) -> None:
        actions, weights = self._actions
        for action in self._random.choices(actions, weights, k=steps):
            self._now += 1
            action()
            for node in [node for node, until in self._down.items() if until <= self._now]:
                self._restart(node)

    def finish(self) -> None:
        """Heal everything: the group must come to one leader, and all members to all that was ever committed."""
        self._cut.clear()
        for node in list(self._down):
            self._restart(node)
        for replica in self._replicas.values():
            replica.group.wake()
        for _ in range(400):
            for node in EVERYBODY:
                self._tick_one(node)
            self._settle()
            if self._is_settled():
                return
        self._fail("no peace after all was healed")

    def _settle(self) -> None:
        for node in EVERYBODY:
            self._sync_one(node)
        while self._net:
            self._receive(self._net.pop(0))
            for node in EVERYBODY:
                self._sync_one(node)

    def _is_settled(self) -> bool:
        leaders = [replica for replica in self._replicas.values() if replica.group.is_leader]
        if not leaders:
            return False
        status = max(leaders, key=lambda replica: replica.group.term).group.status()
        members = [self._replicas[peer.id].group for peer in status.peers]
        done = all(group.commit == status.last and group.term == status.term for group in members)
        return done and status.last >= self._highest and not status.members.voters_outgoing

    # what happens

    def _live(self) -> int | None:
        live = [node for node in EVERYBODY if node not in self._down]
        return self._random.choice(live) if live else None

    def _leader(self) -> int | None:
        live = [node for node in EVERYBODY if node not in self._down]
        leaders = [node for node in live if self._replicas[node].group.is_leader]
        return self._random.choice(leaders) if leaders else None

    def _tick(self) -> None:
        if (node := self._live()) is not None:
            self._tick_one(node)

    def _tick_one(self, node: int) -> None:
        replica = self._replicas[node]
        if self._shared_ticks:
            was_quiet = replica.group.quiet
            replica.groups.tick()
            self.tally.quiet += replica.group.quiet and not was_quiet
            beats = replica.groups.take_heartbeats()
            self._net.extend(Beats(node, peer, blob, is_reply=False) for peer, blob in beats)
        else:
            replica.group.tick()
        self._drain(node)

    def _campaign(self) -> None:
        for node in self._random.sample(self._founders, 2):
            if node not in self._down:
                self._replicas[node].group.campaign()
                self._drain(node)

    def _deliver(self) -> None:
        if not self._net:
            return
        at = self._random.randrange(len(self._net)) if self._random.random() < self._disorder else 0
        message = self._net[at]
        fate = self._random.random()
        if fate > 0.05:  # below: it comes a second time
            del self._net[at]
        if len(self._net) > 500:
            del self._net[:250]
        lost = fate > 0.95 or message.to in self._down or (message.sender, message.to) in self._cut
        if not lost:
            self._receive(message)
        if isinstance(message, Message) and message.kind == MessageKind.SNAPSHOT:
            self._report(message, not lost)
        elif lost and message.sender not in self._down and self._random.random() < 0.2:
            self._replicas[message.sender].group.report_unreachable(message.to)

    def _report(self, message: Message, ok: bool) -> None:
        self.tally.snapshots += ok
        if message.sender not in self._down:
            self._replicas[message.sender].group.report_snapshot(message.to, ok)
            self._drain(message.sender)

    def _receive(self, message: Message | Beats) -> None:
        replica = self._replicas[message.to]
        if isinstance(message, Message):
            try:
                replica.group.step(message.header, message.payloads)
            except RaftError as error:
                self._fail(f"a message was refused: {error}")
        elif message.is_reply:
            replica.groups.step_heartbeat_replies(message.sender, message.blob)
        else:
            reply, _, _, refusals = replica.groups.step_heartbeats(message.sender, message.blob)
            if refusals:
                self._fail(f"a heartbeat was refused: {refusals}")
            if reply:
                self._net.append(Beats(message.to, message.sender, reply, is_reply=True))
        self._drain(message.to)

    def _propose(self) -> None:
        pauses = self._quiet_after and self._now // 300 % 2
        if pauses or (node := self._leader()) is None:
            return
        self._proposed += 1
        try:
            self._replicas[node].group.propose(b"%d of %d" % (self._proposed, node), b"context")
        except NotLeader:
            return  # on its way to another
        self._drain(node)

    def _read(self) -> None:
        if (node := self._live()) is None:
            return
        self._proposed += 1
        context = b"%d" % self._proposed
        if self._replicas[node].group.read_index(context):
            self._replicas[node].reads[context] = self._highest
            self._drain(node)

    def _transfer(self) -> None:
        if (node := self._leader()) is None:
            return
        try:
            self._replicas[node].group.transfer_leadership(self._random.choice(EVERYBODY))
        except RaftError:
            return  # no voter, or itself
        self._drain(node)

    def _change_members(self) -> None:
        if (node := self._leader()) is None:
            return
        group = self._replicas[node].group
        voters = group.status().members.voters
        ids = self._random.sample(EVERYBODY, self._random.choice((1, 1, 2)))
        kinds = [ChangeKind.ADD_VOTER, ChangeKind.ADD_LEARNER]
        if len(voters) > len(self._founders):
            kinds.append(ChangeKind.REMOVE)
        changes = [(self._random.choice(kinds), one) for one in ids]
        try:
            group.propose_membership(changes, joint=self._random.random() < 0.5)
        except (NotLeader, MembershipRefused):
            return
        self._drain(node)

    def _wake(self) -> None:
        self._replicas[self._random.choice(EVERYBODY)].groups.wake(self._random.choice(EVERYBODY))

    def _compact(self) -> None:
        if (node := self._live()) is None:
            return
        replica = self._replicas[node]
        status, now = replica.group.status(), replica.disk.now
        if status.applied > now.base[0] and status.persisted >= status.applied:
            replica.disk.write(Applied(status.applied, status.members, compacts=True))
            replica.group.compact(status.applied)

    def _divide(self) -> None:
        self._cut |= {(a, b) for a in EVERYBODY for b in EVERYBODY if a != b and self._random.random() < 0.3}

    def _crash(self) -> None:
        if (
            node := self._random.choice(self._founders) if self._stormy else self._live()
        ) is None or node in self._down:
            return
        self._replicas[node].disk.crash()
        self._down[node] = self._now + self._random.randrange(*self._outage)
        self.tally.crashes += 1

    def _voter(self) -> int | None:
        """Who has voted for another and does not know of its success: a vote matters most then."""
        live = [self._replicas[node].group.status() for node in self._founders if node not in self._down]
        voted = [status.id for status in live if not status.leader and status.vote not in (0, status.id)]
        return self._random.choice(voted) if voted else None

    def _restart(self, node: int) -> None:
        del self._down[node]
        self._replicas[node] = self._start(node, self._replicas[node].disk)

    # the driver: what a broker does with a ready

    def _sync(self) -> None:
        if (node := self._live()) is not None:
            self._sync_one(node)

    def _sync_one(self, node: int) -> None:
        replica = self._replicas[node]
        number = replica.disk.sync()
        if number and self._bug != "persisted before the write":
            replica.group.persisted(number)
        for ready in replica.waiting:
            self._after_persist(node, ready)
        replica.waiting.clear()
        self._drain(node)

    def _drain(self, node: int) -> None:
        replica = self._replicas[node]
        while ready := replica.group.ready():
            self._net.extend(ready.messages)
            replica.disk.write(ready)
            if self._bug == "persisted before the write":
                replica.group.persisted(ready.number)
                self._after_persist(node, ready)
            else:
                replica.waiting.append(ready)
            self._check(node, ready)
            self._apply(node, ready)
            for want in ready.wanted:
                self.tally.fetches += 1
                found = replica.disk.now.entries(want.first, want.end, want.max_bytes)
                replica.group.supply_entries(want.id, found)
            if replica.waiting and self._random.random() < 0.5:
                self._sync_one(node)

    def _after_persist(self, node: int, ready: Ready) -> None:
        self._net.extend(ready.messages_after_persist)
        if ready.snapshot:
            self._replicas[node].group.applied(ready.snapshot.index)

    def _apply(self, node: int, ready: Ready) -> None:
        if not ready.committed_to:
            return
        replica = self._replicas[node]
        members = [replica.group.apply_membership(entry.index, entry.payload) for entry in ready.memberships]
        replica.group.applied(ready.committed_to)
        if members:
            self.tally.memberships += 1
            replica.disk.write(Applied(ready.committed_to, members[-1], compacts=False))

    # what must hold

    def _check(self, node: int, ready: Ready) -> None:
        image = self._replicas[node].disk.now
        for index in range(ready.committed_from, ready.committed_to + 1) if ready.committed_to else ():
            entry = image.at(index)
            known = self._committed.setdefault(index, entry)
            if known != entry:
                self._fail(f"{node} has committed {entry} at {index}, others {known}")
            if index > self._highest:
                self._highest = index
                self.tally.commits += 1
        for read in ready.read_states:
            self.tally.reads += 1
            if read.index < self._replicas[node].reads.pop(read.context, 0):
                self._fail(f"{node} reads at {read.index} what was older")
        if ready.soft_state and ready.soft_state.role == Role.LEADER:
            self._check_leader(node)
        self.trace.append((node, ready.number, image.last, ready.committed_to, len(ready.messages)))

    def _check_leader(self, node: int) -> None:
        term = self._replicas[node].group.term
        if self._leaders.setdefault(term, node) != node:
            self._fail(f"{self._leaders[term]} and {node} lead in term {term}")
        image = self._replicas[node].disk.now
        if image.last < self._highest:
            self._fail(f"{node} leads without the committed entry {self._highest}")
        for index in range(image.base[0] + 1, self._highest + 1):
            if image.at(index) != self._committed[index]:
                self._fail(f"{node} leads with another entry at {index} than what is committed")

    def _fail(self, text: str) -> None:
        raise Violation(f"seed {self._seed}: {text}")
