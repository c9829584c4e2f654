"""How two brokers meet, without sockets: who is let in, and which link is kept."""

from __future__ import annotations

from dataclasses import replace

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
    with pytest.raises(ProtocolError, match=r"speaks version 3 .* this broker version 2"):
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
