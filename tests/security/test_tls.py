"""TLS from Kafka's settings."""

from __future__ import annotations

import shutil
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kompat.config.broker import BrokerConfig
from kompat.errors import ConfigError
from kompat.security import tls
from tests.security.certificates import Authority, Files

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificates with openssl")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Authority(tmp_path_factory.mktemp("tls")).files("broker")


def settings(given: Mapping[str, str]) -> Callable[[str], Any]:
    return BrokerConfig(given).__getitem__


def is_met(server: ssl.SSLContext, authority: str, **options: Any) -> ssl.SSLObject:
    """A handshake without sockets: the client's side of it, or ssl.SSLError."""
    client = ssl.create_default_context(cafile=authority)
    for name, value in options.items():
        setattr(client, name, value)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(6):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends[0]


def test_key_and_certificate_come_from_a_file(files: Files) -> None:
    context = tls.context(settings(files.broker_settings()))

    assert is_met(context, files.authority).version() == "TLSv1.3"


@pytest.mark.parametrize("separator", ["\n", " ", "\\n"])
def test_key_and_certificate_stand_in_the_settings_on_any_number_of_lines(files: Files, separator: str) -> None:
    given = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": Path(files.certificate).read_text().replace("\n", separator),
        "ssl.keystore.key": Path(files.key).read_text().replace("\n", separator),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": Path(files.authority).read_text().replace("\n", separator),
        "ssl.client.auth": "requested",
    }
    context = tls.context(settings(given))

    assert len(context.get_ca_certs()) == 1
    assert is_met(context, files.authority).version() == "TLSv1.3"


def test_who_has_to_show_a_certificate_and_does_not_is_not_let_in(files: Files) -> None:
    context = tls.context(settings(files.broker_settings() | {"ssl.client.auth": "required"}))

    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        is_met(context, files.authority)


def test_only_the_versions_that_are_enabled_are_spoken(files: Files) -> None:
    context = tls.context(settings(files.broker_settings() | {"ssl.enabled.protocols": "TLSv1.3"}))

    with pytest.raises(ssl.SSLError):
        is_met(context, files.authority, maximum_version=ssl.TLSVersion.TLSv1_2)


@pytest.mark.parametrize(
    ("suite", "cipher"),
    [
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    ],
)
def test_ciphers_go_by_javas_names(files: Files, suite: str, cipher: str) -> None:
    context = tls.context(settings(files.broker_settings() | {"ssl.cipher.suites": suite}))

    found = is_met(context, files.authority, maximum_version=ssl.TLSVersion.TLSv1_2).cipher()

    assert found is not None
    assert found[0] == cipher


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ssl.keystore.location": ""}, "is missing"),
        ({"ssl.keystore.location": "/nowhere"}, "No such file"),
        ({"ssl.keystore.type": "JKS"}, "kompat reads PEM"),
        ({"ssl.truststore.type": "PKCS12", "ssl.client.auth": "requested"}, "kompat reads PEM"),
        ({"ssl.truststore.location": "", "ssl.client.auth": "required"}, "ssl.truststore.location"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "only TLSv1.2 and TLSv1.3"),
        ({"ssl.cipher.suites": "TLS_NULL_WITH_NULL_NULL"}, "ssl.cipher.suites"),
        ({"ssl.keystore.location": "", "ssl.keystore.key": "x", "ssl.keystore.certificate.chain": "y"}, "ssl.keystore"),
    ],
)
def test_what_does_not_suffice_stops_the_start(files: Files, changes: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tls.context(settings(files.broker_settings() | changes))
