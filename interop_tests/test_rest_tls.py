"""HTTPS, with the settings of a listener that is called HTTP; and all who may come by it: users, listeners' users, certificates."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from interop_tests.support.broker import Broker, external, free_port, running
from interop_tests.support.command import Command
from interop_tests.support.wait import until
from tests.security.certificates import Authority, Files

pytestmark = pytest.mark.skipif(external() is not None, reason="the broker under test is not ours to secure")

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
ADMIN = ("admin", "admin-secret")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def files(authority: Authority) -> Files:
    return authority.files("broker")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, files: Files) -> Iterator[Broker]:
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "kompat.bootstrap.scram": f"SCRAM-SHA-256=[name={ADMIN[0]},password={ADMIN[1]}]",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{MODULE} user_robot="of-the-listener";',
        "listener.name.http.plain.sasl.jaas.config": f'{MODULE} user_script="a-key-for-http";',
        "kompat.http.security.protocol": "SSL",
        "listener.name.http.ssl.keystore.type": "PEM",
        "listener.name.http.ssl.keystore.location": files.both,
        "listener.name.http.ssl.client.auth": "requested",
        "listener.name.http.ssl.truststore.type": "PEM",
        "listener.name.http.ssl.truststore.location": files.authority,
        "listener.name.http.ssl.principal.mapping.rules": "RULE:^CN=([a-z]+).*$/$1/,DEFAULT",
    }
    with running(tmp_path_factory.mktemp("https"), settings, http=True) as started:
        yield started


def url(broker: Broker) -> str:
    return broker.http_url.replace("http:", "https:")


def client(
    broker: Broker, files: Files, *, auth: tuple[str, str] | None = None, shown: Files | None = None
) -> httpx.Client:
    context = ssl.create_default_context(cafile=files.authority)
    if shown is not None:
        context.load_cert_chain(shown.certificate, shown.key)
    return httpx.Client(base_url=url(broker), verify=context, auth=auth, timeout=30)


@pytest.mark.parametrize(
    "auth",
    [ADMIN, ("robot", "of-the-listener"), ("script", "a-key-for-http")],
    ids=["of the cluster", "of a listener", "of HTTP alone"],
)
def test_users_come_by_https(broker: Broker, files: Files, auth: tuple[str, str]) -> None:
    with client(broker, files, auth=auth) as rest:
        assert rest.get("/v1/topics").status_code == 200
        assert rest.post("/v1/topics", json={"name": f"of-{auth[0]}"}).status_code == 201
    with client(broker, files, auth=(auth[0], "wrong")) as rest:
        assert rest.get("/v1/topics").status_code == 401


def test_a_certificate_says_who_somebody_is_unless_a_password_does(
    broker: Broker, files: Files, authority: Authority
) -> None:
    alice = authority.files("alice")
    with client(broker, files) as rest:
        assert rest.get("/v1/topics").status_code == 401
    with client(broker, files, shown=alice) as rest:
        assert rest.get("/v1/topics").status_code == 200
        assert rest.get("/v1/topics", auth=("admin", "wrong")).status_code == 401


def test_what_is_not_tls_gets_no_answer(broker: Broker) -> None:
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{broker.http_url}/health/live", timeout=30)
    with pytest.raises(httpx.ConnectError, match=r"(?i)certificate"):
        httpx.get(f"{url(broker)}/health/live", timeout=30)


def test_a_new_key_is_shown_without_a_restart(broker: Broker, files: Files, authority: Authority) -> None:
    other = authority.files("another")
    name = "listener.name.http.ssl.keystore.location"
    with client(broker, files, auth=ADMIN) as rest:
        told = rest.patch("/v1/cluster/configs", json={"broker": 1, "set": {name: other.both}})
        assert told.status_code == 200, told.text

    def subject() -> object:
        with client(broker, files, auth=ADMIN) as rest:
            stream = rest.get("/health/live").extensions["network_stream"]
            return stream.get_extra_info("ssl_object").getpeercert()["subject"]

    until(lambda: "another" in str(subject()), "the new certificate")


def test_the_command_line_comes_by_https(broker: Broker, files: Files, tmp_path: Path) -> None:
    (tmp_path / "password").write_text(ADMIN[1])
    kompat = Command(http=url(broker))

    told = kompat(
        "delayed", "stats", "--tls-ca", files.authority, "--user", ADMIN[0], "--password-file", str(tmp_path / "password")
    )  # fmt: skip
    assert "waiting" in told.lower()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"kompat.http.security.protocol": "SSL"}, "ssl.keystore.location"),
        ({"listener.name.http.plain.sasl.jaas.config": "nonsense"}, "sasl.jaas.config"),
    ],
    ids=["no key", "no users"],
)
def test_a_door_that_could_let_nobody_in_stops_the_start(tmp_path: Path, settings: dict[str, str], reason: str) -> None:
    broker = Broker(tmp_path, settings)
    broker.http_port = free_port()
    process = broker.spawn()
    try:
        assert process.wait(30) == 2
    finally:
        broker.close()
    [line] = broker.stderr().splitlines()
    assert reason in line
