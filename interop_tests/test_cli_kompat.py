"""The `kompat` command where it needs kompat: delays, queues, dead letters, traces; data directories; users; a cluster."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop_tests.conftest import StartBroker
from interop_tests.support.broker import Broker, external, running
from interop_tests.support.cluster import cluster_of
from interop_tests.support.command import Command
from interop_tests.support.secured import ADMIN, Secured
from interop_tests.support.topics import Topics, fresh_name
from interop_tests.support.wait import until
from tests.security.certificates import Authority

pytestmark = [
    pytest.mark.skipif(external() is not None, reason="it is about what only kompat has"),
    pytest.mark.timeout(300),  # every step is a process, and the machine may be busy
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running(tmp_path_factory.mktemp("broker"), http=True) as started:
        yield started


@pytest.fixture(scope="module")
def kompat(broker: Broker) -> Command:
    return Command(broker.bootstrap, broker.http_url)


# -- by the HTTP port --------------------------------------------------------------------------------------------------
def test_what_waits_is_listed_put_off_and_cancelled(kompat: Command, topics: Topics) -> None:
    topic = topics.create("later")
    place = kompat("produce", topic, "--delay", "1h", "--value", "wake up", "--key", "k", "--show").strip()

    [waiting] = kompat.json("delayed", "list", topic)
    assert (f"{topic}/0/{waiting['offset']}", waiting["value"], waiting["state"]) == (place, "wake up", "waiting")
    assert kompat.json("delayed", "stats", topic)["waiting"] == 1
    put_off = kompat.json("delayed", "reschedule", place, "--delay", "2h")
    assert put_off["dueTimestamp"] - waiting["dueTimestamp"] > 3_000_000
    assert "wake up" in kompat("delayed", "show", place)
    kompat("delayed", "cancel", place)
    assert "RESOURCE_NOT_FOUND" in kompat.fails("delayed", "show", place)
    assert kompat.json("delayed", "list", topic) == []


def test_a_queue_from_hand_to_hand_and_what_it_gives_up(kompat: Command, topics: Topics) -> None:
    topic, group = topics.create("jobs"), fresh_name("workers")
    where = (topic, "--group", group)
    kompat("produce", topic, "--priority", "low", "--trace", stdin=b"a\nb\nc\n")
    kompat("produce", topic, "--priority", "critical", "--value", "urgent")

    taken = kompat("queue", "acquire", *where, "--max", "1", "--json")
    assert json.loads(taken)["deliveries"][0]["value"] == "urgent"
    assert "ok" in kompat("queue", "extend", *where, "-", "--lock", "5m", stdin=taken.encode())
    assert "ok" in kompat("queue", "ack", *where, "-", stdin=taken.encode())
    taken = kompat("queue", "acquire", *where, "--max", "2", "--json")
    [first, second] = [each["receipt"] for each in json.loads(taken)["deliveries"]]
    assert kompat.json("queue", "stats", *where)[0]["inFlight"] == 2
    [listed] = kompat.json("groups", "list", "--search", group)  # it is a group like others, though nobody is a member
    assert listed["group"] == group
    assert kompat.json("groups", "describe", group)["group"] == group
    kompat("queue", "nack", *where, first)
    kompat("queue", "reject", *where, second, "--reason", "out of stock")
    assert "not a receipt" in kompat.run("queue", "ack", *where, "nonsense").stderr.decode()

    letters = f"dlq.{topic}"
    until(
        lambda: any(e["topic"] == letters and e["records"] for e in kompat.json("dlq", "topics")), "there is a letter"
    )
    [letter] = kompat.json("dlq", "browse", letters, "--group", group)
    assert (letter["value"], letter["origin"]["topic"], letter["isRedriven"]) == ("b", topic, False)
    assert letter["origin"]["cause"].endswith(": out of stock")
    assert kompat.json("dlq", "browse", letters, "--cause", "no such cause") == []
    story = kompat("trace", f"{topic}/0/{letter['origin']['offset']}")
    assert [word for word in story.split() if word.isupper()][-1] == "DEAD_LETTERED"
    assert kompat.json("dlq", "redrive", letters, "--record", f"0/{letter['offset']}")["redriven"] == 1
    assert kompat.json("dlq", "purge", letters, "--only-redriven") == {"purged": 1}
    assert "select dead-letter records" in kompat.fails("dlq", "redrive", letters, status=2)

    rest = kompat("consume", topic, "--share", "--group", group, "--format", "value").split()
    assert sorted(rest) == ["a", "b", "c"]
    assert kompat("consume", topic, "--share", "--group", group) == ""


def test_the_story_of_a_record(kompat: Command, topics: Topics) -> None:
    topic, message = topics.create("told"), fresh_name("message")
    place = kompat("produce", topic, "--trace", "--message-id", message, "--value", "x", "--show").strip()
    kompat("consume", topic, "--from-beginning")

    def kinds(*what: str) -> list[str]:
        told = kompat.json("trace", *what)
        return [each["kind"] for each in (told["traces"][0] if "traces" in told else told)["events"]]

    until(lambda: kinds(place) == ["PRODUCED", "REPLICATED", "DELIVERED"], "the story is whole")
    assert kinds(message) == kinds(place)
    drawn = kompat("trace", place).splitlines()
    assert drawn[0].startswith(f"{place}  trace ")
    assert len(drawn) == 5
    assert {each["kind"] for each in kompat.json("trace", "--topic", topic, "--event", "PRODUCED")} == {"PRODUCED"}
    assert "There is no trace" in kompat.fails("trace", "no-such-message")
    assert "TOPIC/PARTITION/OFFSET" in kompat.fails("trace", "a/b", status=2)


def test_the_doctor_looks_through_the_door_too(kompat: Command) -> None:
    found = {each["about"]: each["level"] for each in kompat.json("doctor")["findings"]}

    assert found["HTTP port"] == "ok"
    assert found["clocks"] == "ok"


# -- data directories --------------------------------------------------------------------------------------------------
def contents(directory: str) -> dict[str, str]:
    files = [path for path in Path(directory).rglob("*") if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_what_a_killed_broker_left_is_read_and_checked(start_broker: StartBroker, tmp_path: Path) -> None:
    broker = start_broker()
    kompat = Command(broker.bootstrap)
    kompat("topics", "create", "orders", "--partitions", "2")
    kompat("produce", "orders", "--partition", "1", "--key", "k", "--header", "h=v", stdin=b"a\nb\n")
    kompat("produce", "orders", "--partition", "1", "--value", "L" * 100_000)
    kompat("consume", "orders", "--group", "readers", "--from-beginning", "--max", "3")
    assert "a broker uses" in kompat.fails("dump-log", broker.data)
    broker.kill()
    before = contents(broker.data)

    listed = {(each["topic"], each["partition"]): each for each in kompat.json("dump-log", broker.data)}
    assert (listed["orders", 1]["startOffset"], listed["orders", 1]["endOffset"]) == (0, 3)
    batches = kompat.lines("dump-log", broker.data, "orders/1")
    records = [record for batch in batches for record in batch["records"]]
    assert [(each["offset"], each["key"], each["value"][:5]) for each in records] == [
        (0, "k", "a"),
        (1, "k", "b"),
        (2, None, "LLLLL"),
    ]
    assert batches[-1]["where"].endswith("@0")  # in the value log
    assert "h=v" in kompat("dump-log", broker.data, "orders/1", "--max", "1")
    [offsets] = [place for place, each in listed.items() if place[0] == "__consumer_offsets" and each["batches"]]
    told = kompat("dump-log", broker.data, f"{offsets[0]}/{offsets[1]}")
    assert '"kind": "OffsetCommit"' in told
    assert '"kind": "TopicCreated"' in kompat("dump-log", broker.data, "__cluster_metadata/0")
    assert "has no data of" in kompat.fails("dump-log", broker.data, "orders/7")

    assert kompat.json("doctor", broker.data)["healthy"] is True
    assert contents(broker.data) == before
    _damage(kompat, broker.data, tmp_path / "copy")
    broker.start()
    broker.stop()  # what was in the write-ahead log is in tables now
    _damage_tables(kompat, broker.data, tmp_path / "tables")


def flip(path: Path, place: int) -> None:
    changed = bytearray(path.read_bytes())
    changed[place] ^= 0xFF
    path.write_bytes(changed)


def _damage_tables(kompat: Command, data: str, copy: Path) -> None:
    """A byte of each, one after the other: records are in one of them only."""
    shutil.copytree(data, copy)
    tables = list((copy / "db").glob("*.sst"))
    assert tables
    for table in tables:
        flip(table, 10)
        done = kompat.run("doctor", str(copy))
        assert done.returncode == 1, table
        assert table.name in done.stdout.decode()
        flip(table, 10)
    assert kompat.json("doctor", str(copy))["healthy"] is True


def _damage(kompat: Command, data: str, copy: Path) -> None:
    """A byte of a copy, then its write-ahead log."""
    shutil.copytree(data, copy)
    [value] = [path for path in (copy / "values").rglob("*") if path.is_file()]
    flip(value, -1)

    done = kompat.run("doctor", str(copy), "--json")
    [wrong] = [each for each in json.loads(done.stdout)["findings"] if each["level"] == "wrong"]
    assert done.returncode == 1
    assert wrong["found"].startswith("orders/1 at offset 2: ")
    assert "copied" in wrong["advice"]
    assert kompat.run("dump-log", str(copy), "orders/1").returncode == 1

    [log] = [path for path in (copy / "db").glob("*.log") if path.stat().st_size]
    flip(log, 100)
    done = kompat.run("doctor", str(copy))
    assert done.returncode == 1
    assert "is damaged" in done.stdout.decode()  # the broker would not start either
    log.unlink()
    done = kompat.run("doctor", str(copy))
    assert done.returncode == 1
    assert "write-ahead log is missing" in done.stdout.decode()
    assert "not the data directory" in kompat.fails("dump-log", str(copy.parent))


# -- users and clusters ------------------------------------------------------------------------------------------------
def test_who_asks_says_who_it_is(tmp_path: Path) -> None:
    secured = Secured(tmp_path / "secured")
    secret, wrong = tmp_path / "secret", tmp_path / "wrong"
    secret.write_text(f"{ADMIN[1]}\n")
    wrong.write_text("guess\n")
    who = ("--user", ADMIN[0], "--password-file", str(secret))
    with running(tmp_path / "broker", secured.settings(), http=True) as broker:
        plain = Command(f"127.0.0.1:{secured.ports['SASL_PLAINTEXT']}", broker.http_url)
        plain("topics", "create", "secret", *who)
        assert plain.json("topics", "list", *who, "--sasl-mechanism", "PLAIN")[0]["name"] == "secret"
        forged = ("--user", ADMIN[0], "--password-file", str(wrong))
        check_refusals(secured, forged, who, Authority(tmp_path / "foreign").files("broker").authority)
        assert "check the password" in plain.fails("queue", "stats", *forged)
        assert plain.json("queue", "stats", *who) == []
        assert "--password-file" in plain.fails("queue", "stats")

        tls = Command(f"127.0.0.1:{secured.ports['SASL_SSL']}")
        trusted = ("--tls-ca", str(secured.client_files.authority))
        tls("produce", "secret", "--value", "x", *who, *trusted)
        assert tls("consume", "secret", "--from-beginning", "--format", "value", *who, *trusted) == "x\n"
        rule = ("--allow", "User:bob", "--operation", "read", "--topic", "sec", "--prefix")
        assert plain.json("acls", "add", *rule, *who) == {"added": 1}
        [listed] = plain.json("acls", "list", "--topic", "sec", "--prefix", *who)
        assert (listed["principal"], listed["operation"], listed["pattern"]) == ("User:bob", "read", "prefix")
        plain("acls", "remove", "--allow", "User:bob", *who)
        assert "no ACL matches" in plain.fails("acls", "remove", "--allow", "User:bob", *who)


def check_refusals(secured: Secured, forged: tuple[str, ...], who: tuple[str, ...], foreign: str) -> None:
    """A wrong password, a wrong certificate and a missing login are told apart, and at once, whatever patience is asked for."""
    ours = ("--tls-ca", str(secured.client_files.authority))
    for listener, flags, told in (
        ("SASL_PLAINTEXT", forged, "check the password of admin"),
        ("SASL_PLAINTEXT", (*forged, "--sasl-mechanism", "PLAIN"), "check the password of admin"),
        ("SASL_PLAINTEXT", (), "requires SASL authentication: --user and --password-file are missing"),
        ("SASL_PLAINTEXT", (*who, *ours), "does not use TLS"),
        ("SASL_SSL", (*who, "--tls-ca", foreign), "is not trusted"),
        ("SASL_SSL", (*who, "--tls"), "is not trusted"),
        ("SASL_SSL", (*forged, *ours), "check the password of admin"),
        ("SASL_SSL", ours, "requires SASL authentication"),
        ("SASL_SSL", who, "TLS"),
        ("SSL", ours, "requires a client certificate: --tls-cert and --tls-key are missing"),
    ):
        kompat = Command(f"127.0.0.1:{secured.ports[listener]}")
        said = kompat.fails("topics", "list", *flags, "--property", "bootstrap.timeout.ms=600000")
        assert told in said, (listener, flags, said)


def test_a_cluster_is_drained_moved_and_found_ill(tmp_path: Path) -> None:
    with cluster_of(tmp_path / "cluster", 3, http=True) as cluster:
        kompat = Command(cluster.bootstrap, cluster.brokers[1].http_url)
        kompat("topics", "create", "orders", "--partitions", "3", "--replication-factor", "2")
        kompat("cluster", "drain", "3", "--wait")
        brokers = {each["id"]: each for each in kompat.json("cluster", "brokers")}
        assert [brokers[number]["replicas"] for number in (1, 2, 3)] == [3, 3, 0]
        kompat("cluster", "drain", "3", "--undo")
        moved = kompat.json("cluster", "reassign", "orders", "--to", "3,1,2", "--replicas", "3", "--wait")
        assert [each["replicas"] for each in moved] == [[3, 1, 2], [1, 2, 3], [2, 3, 1]]
        assert {len(each["replicas"]) for each in kompat.json("topics", "describe", "orders")["partitions"]} == {3}
        said = kompat.fails("cluster", "drain", "3", "--wait")  # every other broker has a replica already
        assert "broker 3 cannot be drained" in said
        assert "kompat cluster reassign orders --to 1,2 --replicas 2" in said
        assert kompat.json("cluster", "status")["draining"] == [{"broker": 3, "replicas": 3, "unmovable": 3}]
        kompat("cluster", "drain", "3", "--undo")
        assert kompat.json("cluster", "status")["draining"] == []
        kompat("cluster", "elect", "orders")
        assert len(kompat.json("cluster", "raft", "--topic", "orders")) == 3
        assert [each["role"] for each in kompat.json("cluster", "raft")["replicas"]].count("leader") == 1
        assert "has 3 replicas" in kompat.fails("cluster", "unregister", "3")

        cluster.brokers[3].kill()
        until(lambda: kompat.json("cluster", "status")["underReplicated"], "the loss is noticed", seconds=60)
        assert kompat.run("cluster", "status", "--check").returncode == 1
        findings = {each["about"]: each for each in json.loads(kompat.run("doctor", "--json").stdout)["findings"]}
        assert findings["replicas"]["level"] == "warning"
