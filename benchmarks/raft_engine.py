"""What the Raft engine costs without disk and network: `python -m benchmarks.raft_engine [--proposals 100000]`.

Three replicas of a group in one process, so a proposal's price is that of a leader and two followers together; then a
broker's thousand idle groups, whose heartbeats two other brokers answer.
"""

from __future__ import annotations

import argparse
import time

from kompat.raft.engine import Message, RaftGroup, RaftGroups, Settings, fresh_state, open_group

BROKERS = (1, 2, 3)
TICK_SECONDS = 0.1


class Trio:
    """Three replicas whose messages go from hand to hand."""

    def __init__(self, key: int = 0, settings: Settings | None = None) -> None:
        state = fresh_state(BROKERS)
        self.groups = {broker: open_group(broker, state, seed=key, settings=settings) for broker in BROKERS}
        self.leader.campaign()
        self.settle()

    @property
    def leader(self) -> RaftGroup:
        return self.groups[1]

    def settle(self) -> None:
        messages: list[Message] = []
        while True:
            for group in self.groups.values():
                drain(group, messages)
            if not messages:
                return
            for message in messages:
                self.groups[message.to].step(message.header, message.payloads)
            messages.clear()


def drain(group: RaftGroup, messages: list[Message]) -> None:
    while ready := group.ready():
        group.persisted(ready.number)
        if ready.committed_to:
            group.applied(ready.committed_to)
        messages += ready.messages
        messages += ready.messages_after_persist


def measure_proposals(count: int, size: int, per_turn: int, tell_commits: bool) -> float:
    """Microseconds of CPU per committed proposal, all three replicas together."""
    trio = Trio(settings=Settings(tell_commits=tell_commits))
    payload = bytes(size)
    started = time.process_time()
    for _ in range(count // per_turn):
        for _ in range(per_turn):
            trio.leader.propose(payload, b"context")
        trio.settle()
    spent = time.process_time() - started
    assert trio.leader.commit == trio.leader.last
    return spent / count * 1e6


def measure_propose_call(count: int) -> float:
    """Microseconds of one `propose` on the leader alone."""
    trio = Trio()
    payload = bytes(16 * 1024)
    spent = 0.0
    for _ in range(count // 100):
        started = time.process_time()
        for _ in range(100):
            trio.leader.propose(payload, b"context")
        spent += time.process_time() - started
        trio.settle()
    return spent / count * 1e6


def measure_idle(groups: int, ticks: int, quiet_after: int) -> float:
    """Milliseconds of CPU per tick of a broker that leads a third of the groups and follows in the others."""
    shared = {broker: RaftGroups(broker, quiet_after) for broker in BROKERS}
    for key in range(groups):
        trio = Trio(key)
        if key % 3:
            trio.leader.transfer_leadership(key % 3 + 1)
            trio.settle()
        for broker, group in trio.groups.items():
            shared[broker].add(key, group)
    for _ in range(10):
        tick(shared)
    started = time.process_time()
    for _ in range(ticks):
        tick(shared)
    return (time.process_time() - started) / ticks / len(BROKERS) * 1e3


def tick(shared: dict[int, RaftGroups]) -> None:
    for broker, groups in shared.items():
        assert not groups.tick()
        for peer, blob in groups.take_heartbeats():
            reply, _, _, _ = shared[peer].step_heartbeats(broker, blob)
            if reply:
                groups.step_heartbeat_replies(peer, reply)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--proposals", type=int, default=50_000)
    parser.add_argument("--groups", type=int, default=1000)
    args = parser.parse_args()
    print(f"propose alone: {measure_propose_call(args.proposals):.2f} µs")
    for size in (100, 16 * 1024):
        for per_turn, tells in ((1, True), (1, False), (32, True), (32, False)):
            price = measure_proposals(args.proposals, size, per_turn, tells)
            how = "told" if tells else "not told"
            print(f"{size} B, {per_turn} a turn, commits {how}: {price:.1f} µs on three replicas, {1e6 / price:,.0f}/s")
    for quiet_after in (0, 3):
        price = measure_idle(args.groups, 50, quiet_after)
        share = price / 1e3 / TICK_SECONDS
        what = "quiet" if quiet_after else "idle"
        print(f"{args.groups} {what} groups: {price:.3f} ms a tick, {share:.2%} of a core at a tick each 100 ms")


if __name__ == "__main__":
    main()
