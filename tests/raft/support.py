"""A few replicas with good disks, whose messages a test lets through or not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kompat.raft.engine import (
    EMPTY_STATE,
    ConfState,
    GroupState,
    Message,
    RaftGroup,
    Ready,
    Settings,
    fresh_state,
    open_group,
)
from tests.raft.stored import Applied, EngineLog

Filter = Callable[[Message], bool]


@dataclass
class Replica:
    group: RaftGroup
    disk: EngineLog
    readies: list[Ready] = field(default_factory=list)

    def payloads(self) -> list[bytes]:
        """What lies in the log, without the first entries of leaders."""
        return [payload for _, kind, _, payload in self.disk.now.log if payload and not kind]


class Cluster:
    """Every write is on disk at once, and every message that passes arrives in order."""

    def __init__(self, voters: Iterable[int] = (1, 2, 3), *, settings: Settings | None = None) -> None:
        self._settings = settings
        self.replicas: dict[int, Replica] = {}
        self.passes: Filter = lambda message: True
        ids = list(voters)
        for node in ids:
            self.start(node, fresh_state(ids))

    def __getitem__(self, node: int) -> RaftGroup:
        return self.replicas[node].group

    def start(self, node: int, state: GroupState = EMPTY_STATE) -> None:
        self.replicas[node] = Replica(open_group(node, state, seed=1, settings=self._settings), EngineLog(state))

    def restart(self, node: int) -> None:
        disk = self.replicas[node].disk
        group = open_group(node, disk.now.state(), seed=1, settings=self._settings)
        self.replicas[node] = Replica(group, disk)

    def elect(self, node: int) -> None:
        self[node].campaign()
        self.settle()
        assert self[node].is_leader

    def isolate(self, *nodes: int) -> None:
        self.passes = lambda message: message.sender not in nodes and message.to not in nodes

    def heal(self) -> None:
        self.passes = lambda message: True

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            for node in self.replicas:
                self[node].tick()
            self.settle()

    def settle(self) -> None:
        """Work everything off until nobody has anything to say."""
        messages: list[Message] = []
        while True:
            for node in self.replicas:
                messages.extend(self.drain(node))
            if not messages:
                return
            for message in messages:
                if message.to in self.replicas and self.passes(message):
                    self[message.to].step(message.header, message.payloads)
            messages.clear()

    def drain(self, node: int) -> list[Message]:
        replica, messages = self.replicas[node], []
        while ready := replica.group.ready():
            replica.readies.append(ready)
            messages.extend(ready.messages)
            replica.disk.write(ready)
            replica.group.persisted(ready.number)
            messages.extend(ready.messages_after_persist)
            self._apply(replica, ready)
            for want in ready.wanted:
                found = replica.disk.now.entries(want.first, want.end, want.max_bytes)
                replica.group.supply_entries(want.id, found)
        return messages

    def _apply(self, replica: Replica, ready: Ready) -> None:
        members: ConfState | None = None
        for entry in ready.memberships:
            members = replica.group.apply_membership(entry.index, entry.payload)
        if ready.snapshot:
            replica.group.applied(ready.snapshot.index)
        if ready.committed_to:
            replica.group.applied(ready.committed_to)
        if members:
            replica.disk.write(Applied(ready.committed_to, members, compacts=False))
