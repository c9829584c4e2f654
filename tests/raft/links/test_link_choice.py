"""Which link is kept where both brokers dial, or one has lost what the other still has: a model without sockets."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.raft.links.handshake import NO_LINK, NONCE_SIZE, Answering, Dialling, Handshake, Met, Party, takes_over
from kompat.types import NodeId
from tests.raft.links.test_handshake import ONE, SECRET, TWO


@dataclass
class Side:
    """A broker as far as its links go: what `Peers` does with them, without sockets."""

    me: Party
    current: Met | None = None
    had: bytes = NO_LINK
    agreed: int = 0
    wires: set[Wire] = field(default_factory=set)

    def agree(self, wire: Wire, met: Met) -> bytes | None:
        if self.current is not None and not takes_over(met, self.current):
            return None
        had, self.had, self.current = self.had, met.link_id, met
        self.agreed += 1
        for other in list(self.wires - {wire}):
            if other.ends[self.me.node].met is not None and other.is_kept_by(self):
                other.drop(self)
        wire.kept.add(self.me.node)
        return had

    def lose(self, wire: Wire) -> None:
        self.wires.discard(wire)
        met = wire.ends[self.me.node].met
        if self.current is not None and met is not None and self.current.link_id == met.link_id:
            self.current = None


class Wire:
    """A connection: messages each way, and an end that comes after them."""

    def __init__(self, dialler: Side, answerer: Side, nonce: int) -> None:
        mark = nonce.to_bytes(NONCE_SIZE, "big")
        self.sides = {dialler.me.node: dialler, answerer.me.node: answerer}
        dial = Dialling(dialler.me, answerer.me.node, SECRET, mark)
        self.ends: dict[NodeId, Handshake] = {
            dialler.me.node: dial,
            answerer.me.node: Answering(answerer.me, SECRET, mark),
        }
        self.dialler = dialler.me.node
        self.kept: set[NodeId] = set()
        self.queues: dict[NodeId, deque[bytes | None]] = {node: deque() for node in self.sides}  # None: closed
        self.queues[answerer.me.node].append(dial.hello())
        for side in self.sides.values():
            side.wires.add(self)

    def is_kept_by(self, side: Side) -> bool:
        return side.me.node in self.kept

    def other(self, node: NodeId) -> NodeId:
        return next(each for each in self.sides if each != node)

    def drop(self, side: Side) -> None:
        """One side closes it; the other one will hear of it."""
        if self in side.wires:
            side.lose(self)
            self.queues[self.other(side.me.node)].append(None)

    def deliver(self, node: NodeId) -> None:
        side, end = self.sides[node], self.ends[node]
        message = self.queues[node].popleft()
        if self not in side.wires:
            return
        if message is None:
            side.lose(self)
            return
        reply = end.receive(memoryview(message))
        if reply is not None:
            self.queues[self.other(node)].append(reply)
        if end.met is not None:
            had = side.agree(self, end.met)
            if had is None:
                self.drop(side)
            elif isinstance(end, Dialling):
                self.queues[self.other(node)].append(end.ready(had))


class Pair:
    def __init__(self) -> None:
        self.sides = [Side(ONE), Side(TWO)]
        self.nonces = 0

    def wires(self) -> list[Wire]:
        return sorted(
            {wire for side in self.sides for wire in side.wires}, key=lambda wire: wire.ends[wire.dialler]._nonce
        )

    def dial(self, which: int) -> None:
        side = self.sides[which]
        is_dialling = any(wire.dialler == side.me.node and not wire.is_kept_by(side) for wire in side.wires)
        if side.current is None and not is_dialling:
            self.nonces += 1
            Wire(side, self.sides[1 - which], self.nonces)

    def deliver_some(self, choice: int) -> bool:
        ready = [(wire, node) for wire in self.wires() for node in sorted(wire.queues) if wire.queues[node]]
        if ready:
            wire, node = ready[choice % len(ready)]
            wire.deliver(node)
        return bool(ready)

    def cut(self, choice: int) -> None:
        """A side takes a link for lost; whether the other one hears of it is left to what is delivered."""
        held = [(wire, side) for side in self.sides for wire in self.wires() if wire in side.wires]
        if held:
            wire, side = held[choice % len(held)]
            wire.drop(side)

    def settle(self, choices: list[int]) -> None:
        """Deliver everything there is, in an order that the choices give."""
        step = 0
        while self.deliver_some(choices[step % len(choices)] if choices else 0):
            step += 1

    def is_one(self) -> bool:
        one, two = (side.current for side in self.sides)
        return one is not None and two is not None and one.link_id == two.link_id and len(self.wires()) == 1


choices = st.lists(st.integers(0, 7), max_size=30)


@settings(max_examples=300, deadline=None)
@given(before=st.integers(0, 6), first=st.integers(0, 1), order=choices)
def test_where_both_dial_at_once_both_keep_the_same_link_at_once(before: int, first: int, order: list[int]) -> None:
    pair = Pair()
    pair.dial(first)
    for choice in order[:before]:
        pair.deliver_some(choice)
    pair.dial(1 - first)
    pair.settle(order)

    assert pair.is_one()
    assert pair.sides[0].agreed == 1  # the lower one never changes its mind


@settings(max_examples=100, deadline=None)
@given(dialler=st.integers(0, 1), loser=st.integers(0, 1), order=choices)
def test_a_link_that_only_one_side_has_lost_is_replaced_when_that_side_dials(
    dialler: int, loser: int, order: list[int]
) -> None:
    pair = Pair()
    pair.dial(dialler)
    pair.settle([])
    [old] = pair.wires()
    pair.sides[loser].lose(old)  # the other one hears nothing of it
    pair.dial(loser)
    pair.settle(order)

    assert pair.is_one()
    assert pair.wires() != [old]


@settings(max_examples=50, deadline=None)
@given(dialler=st.integers(0, 1), restarted=st.integers(0, 1), order=choices)
def test_a_broker_that_was_started_anew_takes_the_place_of_the_old_one(
    dialler: int, restarted: int, order: list[int]
) -> None:
    pair = Pair()
    pair.dial(dialler)
    pair.settle([])
    [old] = pair.wires()
    pair.sides[restarted] = Side(replace(pair.sides[restarted].me, incarnation=b"restarts"))
    pair.dial(restarted)
    pair.settle(order)

    one, two = (side.current for side in pair.sides)
    assert one is not None
    assert two is not None
    assert one.link_id == two.link_id
    assert old not in pair.sides[1 - restarted].wires


actions = st.lists(
    st.tuples(st.sampled_from(["dial", "deliver", "deliver", "deliver", "cut"]), st.integers(0, 30)), max_size=60
)


@settings(max_examples=400, deadline=None)
@given(actions=actions)
def test_however_both_dial_and_lose_links_they_end_with_one_that_both_have(actions: list[tuple[str, int]]) -> None:
    pair = Pair()
    for action, choice in actions:
        if action == "dial":
            pair.dial(choice % 2)
        elif action == "cut":
            pair.cut(choice)
        else:
            pair.deliver_some(choice)
    for round_ in range(3):
        pair.settle([round_])
        for which in (0, 1):
            pair.dial(which)
    pair.settle([])

    assert pair.is_one()
