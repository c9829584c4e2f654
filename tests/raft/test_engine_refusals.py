"""What no correct peer sends is refused, and what breaks the engine is told clearly."""

from __future__ import annotations

import contextlib
import gc
import random
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.raft.engine import (
    Message,
    MessageKind,
    MessageRefused,
    RaftGroup,
    RaftPanic,
    describe_message,
    fresh_state,
    open_group,
)
from tests.raft.support import Cluster


def a_leader_and_its_append() -> tuple[Cluster, Message]:
    cluster = Cluster()
    cluster.elect(1)
    cluster[1].propose(b"a")
    append = next(message for message in cluster.drain(1) if message.to == 2)
    return cluster, append


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def a_header(**fields: int) -> bytes:
    tags = {"kind": 1, "to": 2, "sender": 3, "term": 4, "log_term": 5, "index": 6, "commit": 8}
    return b"".join(varint(tags[name] << 3) + varint(value) for name, value in fields.items())


def test_a_header_is_read_without_a_group() -> None:
    _, append = a_leader_and_its_append()
    seen = describe_message(memoryview(append.header))
    assert (seen.sender, seen.to, seen.kind, seen.term) == (1, 2, MessageKind.APPEND, 2)


@pytest.mark.parametrize(
    "header",
    [
        b"\xff\xff\xff",
        b"not protobuf at all",
        varint(19 << 3 | 3) * 1_000_000,  # groups in groups: whoever reads them by recursion runs out of stack
        a_header(kind=MessageKind.APPEND, to=3, sender=1, term=2),  # to somebody else
        a_header(kind=MessageKind.APPEND, to=2, sender=2, term=2),  # from itself
        a_header(kind=MessageKind.APPEND, to=2, sender=1),  # without a term
        a_header(kind=MessageKind.APPEND, to=2, sender=1, term=2, index=99),  # after an entry of no term
        a_header(kind=2, to=2, sender=3, term=2),  # a forwarded proposal
        a_header(kind=0, to=2, sender=3, term=2),  # "campaign!"
        a_header(kind=13, to=2, sender=3, term=2),  # "lead!"
        a_header(kind=99, to=2, sender=3, term=2),  # of no kind
        a_header(kind=MessageKind.HEARTBEAT, to=2, sender=1, term=2, commit=99),
        a_header(kind=MessageKind.HEARTBEAT, to=2, sender=1, term=1 << 63),
        a_header(kind=MessageKind.SNAPSHOT, to=2, sender=1, term=2),
        a_header(kind=MessageKind.READ_INDEX, to=2, sender=1),
    ],
)
def test_what_no_correct_peer_sends_is_refused(header: bytes) -> None:
    cluster, append = a_leader_and_its_append()
    with pytest.raises(MessageRefused):
        cluster[2].step(header, [])
    cluster[2].step(append.header, append.payloads)  # and the group lives on
    assert cluster[2].ready() is not None


def test_an_entry_of_an_unknown_kind_is_refused() -> None:
    cluster, append = a_leader_and_its_append()
    entry = varint(1 << 3) + varint(7) + varint(2 << 3) + varint(2) + varint(3 << 3) + varint(2)
    header = a_header(kind=MessageKind.APPEND, to=2, sender=1, term=2, log_term=2, index=1)
    with pytest.raises(MessageRefused, match="change of members"):
        cluster[2].step(header + varint(7 << 3 | 2) + varint(len(entry)) + entry, [b"x"])
    cluster[2].step(append.header, append.payloads)


def test_an_acknowledgement_beyond_the_log_is_refused() -> None:
    cluster, _ = a_leader_and_its_append()
    with pytest.raises(MessageRefused):
        cluster[1].step(a_header(kind=MessageKind.APPEND_RESPONSE, to=1, sender=2, term=2, index=99), [])


def test_payloads_and_entries_must_match() -> None:
    cluster, append = a_leader_and_its_append()
    with pytest.raises(MessageRefused):
        cluster[2].step(append.header, [])
    with pytest.raises(MessageRefused):
        cluster[2].step(append.header, [*append.payloads, b"one more"])


@settings(max_examples=300, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 6))
def test_a_damaged_header_never_breaks_the_group(source: random.Random, flips: int) -> None:
    cluster, append = a_leader_and_its_append()
    header = bytearray(append.header)
    for _ in range(flips):
        header[source.randrange(len(header))] = source.randrange(256)
    with contextlib.suppress(MessageRefused):
        cluster[2].step(bytes(header), append.payloads)
    while ready := cluster[2].ready():
        cluster[2].persisted(ready.number)
    assert cluster[2].status().id == 2


def test_the_answer_of_a_former_member_is_ignored() -> None:
    cluster, _ = a_leader_and_its_append()
    cluster[1].step(a_header(kind=MessageKind.APPEND_RESPONSE, to=1, sender=9, term=2, index=2), [])
    assert cluster[1].is_leader


def test_a_driver_that_is_ahead_of_itself_is_told() -> None:
    cluster, _ = a_leader_and_its_append()
    for wrong in (lambda group: group.persisted(99), lambda group: group.applied(99), lambda group: group.compact(99)):
        with pytest.raises(ValueError, match="99"):
            wrong(cluster[1])
    cluster.settle()
    assert cluster[1].is_leader


def a_broken_group() -> RaftGroup:
    """A candidate that asks for votes before its log is on disk, and so may lead with entries that a crash takes."""
    cluster, append = a_leader_and_its_append()
    group = cluster[2]
    group.step(append.header, append.payloads)
    assert group.ready() is not None  # and it is never written
    for kind, term in ((MessageKind.REQUEST_PRE_VOTE_RESPONSE, 3), (MessageKind.REQUEST_VOTE_RESPONSE, 3)):
        if kind == MessageKind.REQUEST_PRE_VOTE_RESPONSE:
            group.campaign()
        try:
            group.step(a_header(kind=kind, to=2, sender=3, term=term), [])
        except RaftPanic:
            return group
    raise AssertionError("the engine took it")


def test_a_panic_breaks_the_group_for_good_and_only_it(capfd: pytest.CaptureFixture[str]) -> None:
    group = a_broken_group()
    for touch in (group.tick, group.ready, group.status, lambda: group.propose(b"x"), lambda: group.persisted(1)):
        with pytest.raises(RaftPanic, match="the Raft engine has failed"):
            touch()
    other = open_group(1, fresh_state([1]), seed=1)
    other.campaign()
    assert other.is_leader
    capfd.readouterr()  # Rust writes the panic to stderr


def test_another_thread_may_look_and_let_go() -> None:
    cluster, _ = a_leader_and_its_append()
    seen: list[int] = []

    def look() -> None:
        seen.append(cluster[1].status().term)
        cluster.replicas.clear()
        gc.collect()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [2]
