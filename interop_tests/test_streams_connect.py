"""Kafka Streams and Connect, which live on transactions, groups, compacted topics and administration all at once."""

import itertools
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from interop_tests.support.clients.base import Message
from interop_tests.support.clients.confluent import Confluent, consumer
from interop_tests.support.program import Program, running_program
from interop_tests.support.topics import Topics, fresh_name
from interop_tests.support.wait import until
from interop_tests.support.worker import java_command

PARTITIONS = 2
LINES_PER_BATCH = 20
START_SECONDS = 40.0
WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog", "and", "runs", "away")


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
