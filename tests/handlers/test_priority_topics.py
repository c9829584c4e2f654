"""Topics that are delivered by priority, as clients see them; the rules themselves are tested with the lanes."""

from __future__ import annotations

from contextlib import closing
from threading import Timer
from uuid import UUID

from kompat.protocol.records import Record, build_batch, iterate, split_batches
from tests.handlers.conftest import Asker
from tests.handlers.share import Member, values

NOW = 1_700_000_000_000
LATEST = -1


def a_topic(ask: Asker, **configs: str) -> str:
    return ask.new_topic(**{"kompat_delivery_order": "priority", "retention_ms": "-1"} | configs)


def produce(ask: Asker, topic: str, *priorities: int) -> None:
    """A batch of one record each, named by its class and place."""
    for place, priority in enumerate(priorities):
        headers = (("kompat-priority", b"%d" % priority),)
        batch = bytes(build_batch([Record(0, NOW, None, b"%d-%d" % (priority, place), headers)]))
        data = [{"index": 0, "records": batch}]
        answer = ask("Produce", 9, acks=-1, timeout_ms=1000, topic_data=[{"name": topic, "partition_data": data}])
        assert answer.responses[0].partition_responses[0].error_code == 0


def fetch(ask: Asker, topic: str, offset: int, max_wait_ms: int = 10_000) -> tuple[list[bytes | None], int]:
    """Values, and where to go on."""
    wanted = [{"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}]
    answer = ask(
        "Fetch",
        12,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[{"topic": topic, "partitions": wanted}],
    )
    found: list[bytes | None] = []
    for batch in split_batches(memoryview(answer.responses[0].partitions[0].records or b"")):
        for record in iterate(batch):
            found.append(record.value)
            offset = record.offset + 1
    return found, offset


def latest(ask: Asker, topic: str) -> int:
    asked = [{"partition_index": 0, "timestamp": LATEST}]
    answer = ask("ListOffsets", 7, replica_id=-1, topics=[{"name": topic, "partitions": asked}])
    assert answer.topics[0].partitions[0].error_code == 0
    offset: int = answer.topics[0].partitions[0].offset
    return offset


def set_configs(ask: Asker, topic: str, **configs: str) -> None:
    wanted = [{"name": k.replace("_", "."), "config_operation": 0, "value": v} for k, v in configs.items()]
    resources = [{"resource_type": 2, "resource_name": topic, "configs": wanted}]
    answer = ask("IncrementalAlterConfigs", 1, resources=resources, validate_only=False)
    assert answer.responses[0].error_code == 0, answer


def test_a_fetch_from_the_beginning_gets_the_most_urgent_first(ask: Asker) -> None:
    topic = a_topic(ask, kompat_priority_release_max_records="2")
    produce(ask, topic, 1, 9, 5)

    first, position = fetch(ask, topic, 0)
    second, _ = fetch(ask, topic, position)

    assert first == [b"9-1", b"5-2"]
    assert second == [b"1-0"]


def test_a_fetch_that_waits_gets_what_comes(ask: Asker) -> None:
    topic = a_topic(ask)
    timer = Timer(0.1, produce, (ask, topic, 3))
    timer.start()

    assert fetch(ask, topic, 0)[0] == [b"3-0"]
    timer.join()


def test_what_comes_before_the_end_that_was_told_is_all_there_is(ask: Asker) -> None:
    """Spark asks where the log ends, and reads up to there."""
    topic = a_topic(ask, kompat_priority_release_max_records="1")
    produce(ask, topic, 1, 9, 5)
    end = latest(ask, topic)
    found, position = fetch(ask, topic, 0, max_wait_ms=0)

    assert position == end
    assert found == [b"9-1", b"5-2", b"1-0"]
    assert latest(ask, topic) == end


def test_the_setting_can_be_turned_off_and_on(ask: Asker) -> None:
    topic = a_topic(ask)
    produce(ask, topic, 1, 9)
    set_configs(ask, topic, kompat_delivery_order="offset")
    produce(ask, topic, 2, 3)
    found, position = fetch(ask, topic, 0)
    while len(found) < 4:
        more, position = fetch(ask, topic, position)
        found += more
    assert sorted(found[:2]) == [b"1-0", b"9-1"]
    assert found[0] == b"9-1"
    assert found[2:] == [b"2-0", b"3-1"]

    set_configs(ask, topic, kompat_delivery_order="priority")
    produce(ask, topic, 2, 3)
    assert fetch(ask, topic, position)[0] == [b"3-1", b"2-0"]


def test_a_fetch_behind_a_full_window_goes_on_with_a_groups_commit(ask: Asker) -> None:
    topic = a_topic(ask, kompat_priority_window="1")
    produce(ask, topic, 1, 9)
    first, position = fetch(ask, topic, 0)
    assert (first, fetch(ask, topic, position, max_wait_ms=50)[0]) == ([b"9-1"], [])

    timer = Timer(0.1, commit, (ask, topic, position))
    timer.start()
    assert fetch(ask, topic, position)[0] == [b"1-0"]
    timer.join()


def commit(ask: Asker, topic: str, offset: int) -> None:
    partitions = [{"partition_index": 0, "committed_offset": offset}]
    group = {"group_id": f"group-{topic}", "generation_id_or_member_epoch": -1, "member_id": ""}
    answer = ask("OffsetCommit", 8, topics=[{"name": topic, "partitions": partitions}], **group)
    assert answer.topics[0].partitions[0].error_code == 0


def test_a_share_groups_fetch_is_a_demand_too(ask: Asker) -> None:
    topic = a_topic(ask, kompat_priority_release_max_records="2")
    described = ask("Metadata", 12, topics=[{"name": topic, "topic_id": None}])
    topic_id: UUID = described.topics[0].topic_id
    group = f"group-{topic}"
    earliest = [{"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}]
    resources = [{"resource_type": 32, "resource_name": group, "configs": earliest}]
    ask("IncrementalAlterConfigs", 1, resources=resources, validate_only=False)
    produce(ask, topic, 1, 9, 5)
    with closing(Member((ask.broker.host, ask.broker.port), group, "alice")) as alice:
        first, second = alice.fetch({topic_id: [0]}), alice.fetch()

    assert values(first) == [b"9-1", b"5-2"]
    assert values(second) == [b"1-0"]
