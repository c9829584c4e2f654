"""kafka-consumer-groups and kafka-transactions against the broker."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import OFFSET_STORED, KafkaException, TopicPartition

from interop_tests.conftest import HostOf
from interop_tests.support.broker import AnyBroker, external, running
from interop_tests.support.clients.base import Message
from interop_tests.support.clients.confluent import Confluent, consumer
from interop_tests.support.codes import Code
from interop_tests.support.groups import FAST_GROUPS, Groups, fresh_group, pace_of
from interop_tests.support.members.host import Member
from interop_tests.support.members.kinds import KINDS, AnyHost, Kind
from interop_tests.support.topics import Topics, fresh_name
from interop_tests.support.transactions import CALL_SECONDS, transactional
from interop_tests.support.wait import until
from interop_tests.support.wire import Wire, batch, produce_request
from interop_tests.support.worker import Worker

CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
CONFIGS = "kafka.admin.ConfigCommand"

# The time of a partition's record 3; the records are two seconds apart.
RECORDS = 6
FIRST_MS = 1_700_000_000_000
TIME_OF_3 = "2023-11-14T22:13:26.000"
# The last version of a produce request that does not add its partition to the transaction itself.
PRODUCE_VERSION = 11
HUNG_PRODUCER = (987_654_321, 0)
VERIFICATION = "transaction.partition.verification.enable"

Row = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a tool printed."""

    out: str
    err: str

    def rows(self, first: str) -> list[Row]:
        """The table whose header begins with `first`; the rows of other people's nameless groups are left out."""
        lines = self.out.splitlines()
        start = next((index for index, line in enumerate(lines) if line.startswith(first)), None)
        assert start is not None, f"no table of {first}:\n{self.out}\n{self.err}"
        header, *rest = [_cells(line) for line in lines[start:] if line.strip()]
        return [dict(zip(header, cells, strict=True)) for cells in rest if len(cells) == len(header)]


def _cells(line: str) -> list[str]:
    """kafka-transactions separates with tabs, and a cell may be empty; kafka-consumer-groups with spaces."""
    return [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()


Tool = Callable[..., Ran]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyBroker]:
    given = external()
    if given is not None:
        yield given
        return
    with running(tmp_path_factory.mktemp("group-tools"), FAST_GROUPS) as started:
        yield started


@pytest.fixture
def run(java: Worker, bootstrap: str) -> Tool:
    def call(name: str, *arguments: str, fails: bool = False) -> Ran:
        request: dict[str, Any] = {"class": name, "args": ["--bootstrap-server", bootstrap, *arguments], "stdin": ""}
        answer = java.call("tool", bootstrap, **request)
        ran = Ran(out=answer["out"], err=answer["err"])
        assert (answer["status"] != 0) == fails, f"{arguments} ended with {answer['status']}\n{ran.out}\n{ran.err}"
        return ran

    return call


@pytest.fixture
def groups(run: Tool) -> Tool:
    """kafka-consumer-groups; it reports refusals in its output, not with its exit status."""
    return lambda *arguments: run(CONSUMER_GROUPS, *arguments)


@pytest.fixture
def transactions(run: Tool) -> Tool:
    return lambda *arguments, fails=False: run(TRANSACTIONS, *arguments, fails=fails)


@pytest.fixture
def topic(topics: Topics, bootstrap: str) -> str:
    """Two partitions of records that are two seconds apart."""
    name = topics.create(partitions=2, retention_ms=-1)
    messages = [
        Message(value=str(number).encode(), partition=index, timestamp=FIRST_MS + 2_000 * number)
        for index in (0, 1)
        for number in range(RECORDS)
    ]
    Confluent().produce(bootstrap, name, messages)
    return name


@pytest.fixture(params=["confluent-range", "confluent-consumer"])
def kind(request: pytest.FixtureRequest) -> Kind:
    """A classic group's members, and those of a group of the consumer protocol."""
    return KINDS[request.param]


@pytest.fixture
def host(host_of: HostOf, kind: Kind) -> AnyHost:
    return host_of(kind)


