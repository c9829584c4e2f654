"""Stock clients come in by TLS and SASL, as somebody, and not with a wrong password or none."""

import itertools
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition
from kafka.net.sasl.oauth import AbstractTokenProvider

from interop_tests.support.broker import Broker, running
from interop_tests.support.clients.kcat import run as kcat
from interop_tests.support.cluster import cluster_of
from interop_tests.support.secured import ADMIN, Secured, Way
from interop_tests.support.topics import fresh_name
from interop_tests.support.wait import until
from interop_tests.support.worker import Worker
from tests.security.key_endpoint import endpoint
from tests.security.tokens import Issuer

CONFIGS = "kafka.admin.ConfigCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
VERIFIABLE = "org.apache.kafka.tools.VerifiableProducer"
WAYS = [
    ("SASL_PLAINTEXT", "PLAIN"),
    ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
    ("SASL_SSL", "SCRAM-SHA-512"),
    ("SSL", ""),  # who has a certificate needs no password
]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Secured:
    return Secured(tmp_path_factory.mktemp("secured"))


@pytest.fixture(scope="module")
def broker(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running(tmp_path_factory.mktemp("broker"), secured.settings()) as started:
        yield started


RoundTrip = Callable[[Way, str, str], str]  # topic, value: what was read back


@pytest.fixture
def java_tool(java: Worker, tmp_path: Path) -> Callable[..., tuple[int, str]]:
    numbers = itertools.count()

    def run(way: Way, name: str, *arguments: str, stdin: str = "", seconds: float = 60.0) -> tuple[int, str]:
        """Its exit status, and what it printed."""
        config = way.java(tmp_path / f"client-{next(numbers)}.properties")
        args = ("--bootstrap-server", way.bootstrap, "--command-config", config, *arguments)
        ran = java.call("tool", way.bootstrap, **{"class": name}, args=args, stdin=stdin, seconds=seconds)
        return ran["status"], ran["out"] + ran["err"]

    return run


@pytest.fixture(params=["confluent", "kafka-python", "java", "kcat"])
def round_trip(request: pytest.FixtureRequest) -> RoundTrip:
    """A record goes to the broker and back."""
    if request.param != "java":
        return {"confluent": _confluent, "kafka-python": _kafka_python, "kcat": _kcat}[request.param]
    tool = request.getfixturevalue("java_tool")

    def through_java(way: Way, topic: str, value: str) -> str:
        status, said = tool(way, PRODUCER, "--topic", topic, stdin=f"{value}\n")
        assert status == 0, said
        wanted = ("--topic", topic, "--partition", "0", "--offset", "0", "--max-messages", "1", "--timeout-ms", "20000")
        status, said = tool(way, CONSUMER, *wanted)
        assert status == 0, said
        return str(said.splitlines()[0])

    return through_java


def _confluent(way: Way, topic: str, value: str) -> str:
    producer = Producer(way.librdkafka())
    producer.produce(topic, value)
    assert producer.flush(20) == 0
    consumer = Consumer(way.librdkafka() | {"group.id": topic})
    consumer.assign([TopicPartition(topic, 0, 0)])
    [message] = consumer.consume(1, 20)
    consumer.close()
    assert message.error() is None
    return bytes(message.value() or b"").decode()


def _kafka_python(way: Way, topic: str, value: str) -> str:
    producer = KafkaProducer(**way.kafka_python())
    producer.send(topic, value.encode()).get(20)
    producer.close()
    consumer = KafkaConsumer(**way.kafka_python(), auto_offset_reset="earliest", consumer_timeout_ms=20_000)
    consumer.assign([PythonPartition(topic, 0)])
    found = next(consumer)
    consumer.close()
    return bytes(found.value).decode()


def _kcat(way: Way, topic: str, value: str) -> str:
    options = [part for name, setting in way.librdkafka().items() for part in ("-X", f"{name}={setting}")]
    sent = kcat("-P", *options, "-t", topic, stdin=value.encode())
    assert sent.returncode == 0, sent.stderr
    return kcat("-C", *options, "-t", topic, "-o", "beginning", "-c", "1").stdout.decode().strip()


# -- coming in ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_every_client_comes_in_and_is_told_where_it_came_in(
    broker: Broker, secured: Secured, round_trip: RoundTrip, protocol: str, mechanism: str
) -> None:
    """The other listeners are of no use to it, and those who are not known may do nothing: it works, so it is known."""
    assert round_trip(secured.way(protocol, mechanism), fresh_name("secured"), "for you") == "for you"


@pytest.mark.parametrize(
    ("mechanism", "words"),
    [
        ("PLAIN", "Authentication failed: Invalid username or password"),
        (
            "SCRAM-SHA-256",
            "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256",
        ),
    ],
)
@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_a_wrong_password_is_told_in_kafkas_words(
    broker: Broker,
    secured: Secured,
    java_tool: Callable[..., tuple[int, str]],
    mechanism: str,
    words: str,
    user: str,
) -> None:
    way = secured.way("SASL_SSL", mechanism, user, "wrong")
    heard: list[str] = []
    admin = AdminClient(way.librdkafka() | {"error_cb": lambda error: heard.append(error.str())})

    with pytest.raises(KafkaException):
        admin.list_topics(timeout=2)
    until(lambda: admin.poll(0.1) or any(words in each for each in heard), "the client has heard why")
    status, said = java_tool(way, CONFIGS, "--describe", "--entity-type", "topics")

    assert status != 0
    assert words in said


