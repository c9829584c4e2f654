"""What operators look at, with a real Prometheus: every query of the dashboard has data, every alert can be judged."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from interop_tests.support import prometheus
from interop_tests.support.cluster import Cluster
from interop_tests.support.prometheus import Prometheus
from interop_tests.support.rest import Door
from interop_tests.support.wait import until
from kompat.cluster.state import ResourceType
from kompat.metrics.catalogue import HISTOGRAM, METRICS
from tests.handlers import wire

pytestmark = pytest.mark.skipif(
    not prometheus.is_installed(), reason="there is no prometheus here: apt install prometheus"
)

GROUP, QUEUE = "watched", "workers"
SETTINGS = {
    "kompat.fsync": "interval",
    "kompat.fsync.interval.ms": "200",
    "group.share.assignment.interval.ms": "0",
    "group.share.delivery.count.limit": "2",
    "kompat.trace.sample": "1",
}


class Load:
    """A little of everything that the dashboard shows, until it is stopped."""

    def __init__(self, cluster: Cluster) -> None:
        self._bootstrap = cluster.bootstrap
        self._door = Door(next(iter(cluster.brokers.values())).http_url)
        self._topic = cluster.create("orders", 3)
        self._lanes = cluster.create("urgent", 1, kompat_delivery_order="priority")
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.failure: BaseException | None = None

    def __enter__(self) -> Load:
        subscribe(self._bootstrap)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        self._door.close()
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as failure:
            self.failure = failure
            raise

    def _work(self) -> None:
        config = {"bootstrap.servers": self._bootstrap, "log_level": 0}
        producer = Producer({**config, "client.id": "the-producer"})
        consumer = Consumer({**config, "group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False})
        consumer.subscribe([self._topic])
        queue = f"/v1/queues/{self._topic}/groups/{QUEUE}"
        self._door.post(f"/v1/topics/{self._topic}/messages", {"messages": [{"value": "later", "delay": "1h"}]})
        self._door.post(f"/v1/topics/{self._topic}/messages", {"messages": [{"value": "soon", "delay": 100}]})
        while not self._end.is_set():
            for number in range(20):
                producer.produce(self._topic, str(number).encode(), key=str(number).encode())
            producer.produce(self._lanes, b"now", headers={"kompat-priority": "critical"})
            producer.flush(30)
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                consumer.commit(message, asynchronous=False)
            taken = self._door.post(f"{queue}/acquire", {"max": 4, "waitMs": 1000})["deliveries"]
            if len(taken) > 1:
                self._door.post(f"{queue}/reject", {"receipts": [taken[0]["receipt"]]})
            self._door.get("/v1/topics/there-is-none", status=404)
            refused(self._bootstrap)
        consumer.close()


def subscribe(bootstrap: str) -> None:
    """Have all clients push all of their metrics, every second. No client library but Java's has a word for such resources."""
    host, _, port = bootstrap.partition(",")[0].partition(":")
    message = wire.message("IncrementalAlterConfigsRequest")
    entry = message.AlterConfigsResource.AlterableConfig
    resource = message.AlterConfigsResource(
        resource_type=ResourceType.CLIENT_METRICS,
        resource_name="everything",
        configs=[
            entry(name="metrics", config_operation=0, value="*"),
            entry(name="interval.ms", config_operation=0, value="1000"),
        ],
    )
    answer = wire.ask((host, int(port)), message(resources=[resource], validate_only=False), 1, timeout=30)
    assert answer.responses[0].error_code == 0, answer


def refused(bootstrap: str) -> None:
    """A request that is answered with an error."""
    host, _, port = bootstrap.partition(",")[0].partition(":")
    message = wire.message("ListOffsetsRequest")
    partition = message.ListOffsetsTopic.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)
    topic = message.ListOffsetsTopic(name="there-is-none", partitions=[partition])
    wire.ask(
        (host, int(port)), message(replica_id=-1, isolation_level=0, topics=[topic], timeout_ms=1000), 10, timeout=30
    )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    started = Cluster(tmp_path_factory.mktemp("monitored"), SETTINGS, http=True)
    try:
        started.found(3)
        yield started
    finally:
        started.close()