@pytest.fixture
def join(host: AnyHost, kind: Kind, broker: AnyBroker) -> Callable[[str, str], Member]:
    settings = kind.settings(pace_of(broker), auto_offset_reset="earliest")
    return lambda group, topic: host.join(broker.bootstrap, group, topic, config=settings)


# -- kafka-consumer-groups ---------------------------------------------------------------------------------------------


def test_a_live_group_is_listed_described_and_defended(
    groups: Tool, topic: str, kind: Kind, join: Callable[[str, str], Member], bootstrap: str
) -> None:
    group = fresh_group()
    members = [join(group, topic), join(group, topic)]
    for member in members:
        member.wait_assigned(1)
    ends = {(topic, 0): RECORDS, (topic, 1): RECORDS}
    until(lambda: Groups(bootstrap).committed(group) == ends, "all is read and committed", seconds=30)
    named = ("--group", group)

    # A group of the consumer protocol is stable only after its members' next heartbeats.
    until(lambda: state_of(groups, group) == "Stable", "the group is stable", seconds=30)
    plain = groups("--list").out.split()
    typed = groups("--list", "--type").rows("GROUP")
    of_type = [groups("--list", "--type", name).rows("GROUP") for name in ("classic", "consumer")]
    stated = [groups("--list", "--state", name).rows("GROUP") for name in ("Stable", "Empty")]
    both = groups("--list", "--state", "stable,empty", "--type", kind.protocol).rows("GROUP")
    offsets = groups("--describe", *named).rows("GROUP")
    described = groups("--describe", *named, "--members", "--verbose").rows("GROUP")
    [state] = groups("--describe", *named, "--state").rows("GROUP")
    deletion = groups("--delete", *named).out
    forgetting = groups("--delete-offsets", *named, "--topic", topic).out
    reset = groups("--reset-offsets", *named, "--topic", topic, "--to-earliest", "--execute").out

    protocol = kind.protocol.capitalize()
    assert group in plain
    assert {"GROUP": group, "TYPE": protocol} in typed
    assert [{"GROUP": group, "TYPE": protocol} in rows for rows in of_type] == [
        kind.protocol == "classic",
        kind.protocol == "consumer",
    ]
    assert [{"GROUP": group, "STATE": "Stable"} in rows for rows in stated] == [True, False]
    assert {"GROUP": group, "TYPE": protocol, "STATE": "Stable"} in both

    columns = ("TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "HOST", "CLIENT-ID")
    assert sorted(tuple(row[column] for column in columns) for row in offsets) == [
        (topic, index, str(RECORDS), str(RECORDS), "0", "/127.0.0.1", "rdkafka") for index in ("0", "1")
    ]
    owners = {row["CONSUMER-ID"]: f"{topic}:{row['PARTITION']}" for row in offsets}
    assert {row["CONSUMER-ID"]: row["CURRENT-ASSIGNMENT"] for row in described} == owners
    assert len(owners) == 2
    for row in described:
        assert (row["HOST"], row["CLIENT-ID"], row["#PARTITIONS"]) == ("/127.0.0.1", "rdkafka", "1")
        if kind.protocol == "classic":
            assert (row["CURRENT-EPOCH"], row["TARGET-EPOCH"], row["TARGET-ASSIGNMENT"]) == ("-", "-", "-")
        else:
            assert int(row["CURRENT-EPOCH"]) == int(row["TARGET-EPOCH"]) > 0
            assert row["TARGET-ASSIGNMENT"] == row["CURRENT-ASSIGNMENT"]
    strategy = "range" if kind.protocol == "classic" else "uniform"
    assert (state["COORDINATOR"], state["ASSIGNMENT-STRATEGY"]) == (bootstrap, strategy)
    assert (state["STATE"], state["#MEMBERS"]) == ("Stable", "2")

    assert f"Group '{group}' could not be deleted" in deletion
    assert "GroupNotEmptyException" in deletion
    assert forgetting.count("GroupSubscribedToTopicException") == 2
    assert f"'{group}' is inactive, but the current state is Stable" in reset
    assert Groups(bootstrap).committed(group) == ends


def test_a_group_that_its_members_left_is_reset_emptied_and_deleted(
    groups: Tool, topic: str, join: Callable[[str, str], Member], host: AnyHost, bootstrap: str
) -> None:
    group = fresh_group()
    named = ("--group", group)
    read = Groups(bootstrap)
    member = join(group, topic)
    member.wait(lambda: member.count() == 2 * RECORDS, "all records", 30)
    host.leave(member)
    until(lambda: state_of(groups, group) == "Empty", "the group is empty")

    reset = groups("--reset-offsets", *named, "--topic", f"{topic}:1", "--to-offset", "4", "--execute").rows("GROUP")
    again = join(group, topic)
    again.wait(lambda: again.count() == RECORDS - 4, "the records after the new offset", 30)
    host.leave(again)
    until(lambda: state_of(groups, group) == "Empty", "the group is empty again")
    forgotten = groups("--delete-offsets", *named, "--topic", f"{topic}:0").rows("TOPIC")
    left = groups("--describe", *named)
    kept = read.committed(group)
    deleted = groups("--delete", *named).out
    twice = groups("--delete", *named).out
    gone = groups("--describe", *named)

    assert reset == [{"GROUP": group, "TOPIC": topic, "PARTITION": "1", "NEW-OFFSET": "4"}]
    assert [(record.partition, record.offset) for record in again.records] == [(1, 4), (1, 5)]
    assert forgotten == [{"TOPIC": topic, "PARTITION": "0", "STATUS": "Successful"}]
    assert "has no active members" in left.err
    assert [(row["PARTITION"], row["CURRENT-OFFSET"], row["CONSUMER-ID"]) for row in left.rows("GROUP")] == [
        ("1", str(RECORDS), "-")
    ]
    assert kept == {(topic, 1): RECORDS}
    assert f"('{group}') was successful" in deleted
    assert "GroupIdNotFoundException" in twice
    assert "GroupIdNotFoundException" in gone.out
    assert group not in groups("--list").out.split()
    assert read.committed(group) == {}


@pytest.mark.parametrize(
    ("wanted", "new"),
    [
        ("--to-earliest", 0),
        ("--to-offset 4", 4),
        (f"--to-datetime {TIME_OF_3}", 3),
        ("--shift-by -3", 2),
        ("--shift-by -99", 0),
    ],
)
def test_offsets_are_reset(groups: Tool, topic: str, bootstrap: str, wanted: str, new: int) -> None:
    group = fresh_group()
    places = [TopicPartition(topic, index, 5) for index in (0, 1)]
    with closing(consumer(bootstrap, **{"group.id": group})) as committer:
        until(lambda: committed(lambda: committer.commit(offsets=places, asynchronous=False)), "it commits", seconds=30)
    what = ("--reset-offsets", "--group", group, "--topic", topic, *wanted.split())
    place = {"GROUP": group, "TOPIC": topic, "NEW-OFFSET": str(new)}
    reset = [{**place, "PARTITION": "0"}, {**place, "PARTITION": "1"}]

    planned = groups(*what, "--dry-run").rows("GROUP")
    before = first_of(bootstrap, group, topic)
    executed = groups(*what, "--execute").rows("GROUP")

    assert sorted(planned, key=lambda row: row["PARTITION"]) == reset
    assert before == {0: 5, 1: 5}
    assert sorted(executed, key=lambda row: row["PARTITION"]) == reset
    assert first_of(bootstrap, group, topic) == {0: new, 1: new}


def committed(commit: Callable[[], object]) -> bool:
    """False where the coordinator is not ready yet."""
    try:
        commit()
    except KafkaException as error:
        if not error.args[0].retriable():
            raise
        return False
    return True


def state_of(groups: Tool, group: str) -> str:
    [row] = groups("--describe", "--group", group, "--state").rows("GROUP")
    return row["STATE"]


def first_of(bootstrap: str, group: str, topic: str) -> dict[int, int]:
    """The offset of the first record that a consumer gets of each partition where it goes by the group's offsets."""
    found: dict[int, int] = {}
    with closing(consumer(bootstrap, **{"group.id": group})) as reader:
        reader.assign([TopicPartition(topic, index, OFFSET_STORED) for index in (0, 1)])
        deadline = time.monotonic() + CALL_SECONDS
        while len(found) < 2 and time.monotonic() < deadline:
            message = reader.poll(0.2)
            if message is not None:
                assert message.error() is None, message.error()
                index, offset = message.partition(), message.offset()
                assert index is not None
                assert offset is not None
                found.setdefault(index, offset)
    return found


# -- kafka-transactions ------------------------------------------------------------------------------------------------


def test_an_ongoing_transaction_is_listed_and_described(transactions: Tool, topic: str, bootstrap: str) -> None:
    name = fresh_name("x")
    place = ("--topic", topic, "--partition", "1")
    producer = transactional(bootstrap, name, transaction_timeout_ms=45_000)
    producer.begin_transaction()
    began = int(time.time() * 1000)
    producer.produce(topic, b"open", partition=1)
    assert producer.flush(CALL_SECONDS) == 0

    [listed] = [row for row in transactions("list").rows("TransactionalId") if row["TransactionalId"] == name]
    matching = transactions("list", "--transactional-id-pattern", f"{name[:-1]}.").rows("TransactionalId")
    old = transactions("list", "--duration-filter", "3600000").rows("TransactionalId")
    [described] = transactions("describe", "--transactional-id", name).rows("CoordinatorId")
    [writer] = transactions("describe-producers", *place).rows("ProducerId")
    hanging = [
        transactions("find-hanging", *where).rows("Topic")
        for where in (("--topic", topic), ("--topic", topic, "--max-transaction-timeout", "0"))
    ]
    on_broker = transactions("find-hanging", "--broker-id", listed["Coordinator"]).rows("Topic")
    unknown = transactions("describe", "--transactional-id", f"{name}-nobody", fails=True)
    nothing = transactions("abort", *place, "--start-offset", "0", fails=True)
    producer.commit_transaction(CALL_SECONDS)
    until(lambda: is_complete(transactions, name), "the markers are written")
    [afterwards] = transactions("describe", "--transactional-id", name).rows("CoordinatorId")
    [idle] = transactions("describe-producers", *place).rows("ProducerId")

    assert listed["TransactionState"] == "Ongoing"
    assert listed in matching
    assert name not in [row["TransactionalId"] for row in old]
    assert described["CoordinatorId"] == listed["Coordinator"]
    assert (described["TransactionalId"], described["TransactionState"]) == (name, "Ongoing")
    assert described["ProducerId"] == listed["ProducerId"] == writer["ProducerId"]
    assert described["ProducerEpoch"] == writer["ProducerEpoch"]
    assert (described["TransactionTimeoutMs"], described["TopicPartitions"]) == ("45000", f"{topic}-1")
    assert began - 1_000 <= int(described["CurrentTransactionStartTimeMs"]) <= int(time.time() * 1000)
    assert 0 <= int(described["TransactionDurationMs"]) <= 60_000
    assert (writer["LastSequence"], writer["CurrentTransactionStartOffset"]) == ("0", str(RECORDS))
    assert hanging == [[], []]
    assert topic not in [row["Topic"] for row in on_broker]
    assert "could not be found" in unknown.err
    assert f"Could not find any open transactions starting at offset 0 on partition {topic}-1" in nothing.err
    assert (afterwards["TransactionState"], afterwards["TopicPartitions"]) == ("CompleteCommit", "")
    assert idle["CurrentTransactionStartOffset"] == "None"
    assert int(idle["LatestCoordinatorEpoch"]) >= 0


def is_complete(transactions: Tool, name: str) -> bool:
    [row] = transactions("describe", "--transactional-id", name).rows("CoordinatorId")
    return row["TransactionState"].startswith("Complete")


def test_an_ongoing_transaction_is_terminated_by_force(transactions: Tool, topic: str, bootstrap: str) -> None:
    name = fresh_name("x")
    producer = transactional(bootstrap, name)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(CALL_SECONDS) == 0

    transactions("forceTerminateTransaction", "--transactionalId", name)

    [described] = transactions("describe", "--transactional-id", name).rows("CoordinatorId")
    [writer] = transactions("describe-producers", "--topic", topic, "--partition", "0").rows("ProducerId")
    # The tool comes as the transactional id's next producer, who is let in when the markers are written.
    assert (described["TransactionState"], described["TopicPartitions"]) == ("Empty", "")
    assert writer["CurrentTransactionStartOffset"] == "None"
    with pytest.raises(KafkaException) as refused:
        producer.commit_transaction(CALL_SECONDS)
    assert refused.value.args[0].fatal()


@pytest.fixture
def unverified(run: Tool) -> Iterator[None]:
    """Transactional writes are taken without asking the coordinator, as old brokers did: so transactions came to hang."""
    defaults = ("--entity-type", "brokers", "--entity-default", "--alter")
    run(CONFIGS, *defaults, "--add-config", f"{VERIFICATION}=false")
    yield
    run(CONFIGS, *defaults, "--delete-config", VERIFICATION)


def hang(bootstrap: str, topic: str) -> int:
    """Write in a transaction that no coordinator knows of; the error."""
    stamp = int(time.time() * 1000) - 2_000
    records = batch([b"hung"], timestamp=stamp, producer=HUNG_PRODUCER, sequence=0, transactional=True)
    request = produce_request(topic, records, transactional_id=fresh_name("nobody"))
    with Wire(bootstrap) as wire:
        return int(wire.ask(request, PRODUCE_VERSION).responses[0].partition_responses[0].error_code)


def stable_offset(bootstrap: str, topic: str) -> int:
    with Wire(bootstrap) as wire:
        return int(wire.fetch(topic, 0, isolation=1).last_stable_offset)


def test_a_write_without_a_transaction_is_refused(topics: Topics, bootstrap: str) -> None:
    topic = topics.create()

    assert hang(bootstrap, topic) == Code.INVALID_PRODUCER_ID_MAPPING
    assert Confluent().watermarks(bootstrap, topic, 0) == (0, 0)


@pytest.mark.usefixtures("unverified")
def test_a_hanging_transaction_is_found_and_aborted(transactions: Tool, topics: Topics, bootstrap: str) -> None:
    topic = topics.create()
    place = ("--topic", topic, "--partition", "0")
    # Kafka's parts learn of a setting one after the other.
    until(lambda: hang(bootstrap, topic) == 0, "the setting is in force")
    Confluent().produce(bootstrap, topic, [Message(value=b"after")])
    with closing(consumer(bootstrap, **{"isolation.level": "read_committed"})) as reader:
        reader.assign([TopicPartition(topic, 0, 0)])
        held_back = reader.poll(0.5)

        stable = stable_offset(bootstrap, topic)
        young = transactions("find-hanging", "--topic", topic).rows("Topic")
        [found] = transactions("find-hanging", "--topic", topic, "--max-transaction-timeout", "0").rows("Topic")
        transactions("abort", *place, "--start-offset", found["StartOffset"])
        message = reader.poll(CALL_SECONDS)

    [writer] = transactions("describe-producers", *place).rows("ProducerId")
    assert (held_back, stable) == (None, 0)
    assert young == []
    assert (found["Partition"], found["ProducerId"], found["ProducerEpoch"]) == ("0", str(HUNG_PRODUCER[0]), "0")
    assert (found["StartOffset"], found["CoordinatorEpoch"]) == ("0", "-1")
    assert message is not None
    assert (message.offset(), message.value()) == (1, b"after")
    assert (writer["LatestCoordinatorEpoch"], writer["CurrentTransactionStartOffset"]) == ("0", "None")
    assert stable_offset(bootstrap, topic) == 3
    again = transactions("find-hanging", "--topic", topic, "--max-transaction-timeout", "0").out
    assert not re.search(rf"^{topic}", again, re.MULTILINE)