def test_without_a_certificate_there_is_no_way_in_where_one_is_required(broker: Broker, secured: Secured) -> None:
    settings = secured.way("SSL").librdkafka()
    del settings["ssl.certificate.location"], settings["ssl.key.location"]

    with pytest.raises(KafkaException):
        AdminClient(settings).list_topics(timeout=2)


def test_in_the_clear_nobody_gets_an_answer_from_a_tls_listener(broker: Broker, secured: Secured) -> None:
    way = secured.way("SASL_SSL")
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": way.bootstrap, "log_level": 0}).list_topics(timeout=2)


# -- users --------------------------------------------------------------------------------------------------------------
def test_kafka_configs_makes_describes_and_removes_users(
    broker: Broker, secured: Secured, java_tool: Callable[..., tuple[int, str]]
) -> None:
    admin = secured.way("SASL_SSL", "SCRAM-SHA-512", *ADMIN)
    user = ("--entity-type", "users", "--entity-name", "bob")

    for password in ("SCRAM-SHA-256=[iterations=8192,password=bob-1]", "SCRAM-SHA-512=[password=bob-1]"):
        status, said = java_tool(admin, CONFIGS, "--alter", *user, "--add-config", password)
        assert status == 0, said
    _, described = java_tool(admin, CONFIGS, "--describe", *user)
    assert "SCRAM-SHA-256=iterations=8192" in described
    assert "SCRAM-SHA-512=iterations=4096" in described

    bob = secured.way("SASL_PLAINTEXT", "SCRAM-SHA-512", "bob", "bob-1")
    connected = AdminClient(bob.librdkafka())
    assert connected.list_topics(timeout=10).brokers
    java_tool(admin, CONFIGS, "--alter", *user, "--add-config", "SCRAM-SHA-512=[password=bob-2]")
    assert not _is_let_in(bob)
    assert _is_let_in(secured.way("SASL_PLAINTEXT", "SCRAM-SHA-512", "bob", "bob-2"))

    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        status, said = java_tool(admin, CONFIGS, "--alter", *user, "--delete-config", mechanism)
        assert status == 0, said
    assert not _is_let_in(secured.way("SASL_PLAINTEXT", "SCRAM-SHA-512", "bob", "bob-2"))
    assert not _is_let_in(secured.way("SASL_PLAINTEXT", "PLAIN", "bob", "bob-1"))
    assert connected.list_topics(timeout=10).brokers, "who was in already stays until it has to log in again"


def _is_let_in(way: Way) -> bool:
    try:
        return bool(AdminClient(way.librdkafka()).list_topics(timeout=3).brokers)
    except KafkaException:
        return False


def test_a_login_is_renewed_while_a_producer_works(tmp_path: Path, java_tool: Callable[..., tuple[int, str]]) -> None:
    """Twenty times a second for three seconds, while logins count for less than one and a half."""
    own = Secured(tmp_path / "secured")
    with running(tmp_path / "broker", own.settings() | {"connections.max.reauth.ms": "1300"}):
        way = own.way("SASL_PLAINTEXT", "SCRAM-SHA-256")
        topic = fresh_name("renewed")
        wanted = ("--topic", topic, "--max-messages", "60", "--throughput", "20")

        status, said = java_tool(way, VERIFIABLE, *wanted)

        assert status == 0, said
        assert "producer_send_error" not in said
        reader = Consumer(way.librdkafka() | {"group.id": topic})
        assert reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=20) == (0, 60)
        reader.close()


