"""Links with certificates, and the settings that ask for them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kompat.config.broker import BrokerConfig
from kompat.errors import ConfigError
from kompat.raft import peers
from kompat.raft.links.identity import Identity, Tls, certified_nodes, identity_from
from tests.raft.links.test_listener import refusals
from tests.raft.peering import ONE, SECRET, TWO, Broker, RawPeer, until

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificates with openssl")
CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


class Authority:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.certificate = str(directory / "ca.pem")
        self._key = str(directory / "ca.key")
        directory.mkdir()
        self._run("req", "-x509", *CURVE, "-keyout", self._key, "-out", self.certificate, "-subj", "/CN=authority")

    def files(self, name: str) -> tuple[str, str, str]:
        """Certificate, key and authority of somebody it vouches for."""
        cert, key = str(self.directory / f"{name}.pem"), str(self.directory / f"{name}.key")
        signed_by = ("-CA", self.certificate, "-CAkey", self._key)
        self._run("req", "-x509", *signed_by, *CURVE, "-keyout", key, "-out", cert, "-subj", f"/CN={name}")
        return cert, key, self.certificate

    def identity(self, name: str, secret: bytes = b"") -> Identity:
        return Identity(secret, Tls.load(*self.files(name)))

    def _run(self, *words: str) -> None:
        subprocess.run(["openssl", *words], check=True, capture_output=True)  # noqa: S603, S607


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "theirs")


@pytest.mark.parametrize("secret", [b"", SECRET])
@pytest.mark.parametrize("names", [("kompat-1", "kompat-2"), ("somebody", "anybody")])
async def test_brokers_with_certificates_of_one_authority_meet(
    authority: Authority, secret: bytes, names: tuple[str, str]
) -> None:
    one_is, two_is = (authority.identity(name, secret) for name in names)
    async with Broker(ONE, one_is) as one, Broker(TWO, two_is) as two:
        two.dial(one)
        await one.linked(two)
        payload = bytes(range(256)) * 20_000
        assert one.peers.send_raft(TWO, b"group", b"header", [payload])
        await until(lambda: bool(two.heard))

        assert two.heard == [(ONE, b"group", b"header", [payload])]


async def test_a_certificate_of_another_broker_is_refused(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    async with Broker(ONE, authority.identity("kompat-1")) as one, Broker(TWO, authority.identity("kompat-7")) as two:
        two.dial(one)
        await until(lambda: "its certificate is not for node 2" in refusals(caplog))
        two.peers.forget(ONE)
        caplog.clear()
        one.dial(two)
        await until(lambda: "its certificate is not for node 2" in refusals(caplog))

        assert not one.peers.up
        assert not two.peers.up


async def test_a_certificate_of_another_authority_is_refused(
    authority: Authority, stranger: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = authority.identity("kompat-1"), stranger.identity("kompat-2")
    async with Broker(ONE, ours) as one, Broker(TWO, theirs) as two:
        two.dial(one)
        await until(lambda: len(refusals(caplog)) >= 2)  # one on each side

        assert not one.peers.up
        assert not two.peers.up


@pytest.mark.parametrize("is_dialler_plain", [True, False])
async def test_plain_and_encrypted_do_not_meet(
    authority: Authority, is_dialler_plain: bool, caplog: pytest.LogCaptureFixture
) -> None:
    plain, encrypted = Identity(SECRET), authority.identity("kompat-1", SECRET)
    async with Broker(ONE, encrypted) as one, Broker(TWO, plain) as two:
        dialler, other = (two, one) if is_dialler_plain else (one, two)
        dialler.dial(other)
        await until(lambda: len(refusals(caplog)) >= 2)

        assert not one.peers.up
        assert not two.peers.up


async def test_a_certificate_does_not_replace_the_secret_where_there_is_one(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = authority.identity("kompat-1", SECRET), authority.identity("kompat-2")
    async with Broker(ONE, ours) as one, Broker(TWO, theirs) as two:
        two.dial(one)
        await until(lambda: any("another cluster secret" in each for each in refusals(caplog)))

        assert not one.peers.up


async def test_whoever_does_not_begin_to_encrypt_is_cut_off(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "HANDSHAKE_SECONDS", 0.2)
    async with Broker(ONE, authority.identity("kompat-1")) as one:
        silent = await RawPeer.connect(one.address)
        assert await silent.is_closed()
        await until(lambda: one.peers._listener.unauthenticated == 0)
        await silent.close()


def test_the_names_in_a_certificate() -> None:
    def named(*names: str, common: str = "x") -> dict[str, object]:
        return {"subject": ((("commonName", common),),), "subjectAltName": tuple(("DNS", each) for each in names)}

    assert certified_nodes(named("kompat-1", "kompat-12.kompat.example.org")) == {1, 12}
    assert certified_nodes(named(common="kompat-3")) == {3}
    assert certified_nodes(named("kompat-1x", "not-kompat-2", "kompat-", "broker-4")) is None
    assert certified_nodes({}) is None


# -- settings ------------------------------------------------------------------------------------------------------------
def test_the_secret_comes_from_the_settings_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(SECRET + b"\n")

    assert identity_from(BrokerConfig({"kompat.cluster.secret": SECRET.decode()})).secret == SECRET
    assert identity_from(BrokerConfig({"kompat.cluster.secret.file": str(file)})).secret == SECRET


def test_certificates_come_from_files(authority: Authority) -> None:
    cert, key, ca = authority.files("kompat-1")
    settings = {
        "kompat.cluster.tls.cert.file": cert,
        "kompat.cluster.tls.key.file": key,
        "kompat.cluster.tls.ca.file": ca,
    }

    assert identity_from(BrokerConfig(settings)).tls is not None
    for name in settings:
        with pytest.raises(ConfigError, match=f"{name} is missing"):
            identity_from(BrokerConfig({each: file for each, file in settings.items() if each != name}))
    with pytest.raises(ConfigError, match=r"kompat\.cluster\.tls"):
        identity_from(BrokerConfig(settings | {"kompat.cluster.tls.key.file": ca}))


def test_settings_that_do_not_suffice_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for settings, reason in (
        ({}, "a cluster needs"),
        ({"kompat.cluster.secret": "short"}, "shorter than 16"),
        ({"kompat.cluster.secret.file": str(tmp_path / "none")}, "No such file"),
        ({"kompat.cluster.secret.file": str(tmp_path / "empty")}, "is empty"),
        ({"kompat.cluster.secret": "x" * 20, "kompat.cluster.secret.file": "y"}, "exclude each other"),
    ):
        with pytest.raises(ConfigError, match=reason):
            identity_from(BrokerConfig(settings))


def test_the_secret_is_not_shown() -> None:
    assert BrokerConfig({"kompat.cluster.secret": SECRET.decode()}).shown("kompat.cluster.secret") is None