@pytest.fixture(scope="module")
def watching(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    targets = [f"127.0.0.1:{broker.http_port}" for broker in cluster.brokers.values()]
    home = tmp_path_factory.mktemp("prometheus") / "home"
    with Load(cluster), prometheus.scraping(home, targets) as started:
        yield started


def expressions() -> list[tuple[str, str]]:
    """Title and query of all that the dashboard shows, as Grafana would send it."""
    dashboard = json.loads(prometheus.DASHBOARD.read_text())
    found = []
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            query = target["expr"].replace("$__rate_interval", "15s").replace("$instance", ".*")
            assert "$" not in query, query
            found.append((panel["title"], query))
    return found


@pytest.mark.timeout(240)
def test_every_query_of_the_dashboard_has_data(watching: Prometheus) -> None:
    missing = dict.fromkeys(expressions())
    assert len(missing) > 40

    def none_is_missing() -> bool:
        for each in list(missing):
            if watching.query(each[1]):
                del missing[each]
        return not missing

    try:
        until(none_is_missing, "all have data", seconds=90)
    except AssertionError:
        raise AssertionError(f"no data: {list(missing)}") from None


@pytest.mark.timeout(240)
def test_every_alert_can_be_judged_and_none_speaks_up(watching: Prometheus) -> None:
    rules = until(
        lambda: (found := watching.rules()) and all(r["health"] != "unknown" for r in found) and found,
        "judged",
        seconds=60,
    )

    assert {rule["health"] for rule in rules} == {"ok"}, [rule.get("lastError") for rule in rules]
    for rule in rules:
        for name in prometheus.metrics_in(rule["query"]):
            until(lambda name=name: watching.query(f"count({name})"), f"{rule['name']}: {name}", seconds=60)  # type: ignore[misc]
    critical = [
        rule["name"] for rule in rules if rule["labels"]["severity"] == "critical" and rule["state"] == "firing"
    ]
    assert not critical


@pytest.mark.timeout(240)
def test_librdkafka_pushes_its_own_metrics(watching: Prometheus) -> None:
    found = until(
        lambda: watching.query('kompat_client_metric{client_id="the-producer", metric=~".*producer.*"}'),
        "the producer's metrics",
        seconds=60,
    )

    assert {sample["metric"]["job"] for sample in found} == {"kompat"}
    assert watching.query("sum(kompat_client_pushes_total) > 0")


@pytest.mark.timeout(240)
def test_every_metric_of_the_catalogue_is_on_some_broker(watching: Prometheus) -> None:
    seldom = {"kompat_metrics_omitted_series", "kompat_client_pushes_refused_total"}
    expected = {
        f"{name}_bucket" if metric.kind == HISTOGRAM else name for name, metric in METRICS.items() if name not in seldom
    }

    def missing() -> set[str]:
        found = watching.query('count by (__name__) ({job="kompat"})')
        return expected - {sample["metric"]["__name__"] for sample in found}

    until(lambda: not missing(), "all are there", seconds=60)


@pytest.mark.timeout(240)
def test_the_lag_of_every_group_is_on_one_broker_wherever_its_partitions_are(cluster: Cluster) -> None:
    topics = [cluster.create("spread", 3, factor=1) for _ in range(2)]
    config = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
    producer = Producer(config)
    for number in range(60):
        producer.produce(topics[number % 2], b"x", partition=number // 2 % 3)  # ten on each
    assert producer.flush(30) == 0
    groups = [f"behind-{number}" for number in range(6)]  # some have their coordinator here, some there
    for number, group in enumerate(groups):
        consumer = Consumer({**config, "group.id": group})
        offsets = [TopicPartition(topic, partition, number) for topic in topics for partition in range(3)]
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()

    expected = {
        (group, topic, str(partition)): 10 - number
        for number, group in enumerate(groups)
        for topic in topics
        for partition in range(3)
    }
    until(lambda: lags(cluster, set(groups)) == expected, "all are told, each once", seconds=60)


def lags(cluster: Cluster, groups: set[str]) -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = {}
    for broker in cluster.brokers.values():
        page = httpx.get(f"{broker.http_url}/metrics").text
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                if sample.name == "kompat_group_lag" and sample.labels["group"] in groups:
                    labels = tuple(sample.labels.values())
                    assert labels not in found
                    found[labels] = sample.value
    return found