def test_clients_come_in_by_tokens(broker: Broker, secured: Secured) -> None:
    """Also with a key that the issuer has published only now, and not with one of somebody else."""
    way = secured.way("SASL_PLAINTEXT")
    named = {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": lambda _: (token, time.time() + 60)}
    token = secured.issuer.token(sub="alice", aud="kompat", exp=int(time.time()) + 60)
    admin = AdminClient(way.librdkafka() | named)
    admin.poll(0)
    assert admin.list_topics(timeout=10).brokers

    newer = Issuer(secured.home / "newer", "newer")
    token = newer.token(sub="alice", aud="kompat", exp=int(time.time()) + 60)
    refused = AdminClient(way.librdkafka() | named)
    refused.poll(0)
    with pytest.raises(KafkaException):
        refused.list_topics(timeout=2)
    secured.issuer.publish(secured.issuer, newer)
    assert _has_come(way, token)


@pytest.mark.parametrize("kind", ["ES256", "Ed25519"])
def test_keys_of_tokens_come_by_https(kind: str, tmp_path: Path) -> None:
    """Also one that the issuer has only now: a token that names it has the keys fetched."""
    own = Secured(tmp_path / "secured")
    first, newer = (Issuer(tmp_path / name, name, kind) for name in ("first", "newer"))
    with endpoint(own.authority) as served:
        served.issuers = [first]
        settings = own.settings() | {"sasl.oauthbearer.jwks.endpoint.url": served.url}
        with running(tmp_path / "broker", settings):
            way = own.way("SASL_PLAINTEXT")
            ends = int(time.time()) + 60
            assert _has_come(way, first.token(sub="alice", aud="kompat", exp=ends))

            served.issuers = [newer]
            assert _has_come(way, newer.token(sub="alice", aud="kompat", exp=ends))
            named = {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": lambda _: (token, time.time() + 60)}
            token = newer.token(sub="alice", aud="kompat", exp=ends)
            admin = AdminClient(way.librdkafka() | named)
            admin.poll(0)
            assert admin.list_topics(timeout=10).brokers
            token = first.token(sub="alice", aud="kompat", exp=ends)
            refused = AdminClient(way.librdkafka() | named)
            refused.poll(0)
            with pytest.raises(KafkaException):
                refused.list_topics(timeout=2)
            assert len(served.requests) == 3  # at the start for each of two listeners, and for the newer key


def _has_come(way: Way, token: str) -> bool:
    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return token

    topic = fresh_name("token")
    producer = KafkaProducer(**way.kafka_python(), sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=Provider())
    sent = producer.send(topic, b"by token").get(20)
    producer.close()
    return bool(sent.topic == topic)


def test_users_outlive_the_broker(broker: Broker, secured: Secured) -> None:
    _make_user(secured.way("SASL_PLAINTEXT", "SCRAM-SHA-256", *ADMIN), "dave", "dave-secret")

    broker.kill()
    broker.start()

    assert _is_let_in(secured.way("SASL_PLAINTEXT", "SCRAM-SHA-256", "dave", "dave-secret"))
    assert not _is_let_in(secured.way("SASL_PLAINTEXT", "SCRAM-SHA-256", "dave", "x"))


def _make_user(way: Way, name: str, password: str) -> None:
    wanted = UserScramCredentialUpsertion(
        name, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), password.encode()
    )
    admin = AdminClient(way.librdkafka())
    for outcome in admin.alter_user_scram_credentials([wanted]).values():
        outcome.result(20)


def test_a_new_certificate_is_shown_without_a_restart(
    broker: Broker, secured: Secured, java_tool: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    def shown() -> bytes:
        place = f"127.0.0.1:{secured.ports['SASL_SSL']}"
        asked = ("openssl", "s_client", "-connect", place, "-CAfile", secured.client_files.authority)
        said = subprocess.run(asked, input=b"", capture_output=True, timeout=20, check=False).stdout
        return said.partition(b"subject=")[2].partition(b"\n")[0]

    newer = secured.authority.files("newer")
    assert shown() == b"CN = broker"
    admin = secured.way("SASL_SSL", "SCRAM-SHA-256", *ADMIN)
    change = f"listener.name.sasl_ssl.ssl.keystore.location={newer.both}"

    status, said = java_tool(
        admin, CONFIGS, "--alter", "--entity-type", "brokers", "--entity-name", "1", "--add-config", change
    )

    assert status == 0, said
    assert shown() == b"CN = newer"


# -- in a cluster -------------------------------------------------------------------------------------------------------
def test_a_cluster_knows_its_users_and_listeners_wherever_one_asks(tmp_path: Path) -> None:
    own = {number: Secured(tmp_path / f"secured-{number}") for number in (1, 2, 3)}

    def at(number: int, user: str, password: str) -> Way:
        return own[number].way("SASL_PLAINTEXT", "SCRAM-SHA-256", user, password)

    with cluster_of(tmp_path, 0) as cluster:
        for number, secured in own.items():
            cluster.add(number).settings = secured.settings()
        for number in own:
            cluster.tell(number)
        cluster.start(*own)

        for way in (at(1, *ADMIN), own[2].way("SSL")):
            wanted = {number: secured.ports[way.protocol] for number, secured in own.items()}
            until(lambda w=way, p=wanted: _ports(w) == p, "all are listed", seconds=30)  # type: ignore[misc]
        admin = AdminClient(at(1, *ADMIN).librdkafka())  # kept: it ends with its last name
        controller = admin.describe_cluster().result(20).controller.id
        other = next(number for number in own if number != controller)
        _make_user(at(other, *ADMIN), "erin", "erin-secret")
        for number in own:
            until(lambda n=number: _is_let_in(at(n, "erin", "erin-secret")), f"{number} knows erin")  # type: ignore[misc]

        cluster.brokers[controller].kill()

        for number in cluster.running:
            assert _is_let_in(at(number, "erin", "erin-secret"))
            assert not _is_let_in(at(number, "erin", "wrong"))
        until(lambda: _can_make_user(at(other, *ADMIN)), "users can be made again", seconds=30)


def _ports(way: Way) -> dict[int, int]:
    return {b.id: b.port for b in AdminClient(way.librdkafka()).list_topics(timeout=20).brokers.values()}


def _can_make_user(way: Way) -> bool:
    try:
        _make_user(way, "frank", "frank-secret")
    except KafkaException:
        return False
    return True
