"""How two brokers meet, without sockets: who is let in, and which link is kept."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.errors import ProtocolError
from kompat.raft.links.handshake import (
    LONGEST_CLUSTER_ID,
    LONGEST_MESSAGE,
    NO_LINK,
    NONCE_SIZE,
    Answering,
    Dialling,
    Handshake,
    Met,
    Party,
    Refusal,
    Secrets,
    takes_over,
)
from kompat.types import NodeId

ONE = Party(NodeId(1), b"first..1", "cluster")
TWO = Party(NodeId(2), b"second.2", "cluster")
SECRET = Secrets(b"a secret of some length")


def dialling(me: Party = ONE, target: int = 2, secrets: Secrets = SECRET, nonce: bytes = b"d") -> Dialling:
    return Dialling(me, NodeId(target), secrets, nonce.ljust(NONCE_SIZE))


def answering(me: Party = TWO, secrets: Secrets = SECRET, nonce: bytes = b"a") -> Answering:
    return Answering(me, secrets, nonce.ljust(NONCE_SIZE))


def hand(to: Handshake, message: bytes | None) -> bytes | None:
    assert message is not None
    assert 8 <= len(message) <= LONGEST_MESSAGE
    return to.receive(memoryview(message))


def meet(dialler: Dialling, answerer: Answering, had: bytes = NO_LINK) -> tuple[Met, Met]:
    welcome = hand(answerer, hand(dialler, hand(answerer, dialler.hello())))
    assert answerer.met is None
    assert hand(dialler, welcome) is None
    assert hand(answerer, dialler.ready(had)) is None
    assert dialler.met is not None
    assert answerer.met is not None
    return dialler.met, answerer.met


@given(
    low=st.integers(0, 2**31 - 1),
    high=st.integers(0, 2**31 - 1),
    secret=st.binary(max_size=80),
    cluster=st.text(max_size=LONGEST_CLUSTER_ID // 4),
    is_known=st.tuples(st.booleans(), st.booleans()),
)
def test_brokers_with_one_secret_meet(
    low: int, high: int, secret: bytes, cluster: str, is_known: tuple[bool, bool]
) -> None:
    if low == high:
        return
    one = Party(NodeId(low), b"1" * 8, cluster if is_known[0] else "")
    two = Party(NodeId(high), b"2" * 8, cluster if is_known[1] else "")

    mine, theirs = meet(dialling(one, high, Secrets(secret)), answering(two, Secrets(secret)), had=b"the last")

    assert (mine.peer, theirs.peer) == (two, one)
    assert mine.link_id == theirs.link_id != NO_LINK
    assert mine.is_dialled_by_lower is theirs.is_dialled_by_lower is (low < high)
    assert theirs.peer_had == b"the last"


def test_two_meetings_are_two_links() -> None:
    first, _ = meet(dialling(), answering())
    second, _ = meet(dialling(nonce=b"e"), answering())
    third, _ = meet(dialling(), answering(nonce=b"b"))

    assert len({first.link_id, second.link_id, third.link_id}) == 3


def test_whoever_knocks_without_the_secret_gets_a_nonce_and_no_more() -> None:
    dialler, answerer = dialling(secrets=Secrets(b"another secret")), answering()
    challenge = hand(answerer, dialler.hello())
    assert challenge is not None
    assert len(challenge) == 6 + NONCE_SIZE

    with pytest.raises(ProtocolError, match="another cluster secret"):
        hand(answerer, hand(dialler, challenge))
    assert not answerer.is_trusted


def test_a_broker_does_not_believe_who_answers_without_the_secret() -> None:
    class Gullible(Secrets):
        def check(self, role: bytes, said: bytes, mac: bytes) -> None:
            """An impostor lets everybody in."""

    dialler, impostor = dialling(), answering(secrets=Gullible(b"a guess"))
    welcome = hand(impostor, hand(dialler, hand(impostor, dialler.hello())))

    with pytest.raises(ProtocolError, match="another cluster secret"):
        hand(dialler, welcome)
    assert dialler.met is None


@settings(max_examples=200)
@given(which=st.integers(0, 4), at=st.integers(0, 10_000), flip=st.integers(1, 255))
def test_a_message_that_was_changed_on_the_way_ends_the_meeting(which: int, at: int, flip: int) -> None:
    """Whichever, and whatever bit of it."""
    dialler, answerer = dialling(), answering()

    def bent(number: int, message: bytes | None) -> bytes | None:
        if number != which or message is None:
            return message
        at_byte = at % len(message)
        return message[:at_byte] + bytes([message[at_byte] ^ flip]) + message[at_byte + 1 :]

    with pytest.raises(ProtocolError):  # noqa: PT012 - at which of the steps is not the same each time
        challenge = hand(answerer, bent(0, dialler.hello()))
        proof = hand(dialler, bent(1, challenge))
        welcome = hand(answerer, bent(2, proof))
        hand(dialler, bent(3, welcome))
        hand(answerer, bent(4, dialler.ready(NO_LINK)))
    assert dialler.met is None or answerer.met is None


def test_a_recorded_meeting_cannot_be_played_again() -> None:
    dialler, answerer = dialling(), answering()
    hello = dialler.hello()
    proof = hand(dialler, hand(answerer, hello))
    again = answering(nonce=b"another")
    hand(again, hello)

    with pytest.raises(ProtocolError, match="another cluster secret"):
        hand(again, proof)


def test_a_proof_cannot_be_reflected_to_whoever_made_it() -> None:
    """Someone without the secret has the broker answer its own challenge, over a second connection."""
    dialler = dialling(ONE, 2)
    mirror = answering(ONE)
    proof = hand(dialler, hand(mirror, dialler.hello()))

    with pytest.raises(Refusal, match="looks for node 2"):
        hand(mirror, proof)
    with pytest.raises(ProtocolError):
        hand(dialling(ONE, 2), proof)


def test_a_broker_that_looks_for_another_one_is_told() -> None:
    dialler, answerer = dialling(target=7), answering()
    proof = hand(dialler, hand(answerer, dialler.hello()))

    with pytest.raises(Refusal, match="looks for node 7 here, but this is node 2") as refused:
        hand(answerer, proof)
    with pytest.raises(ProtocolError, match="another broker answers"):
        hand(dialler, refused.value.answer)
    assert not answerer.is_trusted


def test_a_broker_of_another_cluster_is_told() -> None:
    dialler, answerer = dialling(replace(ONE, cluster_id="theirs")), answering()
    proof = hand(dialler, hand(answerer, dialler.hello()))

    with pytest.raises(Refusal, match="belongs to cluster theirs") as refused:
        hand(answerer, proof)
    with pytest.raises(ProtocolError, match="another cluster"):
        hand(dialler, refused.value.answer)


def test_another_version_is_told_which_one_is_spoken_here() -> None:
    hello = bytearray(dialling().hello())
    hello[5] = 9
    with pytest.raises(Refusal, match="version 9") as refused:
        hand(answering(), bytes(hello))

    later = bytearray(refused.value.answer)
    later[5] = 3
    dialler = dialling()
    dialler.hello()
    with pytest.raises(ProtocolError, match=r"speaks version 3 .* this broker version 1"):
        hand(dialler, bytes(later))


def test_a_certificate_for_other_nodes_is_not_enough() -> None:
    with pytest.raises(ProtocolError, match="not for node 1"):
        hand(answering(secrets=Secrets(b"", frozenset({3, 4}))), dialling().hello())
    with pytest.raises(ProtocolError, match="not for node 2"):
        dialling(secrets=Secrets(b"", frozenset({3}))).hello()


@settings(max_examples=300)
@given(message=st.binary(min_size=8, max_size=LONGEST_MESSAGE), has_begun=st.booleans())
def test_garbage_is_refused_at_any_step(message: bytes, has_begun: bool) -> None:
    dialler, answerer = dialling(), answering()
    hello = dialler.hello()
    if has_begun:
        hand(dialler, hand(answerer, hello))
    for side in (dialler, answerer):
        with pytest.raises(ProtocolError):
            hand(side, message)
        assert side.met is None


# -- which link is kept --------------------------------------------------------------------------------------------------
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
