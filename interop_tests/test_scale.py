"""Ten thousand partitions on one broker."""

import time
from collections.abc import Callable

import psutil
import pytest
from confluent_kafka.admin import NewTopic

from interop_tests.conftest import StartBroker
from interop_tests.support.clients.base import Message
from interop_tests.support.clients.confluent import Confluent
from interop_tests.support.topics import Topics, fresh_name
from interop_tests.support.wait import until

TOPICS, PARTITIONS = 20, 500
# The goals are 60 s and 10 s on a quiet machine; these tell a broken broker from a busy one.
CREATE_SECONDS, RESTART_SECONDS = 120.0, 30.0
RSS_BYTES = 1 << 30


@pytest.mark.timeout(300)
def test_ten_thousand_partitions_are_created_used_and_survive_a_restart(
    start_broker: StartBroker, record_property: Callable[[str, object], None]
) -> None:
    broker = start_broker()
    topics = Topics(broker.bootstrap)
    names = [fresh_name("many") for _ in range(TOPICS)]
    began = time.monotonic()
    for future in topics.admin.create_topics(
        [NewTopic(name, PARTITIONS, 1) for name in names], operation_timeout=120, request_timeout=120
    ).values():
        future.result(CREATE_SECONDS)
    until(
        lambda: (
            sum(len(topic.partitions) for topic in topics.admin.list_topics(timeout=30).topics.values())
            == TOPICS * PARTITIONS
        ),
        "all are there",
        seconds=60,
    )
    record_property("create_seconds", created := time.monotonic() - began)
    spread = [Message(value=b"%d" % i, partition=i) for i in range(PARTITIONS)]
    for name in names[::5]:
        Confluent().produce(broker.bootstrap, name, spread)
    record_property("rss_bytes", resident := psutil.Process(broker.pid).memory_info().rss)

    broker.kill()
    record_property("restart_seconds", restarted := broker.start(seconds=RESTART_SECONDS))

    # The first question of a client is part of the restart.
    after = Topics(broker.bootstrap)
    began = time.monotonic()
    assert set(names) <= after.names()
    restarted += time.monotonic() - began
    for partition in (0, PARTITIONS - 1):
        [record] = Confluent().consume(broker.bootstrap, names[0], partition, start=0, count=1)
        assert record.value == b"%d" % partition
        assert Confluent().watermarks(broker.bootstrap, names[1], partition) == (0, 0)
    assert created < CREATE_SECONDS
    assert restarted < RESTART_SECONDS
    assert resident < RSS_BYTES
