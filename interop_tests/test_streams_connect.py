"""Kafka Streams and Connect, which live on transactions, groups, compacted topics and administration all at once."""

import http.client
import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from interop_tests.support.broker import AnyBroker, external, free_port, running
from interop_tests.support.clients.base import Message
from interop_tests.support.clients.confluent import Confluent, consumer
from interop_tests.support.program import Program, running_program
from interop_tests.support.topics import Topics, fresh_name
from interop_tests.support.wait import until
from interop_tests.support.worker import java_command

PARTITIONS = 2
LINES_PER_BATCH = 20
START_SECONDS = 40.0
REST_SECONDS = 30.0
LINES_PER_FILE = 500
WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog", "and", "runs", "away")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyBroker]:
    """One that does not wait for more members when a group begins: there are four such waits here."""
    given = external()
    if given is not None:
        yield given
        return
    with running(tmp_path_factory.mktemp("broker"), {"group.initial.rebalance.delay.ms": "0"}) as started:
        yield started


class Lines:
    """The input of a word count: lines go to the partitions in turn."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._words = itertools.cycle(WORDS)
        self.counts: Counter[str] = Counter()

    def send_batch(self) -> None:
        lines = [[next(self._words) for _ in range(1 + index % 7)] for index in range(LINES_PER_BATCH)]
        messages = [
            Message(value=" ".join(line).encode(), partition=index % PARTITIONS) for index, line in enumerate(lines)
        ]
        Confluent().produce(self._bootstrap, self._topic, messages)
        self.counts.update(itertools.chain.from_iterable(lines))


def read_counts(bootstrap: str, topic: str, *, isolation: str = "read_committed") -> dict[str, list[int]]:
    """Every count that was written for a word, in the order of the log, up to its end."""
    counts: dict[str, list[int]] = defaultdict(list)
    reader = consumer(bootstrap, **{"isolation.level": isolation, "enable.partition.eof": True})
    reader.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    ended: set[int | None] = set()
    while len(ended) < PARTITIONS:
        message = reader.poll(START_SECONDS)
        assert message is not None, f"{topic} has no end"
        error = message.error()
        if error is None:
            key, value = message.key(), message.value()
            assert key is not None
            assert value is not None
            counts[key.decode()].append(int(value))
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
        else:
            raise KafkaException(error)
    reader.close()
    return counts


def end_offsets(topics: Topics, topic: str, isolation: IsolationLevel) -> int:
    wanted = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(PARTITIONS)}
    futures = topics.admin.list_offsets(wanted, isolation_level=isolation)
    return sum(future.result(20).offset for future in futures.values())


def has_open_transaction(topics: Topics, topic: str) -> bool:
    stable = end_offsets(topics, topic, IsolationLevel.READ_COMMITTED)
    return stable < end_offsets(topics, topic, IsolationLevel.READ_UNCOMMITTED)


def total(counts: dict[str, list[int]]) -> int:
    return sum(map(len, counts.values()))


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_streams_counts_words_exactly_once_through_a_restart(
    topics: Topics, bootstrap: str, tmp_path: Path, is_killed: bool
) -> None:
    source, output = topics.create("lines", PARTITIONS), topics.create("counts", PARTITIONS)
    lines = Lines(bootstrap, source)
    place = (bootstrap, fresh_name("wordcount"), source, output, str(tmp_path / "state"))
    command = [*java_command("kompat.interop.WordCount"), *place]

    def counted(app: Program, count: int) -> None:
        def check() -> bool:
            app.check_runs()
            return total(read_counts(bootstrap, output)) >= count

        until(check, f"{count} words are counted", seconds=START_SECONDS)

    lines.send_batch()
    with running_program(command, tmp_path / "first.log") as app:
        counted(app, lines.counts.total())
        lines.send_batch()
        until(lambda: has_open_transaction(topics, output), "there is a transaction to interrupt")
        if is_killed:
            app.kill()
        else:
            app.stop()
    before = total(read_counts(bootstrap, output))
    assert has_open_transaction(topics, output) == is_killed
    lines.send_batch()
    with running_program(command, tmp_path / "second.log") as app:
        counted(app, lines.counts.total())
        app.stop()

    counts = read_counts(bootstrap, output)
    uncommitted = read_counts(bootstrap, output, isolation="read_uncommitted")
    assert before < lines.counts.total()
    assert counts == {word: list(range(1, count + 1)) for word, count in lines.counts.items()}
    assert (total(uncommitted) > total(counts)) == is_killed, "what the killed one had written was aborted"


class Connect:
    """A Connect worker in distributed mode, spoken to through its REST interface."""

    def __init__(self, program: Program, port: int) -> None:
        self.program = program
        self._port = port

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=REST_SECONDS)
        try:
            connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        is_json = response.headers.get_content_type() == "application/json"  # Jetty speaks HTML until Connect is up
        return response.status, json.loads(text) if is_json and text else text.decode()

    def is_up(self) -> bool:
        self.program.check_runs()
        try:
            return self.ask("GET", "/connectors")[0] == http.HTTPStatus.OK
        except OSError:
            return False

    def create(self, name: str, **config: str) -> None:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        status, answer = self.ask("POST", "/connectors", {"name": name, "config": settings})
        assert status == http.HTTPStatus.CREATED, answer
        self.wait_for(name)

    def wait_for(self, name: str) -> None:
        """Until the connector and its one task run."""
        until(lambda: self._states(name) == ["RUNNING", "RUNNING"], f"{name} runs", seconds=START_SECONDS)

    def _states(self, name: str) -> list[str]:
        self.program.check_runs()
        status, answer = self.ask("GET", f"/connectors/{name}/status")
        if status != http.HTTPStatus.OK:
            return []
        states = [answer["connector"], *answer["tasks"]]
        assert all(state["state"] != "FAILED" for state in states), answer
        return [state["state"] for state in states]


@contextmanager
def running_connect(settings: dict[str, str], home: Path, name: str) -> Iterator[Connect]:
    port = free_port()
    file = home / f"{name}.properties"
    listening = {"listeners": f"http://127.0.0.1:{port}"}
    file.write_text("".join(f"{key}={value}\n" for key, value in (settings | listening).items()))
    command = [*java_command("org.apache.kafka.connect.cli.ConnectDistributed"), str(file)]
    with running_program(command, home / f"{name}.log") as program:
        worker = Connect(program, port)
        until(worker.is_up, "Connect answers", seconds=START_SECONDS)
        yield worker


def test_connect_moves_lines_from_file_to_file_through_a_restart(
    topics: Topics, bootstrap: str, tmp_path: Path
) -> None:
    group, topic = fresh_name("connect"), fresh_name("moved")
    source_name, sink_name = fresh_name("source"), fresh_name("sink")
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "plugin.discovery": "service_load",
        "exactly.once.source.support": "enabled",
        "offset.flush.interval.ms": "500",
        "topic.creation.enable": "true",
        "scheduled.rebalance.max.delay.ms": "0",
        **{
            f"{kind}.storage.{key}": value
            for kind in ("config", "offset", "status")
            for key, value in (("topic", f"{group}-{kind}"), ("replication.factor", "1"))
        },
    }
    source, sink = tmp_path / "source", tmp_path / "sink"
    lines = [f"{number}: {word}" for number, word in zip(range(3 * LINES_PER_FILE), itertools.cycle(WORDS))]

    def append(part: int) -> None:
        with source.open("a") as file:
            file.writelines(f"{line}\n" for line in lines[part * LINES_PER_FILE : (part + 1) * LINES_PER_FILE])

    def moved(worker: Connect, count: int) -> None:
        def check() -> bool:
            worker.program.check_runs()
            return sink.exists() and len(sink.read_text().splitlines()) >= count

        until(check, f"{count} lines are in the sink", seconds=START_SECONDS)

    append(0)
    with running_connect(settings, tmp_path, "first") as worker:
        worker.create(
            source_name,
            connector_class="FileStreamSource",
            file=str(source),
            topic=topic,
            topic_creation_default_partitions="1",
            topic_creation_default_replication_factor="1",
        )
        until(lambda: topic in topics.names(), "Connect creates the topic", seconds=START_SECONDS)
        worker.create(
            sink_name,
            connector_class="FileStreamSink",
            file=str(sink),
            topics=topic,
            consumer_override_isolation_level="read_committed",
        )
        moved(worker, LINES_PER_FILE)
        append(1)
        moved(worker, 2 * LINES_PER_FILE)
        worker.program.stop()
    append(2)
    with running_connect(settings, tmp_path, "second") as worker:
        moved(worker, 3 * LINES_PER_FILE)
        worker.wait_for(source_name)
        worker.wait_for(sink_name)
        worker.program.stop()

    assert sink.read_text().splitlines() == lines
