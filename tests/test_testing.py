import subprocess
import sys
import time

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

import kompat.testing
from kompat.errors import ConfigError
from kompat.testing import RunningBroker

pytest_plugins = ["pytester"]


def test_records_come_back() -> None:
    with kompat.testing.broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("greetings", b"hello", key=b"k")
        assert producer.flush(10) == 0
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "none"})
        consumer.assign([TopicPartition("greetings", 0, 0)])
        message = consumer.poll(10)
        consumer.close()

    assert message is not None
    assert (message.key(), message.value()) == (b"k", b"hello")


def test_settings_are_given_by_kafkas_names_or_as_keywords() -> None:
    settings = {"num.partitions": 3}
    with kompat.testing.broker(settings, auto_create_topics_enable=True) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("made", b"x")
        assert producer.flush(10) == 0

        assert len(admin.list_topics("made", timeout=10).topics["made"].partitions) == 3


def test_brokers_run_side_by_side_and_know_nothing_of_each_other() -> None:
    with kompat.testing.broker() as first, kompat.testing.broker() as second:
        producer = Producer({"bootstrap.servers": first.bootstrap_servers})
        producer.produce("only-here", b"x")
        assert producer.flush(10) == 0

        assert "only-here" in AdminClient({"bootstrap.servers": first.bootstrap_servers}).list_topics(timeout=10).topics
        assert not AdminClient({"bootstrap.servers": second.bootstrap_servers}).list_topics(timeout=10).topics


def test_a_broker_has_an_http_door_where_it_is_asked_for() -> None:
    with kompat.testing.broker(http=True) as broker:
        ready = httpx.get(f"{broker.http_url}/health/ready", timeout=30)
    with kompat.testing.broker() as without:
        assert without.http == ""

    assert ready.json()["status"] == "ok"
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{broker.http_url}/health/live", timeout=30)


def test_a_wrong_setting_is_told_to_the_caller() -> None:
    with pytest.raises(ConfigError, match=r"no\.such\.setting"), kompat.testing.broker(no_such_setting=1):
        pass


class SlowToEnd(kompat.testing._BrokerThread):
    def run(self) -> None:
        super().run()
        time.sleep(0.2)


@pytest.mark.parametrize("kind", [kompat.testing._BrokerThread, SlowToEnd])
def test_a_port_in_use_is_told_to_the_caller(
    kind: type[kompat.testing._BrokerThread], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever stopped the broker then found a thread whose loop was closed, and told of that."""
    monkeypatch.setattr(kompat.testing, "_BrokerThread", kind)
    with kompat.testing.broker() as other:
        for _ in range(3):
            with pytest.raises(OSError, match="in use"), kompat.testing.broker(port=other.port):
                pass


def test_a_broker_that_cannot_be_imported_is_told_to_the_caller() -> None:
    code = "import sys, kompat.testing; sys.modules['kompat.broker'] = None\nwith kompat.testing.broker(): pass"

    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)  # noqa: S603

    assert told.returncode == 1
    assert "kompat.broker" in told.stderr.splitlines()[-1]


def test_a_groups_first_record_does_not_wait_for_others_to_join() -> None:
    with kompat.testing.broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        node = str(next(iter(admin.list_topics(timeout=10).brokers)))
        [told] = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, node)]).values()
        found = told.result(10)

    assert found["group.initial.rebalance.delay.ms"].value == "0"


def test_the_environment_of_the_developer_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOMPAT_NO_SUCH", "1")

    with kompat.testing.broker():
        pass


def test_an_exception_in_the_block_stops_the_broker_and_goes_on() -> None:
    with pytest.raises(ZeroDivisionError), kompat.testing.broker() as broker:
        raise ZeroDivisionError

    with kompat.testing.broker({"port": broker.port}) as again:
        assert again.port == broker.port


def test_pytest_finds_the_fixtures(kompat_broker: RunningBroker, kompat_bootstrap_servers: str) -> None:
    assert kompat_bootstrap_servers == kompat_broker.bootstrap_servers
    producer = Producer({"bootstrap.servers": kompat_bootstrap_servers})
    producer.produce("fixture", b"x")
    assert producer.flush(10) == 0


def test_a_fresh_broker_is_empty(kompat_broker: RunningBroker, kompat_fresh_broker: RunningBroker) -> None:
    admin = AdminClient({"bootstrap.servers": kompat_fresh_broker.bootstrap_servers})

    assert kompat_fresh_broker.port != kompat_broker.port
    assert not admin.list_topics(timeout=10).topics


def test_the_plugin_costs_those_who_do_not_use_it_next_to_nothing() -> None:
    code = "import sys, kompat.testing.plugin; print('kompat.broker' in sys.modules, 'uvloop' in sys.modules)"

    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603

    assert told.stdout == "False False\n"


def test_a_projects_own_settings_reach_the_broker(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def kompat_settings():
            return {"num.partitions": 5}
        """
    )
    pytester.makepyfile(
        """
        from confluent_kafka.admin import AdminClient
        from confluent_kafka import Producer

        def test_it(kompat_bootstrap_servers):
            producer = Producer({"bootstrap.servers": kompat_bootstrap_servers})
            producer.produce("t", b"x")
            assert producer.flush(10) == 0
            admin = AdminClient({"bootstrap.servers": kompat_bootstrap_servers})
            assert len(admin.list_topics("t", timeout=10).topics["t"].partitions) == 5
        """
    )

    pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:asyncio").assert_outcomes(passed=1)
