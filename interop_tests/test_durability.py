"""What was acknowledged stays, whatever happens to the process."""

import random
import time

import pytest

from interop_tests.conftest import StartBroker
from interop_tests.support.clients.base import Message
from interop_tests.support.clients.confluent import Confluent
from interop_tests.support.load import Load, check_promises, wait_for_progress
from interop_tests.support.topics import Topics
from interop_tests.support.wire import Wire, batch, fetch_request

PARTITIONS = 3
STOP_SECONDS = 10.0


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("kills", "fsync"), [(20, "never"), (4, "always")])
def test_acknowledged_records_survive_being_killed_under_load(
    start_broker: StartBroker, kills: int, fsync: str
) -> None:
    broker = start_broker({"kompat.fsync": fsync})
    topics = Topics(broker.bootstrap)
    chance = random.Random(kills)
    counted = Load(broker.bootstrap, topics.create("counted", PARTITIONS), PARTITIONS, idempotent=True)
    plain = Load(broker.bootstrap, topics.create("plain", PARTITIONS), PARTITIONS, idempotent=False)

    with counted, plain:
        for _ in range(kills):
            wait_for_progress([counted, plain], chance.randrange(50, 500))
            # The moment of death is drawn, so that it falls into every part of the work.
            time.sleep(chance.uniform(0, 0.05))
            broker.kill()
            broker.start()
        wait_for_progress([counted, plain], 100)
        counted.finish()
        plain.finish()

    check_promises(counted, broker.bootstrap)
    check_promises(plain, broker.bootstrap)


def test_a_stop_under_load_is_quick_clean_and_loses_nothing(start_broker: StartBroker) -> None:
    broker = start_broker()
    topics = Topics(broker.bootstrap)
    counted = Load(broker.bootstrap, topics.create("counted", PARTITIONS), PARTITIONS, idempotent=True)
    plain = Load(broker.bootstrap, topics.create("plain", PARTITIONS), PARTITIONS, idempotent=False)

    with counted, plain:
        for _ in range(3):
            wait_for_progress([counted, plain], 500)
            began = time.monotonic()
            assert broker.stop() == 0
            assert time.monotonic() - began < STOP_SECONDS
            broker.start()
        wait_for_progress([counted, plain], 100)
        counted.finish()
        plain.finish()

    check_promises(counted, broker.bootstrap)
    check_promises(plain, broker.bootstrap)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_restart_keeps_topics_configs_offsets_and_producers(start_broker: StartBroker, end: str) -> None:
    broker = start_broker()
    topics = Topics(broker.bootstrap)
    topic = topics.create(partitions=2, retention_ms=12345, cleanup_policy="compact,delete")
    gone = topics.create()
    Confluent().produce(
        broker.bootstrap, topic, [Message(key=b"k", value=str(i).encode(), partition=1) for i in range(20)]
    )
    with Wire(broker.bootstrap) as wire:
        topic_id, producer = wire.topic_id(topic), wire.producer_id()
        sent = batch([b"a", b"b"], key=b"k", producer=producer, sequence=0)
        assert wire.produce(topic, sent).base_offset == 0
    topics.admin.delete_topics([gone])[gone].result(20)

    broker.stop() if end == "stop" else broker.kill()
    broker.start()

    after = Topics(broker.bootstrap)
    after.wait(topic, 2)
    assert after.names() & {topic, gone} == {topic}
    assert after.configs(topic) == {"retention.ms": "12345", "cleanup.policy": "compact,delete"}
    assert Confluent().watermarks(broker.bootstrap, topic, 1) == (0, 20)
    assert [record.value for record in Confluent().consume(broker.bootstrap, topic, 1, start=0, count=20)] == [
        str(i).encode() for i in range(20)
    ]
    with Wire(broker.bootstrap) as wire:
        assert wire.topic_id(topic) == topic_id
        again = wire.produce(topic, sent)
        assert (again.error_code, again.base_offset) == (0, 0)
        assert wire.produce(topic, batch([b"c"], key=b"k", producer=producer, sequence=2)).base_offset == 2
        assert wire.producer_id()[0] > producer[0]


def test_a_restart_keeps_the_log_start_and_the_cluster_id(start_broker: StartBroker) -> None:
    broker = start_broker()
    topics = Topics(broker.bootstrap)
    topic = topics.create()
    Confluent().produce(broker.bootstrap, topic, [Message(value=b"v")] * 10)
    topics.delete_records(topic, 0, before=6)
    cluster_id = topics.admin.list_topics(timeout=10).cluster_id

    broker.kill()
    broker.start()

    Topics(broker.bootstrap).wait(topic, 1)
    assert Confluent().watermarks(broker.bootstrap, topic, 0) == (6, 10)
    assert Topics(broker.bootstrap).admin.list_topics(timeout=10).cluster_id == cluster_id


def test_a_waiting_consumer_does_not_delay_the_stop(start_broker: StartBroker) -> None:
    broker = start_broker()
    topic = Topics(broker.bootstrap).create()
    with Wire(broker.bootstrap) as wire:
        wire.send(fetch_request(topic, 0, max_wait_ms=60_000), 12)
        began = time.monotonic()
        assert broker.stop() == 0

    assert time.monotonic() - began < STOP_SECONDS
