"""Memory for what consumers far behind have asked for is bounded, and nobody is stopped by those who do not read."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

import kompat.testing
from kompat.handlers.support.fetch_room import LEAST, LIMIT, SHARE, FetchRoom
from kompat.protocol.records import Record, build_batch
from tests.handlers import wire
from tests.handlers.conftest import Asker, build

BATCH = bytes(build_batch([Record(0, 1_700_000_000_000, None, b"x" * 500_000)]))
BATCHES = 60
GREEDY = 64
VERSION = 12
KERNEL = 64 << 10


def test_an_answer_gets_a_share_of_what_is_left() -> None:
    room = FetchRoom(1000 * LEAST)
    room.unread = lambda: 600 * LEAST

    assert room.reserve(10 * LEAST) == 10 * LEAST
    assert room.reserve(1000 * LEAST) == (400 - 10) * LEAST // SHARE


def test_there_is_a_little_for_everybody_when_nothing_is_left() -> None:
    room = FetchRoom(1000 * LEAST)
    room.unread = lambda: 2000 * LEAST

    assert room.reserve(1000 * LEAST) == LEAST


def test_what_is_given_back_can_be_had_again() -> None:
    room = FetchRoom(1000 * LEAST)
    first = room.reserve(1000 * LEAST)
    assert room.reserve(1000 * LEAST) < first
    room.give_back(first)
    room.give_back((1000 * LEAST - first) // SHARE)

    assert room.reserve(1000 * LEAST) == first


@pytest.fixture(scope="module")
def forgetful() -> Iterator[Asker]:
    """A broker that has to read almost everything from its store."""
    given = {"kompat.cache.bytes": 1_000_000, "socket.send.buffer.bytes": KERNEL}
    with kompat.testing.broker(given) as broker:
        yield Asker(broker)


def test_clients_that_ask_for_much_and_read_nothing_get_little(forgetful: Asker) -> None:
    topic = a_full_topic(forgetful)
    with ExitStack() as stack:
        address = forgetful.broker.host, forgetful.broker.port
        greedy = [stack.enter_context(_with_little_room(address)) for _ in range(GREEDY)]
        for each in greedy:
            each.sendall(wire.request_frame(a_fetch(topic), VERSION) * 2)
        assert records(forgetful, topic) > 0  # others are served meanwhile
        for each in greedy:
            each.recv(1, socket.MSG_PEEK)  # all are answered before anybody reads, which would make room for the next
        answers = [len(wire.read_frame(each)) for each in greedy]

    assert min(answers) > len(BATCH)
    assert sum(answers) < LIMIT + GREEDY * (len(BATCH) + LEAST + 4 * KERNEL)
    # All has been read, so there is room again.
    assert records(forgetful, topic) > LIMIT // SHARE - len(BATCH)


def _with_little_room(address: tuple[str, int]) -> socket.socket:
    """A connection of which the kernel keeps little: what it keeps is not the broker's memory."""
    connection = socket.socket()
    connection.settimeout(30)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, KERNEL)
    connection.connect(address)
    return connection


def a_full_topic(ask: Asker) -> str:
    topic = ask.new_topic()
    for _ in range(BATCHES):
        answer = ask(
            "Produce",
            VERSION,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[{"name": topic, "partition_data": [{"index": 0, "records": BATCH}]}],
        )
        assert answer.responses[0].partition_responses[0].error_code == 0
    return topic


def a_fetch(topic: str) -> object:
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 30}
    return build(
        "FetchRequest",
        {
            "max_bytes": 1 << 30,
            "min_bytes": 1,
            "session_epoch": -1,
            "topics": [{"topic": topic, "partitions": [wanted]}],
        },
    )


def records(ask: Asker, topic: str) -> int:
    """How many bytes of them one answer holds."""
    answer = wire.ask((ask.broker.host, ask.broker.port), a_fetch(topic), VERSION)
    return len(answer.responses[0].partitions[0].records)
