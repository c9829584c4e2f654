"""Reading by raw requests: how long a fetch waits, what a fetch session leaves out, where offsets are."""

import time
from collections.abc import Iterator

import pytest

from interop_tests.support.codes import Code
from interop_tests.support.topics import Topics
from interop_tests.support.wire import Wire, batch, batches, fetch_request

# A loaded machine may be late, never early.
LATE_MS = 1500


@pytest.fixture
def wire(bootstrap: str) -> Iterator[Wire]:
    with Wire(bootstrap) as connection:
        yield connection


def milliseconds_since(began: float) -> float:
    return (time.monotonic() - began) * 1000


class TestLongPoll:
    """Fetch waits as long as it was told to, and not a moment longer than it must."""

    @pytest.mark.parametrize("version", range(4, 19))
    def test_a_fetch_answers_in_every_version(self, wire: Wire, topics: Topics, version: int) -> None:
        topic = topics.create()
        wire.produce(topic, batch([b"a", b"b"]))
        topic_id = wire.topic_id(topic) if version >= 13 else None

        answer = wire.ask(fetch_request(topic, 1, topic_id=topic_id), version)

        [found] = answer.responses[0].partitions
        assert (found.error_code, found.high_watermark) == (0, 2)
        [stored] = batches(found.records)
        assert (stored.base_offset, stored.last_offset) == (0, 1)

    def test_without_data_it_answers_when_the_wait_is_over(self, wire: Wire, topics: Topics) -> None:
        topic = topics.create()
        began = time.monotonic()

        found = wire.fetch(topic, 0, max_wait_ms=400)

        assert 390 <= milliseconds_since(began) < 400 + LATE_MS
        assert (found.error_code, found.high_watermark, batches(found.records)) == (0, 0, [])

    def test_data_that_arrives_is_answered_at_once(self, wire: Wire, topics: Topics, bootstrap: str) -> None:
        topic = topics.create()
        wire.send(fetch_request(topic, 0, max_wait_ms=20_000), 12)
        with Wire(bootstrap) as other:
            other.produce(topic, batch([b"first"]))
        began = time.monotonic()

        found = wire.receive().responses[0].partitions[0]

        assert milliseconds_since(began) < LATE_MS
        assert [record.value for record in batches(found.records)[0]] == [b"first"]

    def test_data_below_min_bytes_waits_for_more(self, wire: Wire, topics: Topics, bootstrap: str) -> None:
        topic = topics.create()
        began = time.monotonic()
        wire.send(fetch_request(topic, 0, max_wait_ms=600, min_bytes=10_000), 12)
        with Wire(bootstrap) as other:
            other.produce(topic, batch([b"small"]))

        found = wire.receive().responses[0].partitions[0]

        assert milliseconds_since(began) >= 590
        assert len(batches(found.records)) == 1

    def test_no_wait_answers_at_once(self, wire: Wire, topics: Topics) -> None:
        topic = topics.create()
        began = time.monotonic()

        wire.fetch(topic, 0, max_wait_ms=0, min_bytes=1)
        wire.fetch(topic, 0, max_wait_ms=5000, min_bytes=0)

        assert milliseconds_since(began) < LATE_MS

    def test_an_error_in_one_partition_does_not_wait(self, wire: Wire, topics: Topics) -> None:
        topic = topics.create()
        began = time.monotonic()

        found = wire.fetch(topic, 77, max_wait_ms=10_000)

        assert found.error_code == Code.OFFSET_OUT_OF_RANGE
        assert milliseconds_since(began) < LATE_MS

    def test_one_batch_larger_than_every_limit_is_still_returned(self, wire: Wire, topics: Topics) -> None:
        topic = topics.create()
        wire.produce(topic, batch([b"x" * 100_000]))

        found = wire.fetch(topic, 0, max_bytes=1000, partition_max_bytes=1000)

        assert [stored.size_in_bytes > 100_000 for stored in batches(found.records)] == [True]

    def test_limits_hold_for_all_batches_but_the_first(self, wire: Wire, topics: Topics) -> None:
        topic = topics.create()
        for _ in range(10):
            wire.produce(topic, batch([b"x" * 1000]))

        found = wire.fetch(topic, 0, partition_max_bytes=3500)

        assert len(bytes(found.records)) <= 3500
        assert len(batches(found.records)) == 3


class TestFetchSession:
    """KIP-227: a consumer names its partitions once."""

    def test_a_session_answers_only_what_changed(self, wire: Wire, topics: Topics) -> None:
        topic = topics.create(partitions=3)
        topic_id = wire.topic_id(topic)
        request = fetch_request(topic, 0, session=(0, 0), topic_id=topic_id)
        whole = request.topics[0]
        first_partition = whole.partitions[0]
        other = type(first_partition)
        for index in (1, 2):
            whole.partitions.append(
                other(
                    partition=index,
                    current_leader_epoch=-1,
                    fetch_offset=0,
                    last_fetched_epoch=-1,
                    log_start_offset=-1,
                    partition_max_bytes=1 << 20,
                )
            )

        opened = wire.ask(request, 16)
        idle = wire.ask(fetch_request("", 0, session=(opened.session_id, 1)), 16)
        wire.produce(topic, batch([b"new"]), partition=1)
        changed = wire.ask(fetch_request("", 0, session=(opened.session_id, 2)), 16)

        assert opened.session_id > 0
        assert [found.partition_index for found in opened.responses[0].partitions] == [0, 1, 2]
        assert idle.responses == []
        [[found]] = [answer.partitions for answer in changed.responses]
        assert (found.partition_index, found.high_watermark) == (1, 1)

    def test_a_session_that_is_not_known_or_not_in_step_is_an_error(self, wire: Wire, topics: Topics) -> None:
        topic = topics.create()
        topic_id = wire.topic_id(topic)
        opened = wire.ask(fetch_request(topic, 0, session=(0, 0), topic_id=topic_id), 16)

        unknown = wire.ask(fetch_request("", 0, session=(123_456_789, 1)), 16)
        ahead = wire.ask(fetch_request("", 0, session=(opened.session_id, 5)), 16)

        assert unknown.error_code == Code.FETCH_SESSION_ID_NOT_FOUND
        assert ahead.error_code == Code.INVALID_FETCH_SESSION_EPOCH


class TestListOffsets:
    """Every question, in every version that has it."""

    @pytest.mark.parametrize("version", range(1, 11))
    def test_earliest_latest_and_by_time(self, wire: Wire, topics: Topics, version: int) -> None:
        topic = topics.create()
        base = 1_700_000_000_000
        wire.produce(topic, batch([b"a"], timestamp=base))
        wire.produce(topic, batch([b"b"], timestamp=base + 10))

        found = [wire.list_offset(topic, when, version=version) for when in (-2, -1, base + 1, base + 11)]

        assert [(answer.error_code, answer.offset) for answer in found] == [(0, 0), (0, 2), (0, 1), (0, -1)]
        if version >= 7:
            assert wire.list_offset(topic, -3, version=version).offset == 1
