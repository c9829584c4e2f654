"""Where the keys of tokens come from: files, and endpoints by https with an authority of their own."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kompat.clock import ManualClock
from kompat.config.load import load
from kompat.errors import ConfigError
from kompat.security.oauthbearer import InvalidToken
from kompat.server import token_keys
from kompat.server.token_keys import JWKS, TokenKeys
from tests.security.certificates import Authority
from tests.security.key_endpoint import Endpoint, endpoint
from tests.security.tokens import Issuer

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes certificates with openssl")
LISTENER = "SASL_PLAINTEXT"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def served(authority: Authority) -> Iterator[Endpoint]:
    with endpoint(authority) as made:
        yield made


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    return Issuer(tmp_path / "issuer", kind="ES256")


def settings(url: str, authority: Authority | None = None, **more: str) -> dict[str, str]:
    trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": authority.certificate} if authority else {}
    return {JWKS: url, **trusted, **more}


def keys_by(given: dict[str, str], clock: ManualClock) -> TokenKeys:
    config = load({"listeners": f"{LISTENER}://:0", "sasl.enabled.mechanisms": "OAUTHBEARER", **given}, environ={})
    return TokenKeys(lambda name: config.of_listener(LISTENER, name, "OAUTHBEARER"), clock)


async def user(keys: TokenKeys, issuer: Issuer, clock: ManualClock, **claims: Any) -> str:
    token = issuer.token(**{"sub": "alice", "exp": clock.now() // 1000 + 60, **claims})
    return (await keys.verify(token, clock.now())).user


# -- files ------------------------------------------------------------------------------------------------------------
async def test_a_file_is_read_again_when_it_changes_and_a_broken_one_changes_nothing(
    issuer: Issuer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock, newer = ManualClock(), Issuer(tmp_path / "newer", "newer")
    keys = keys_by(settings(issuer.keys.as_uri()), clock)
    assert await user(keys, issuer, clock) == "alice"
    with pytest.raises(InvalidToken):
        await user(keys, newer, clock)

    issuer.publish(newer)
    assert await user(keys, newer, clock) == "alice"
    with pytest.raises(InvalidToken):
        await user(keys, issuer, clock)

    issuer.keys.write_text("{")
    assert await user(keys, newer, clock) == "alice"
    assert "those of before stay" in caplog.text
    issuer.keys.unlink()
    assert await user(keys, newer, clock) == "alice"
    issuer.publish(issuer)
    assert await user(keys, issuer, clock) == "alice"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "has to say where"),
        ("file://", "has to say where"),
        ("http://127.0.0.1/keys", "has to say where"),
        ("https:///keys", "has to say where"),
        ("https://127.0.0.1:99999/keys", "(?i)port"),
        ("file:///nowhere/keys.json", "No such file"),
    ],
)
async def test_an_address_without_keys_stops_the_start(url: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        keys_by(settings(url), ManualClock())


async def test_settings_say_whose_tokens_are_taken(issuer: Issuer) -> None:
    clock = ManualClock()
    strict = {
        "sasl.oauthbearer.expected.issuer": "us",
        "sasl.oauthbearer.expected.audience": "other,kompat",
        "sasl.oauthbearer.sub.claim.name": "email",
        "sasl.oauthbearer.scope.claim.name": "scp",
        "sasl.oauthbearer.clock.skew.seconds": "0",
    }
    keys = keys_by(settings(issuer.keys.as_uri(), **strict), clock)
    good = {"iss": "us", "aud": "kompat", "email": "a@b.c", "scp": ["read"]}

    assert await user(keys, issuer, clock, **good) == "a@b.c"
    for wrong in ({"iss": "them"}, {"aud": "others"}, {"email": ""}, {"scp": [""]}, {"exp": clock.now() // 1000 - 1}):
        with pytest.raises(InvalidToken):
            await user(keys, issuer, clock, **{**good, **wrong})


# -- https ------------------------------------------------------------------------------------------------------------
async def test_keys_are_fetched_once_for_many_logins_and_again_when_they_are_old(
    served: Endpoint, authority: Authority, issuer: Issuer, tmp_path: Path
) -> None:
    clock, newer = ManualClock(), Issuer(tmp_path / "newer", "newer")
    served.issuers = [issuer]
    often = {"sasl.oauthbearer.jwks.endpoint.refresh.ms": "60000"}
    keys = keys_by(settings(served.url, authority, **often), clock)
    keys.start()

    assert await asyncio.gather(*(user(keys, issuer, clock) for _ in range(20))) == ["alice"] * 20
    assert served.requests == ["/keys?of=tests"]

    served.issuers = [newer]
    clock.advance(59_999)
    assert await user(keys, issuer, clock) == "alice"
    clock.advance(1)
    with pytest.raises(InvalidToken):
        await user(keys, issuer, clock)
    assert await user(keys, newer, clock) == "alice"


async def test_a_key_that_is_not_there_is_fetched_and_no_more_often_than_every_ten_seconds(
    served: Endpoint, authority: Authority, issuer: Issuer, tmp_path: Path
) -> None:
    clock, newer = ManualClock(), Issuer(tmp_path / "newer", "newer")
    served.issuers = [issuer]
    keys = keys_by(settings(served.url, authority), clock)
    assert await user(keys, issuer, clock) == "alice"

    served.issuers = [issuer, newer]
    assert await user(keys, newer, clock) == "alice"
    assert len(served.requests) == 2

    async def guess(number: int) -> None:
        token = issuer.token(kid=f"guess-{number}", sub="alice", exp=clock.now() // 1000 + 60)
        with pytest.raises(InvalidToken):
            await keys.verify(token, clock.now())

    await asyncio.gather(*(guess(each) for each in range(50)))
    assert len(served.requests) == 2
    clock.advance(10_000)
    await asyncio.gather(*(guess(each) for each in range(50)))
    assert len(served.requests) == 3


async def test_an_endpoint_that_fails_is_tried_again_after_a_pause_that_doubles(
    served: Endpoint, authority: Authority, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    pauses = {
        "sasl.oauthbearer.jwks.endpoint.refresh.ms": "60000",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "1000",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "3000",
    }
    served.issuers = [issuer]
    keys = keys_by(settings(served.url, authority, **pauses), clock)
    assert await user(keys, issuer, clock) == "alice"

    served.status = 500
    clock.advance(60_000)
    for pause in (1000, 2000, 3000, 3000):
        before = len(served.requests)
        assert await user(keys, issuer, clock) == "alice"  # the keys of before stay
        clock.advance(pause - 1)
        assert await user(keys, issuer, clock) == "alice"
        assert len(served.requests) == before + 1
        clock.advance(1)
    assert "answers 500" in str(caplog.records[-1].__dict__["reason"])
    served.status = 200
    assert await user(keys, issuer, clock) == "alice"
    clock.advance(59_999)
    before = len(served.requests)
    assert await user(keys, issuer, clock) == "alice"
    assert len(served.requests) == before


async def test_an_endpoint_that_hangs_delays_a_login_a_little_and_nobody_else(
    served: Endpoint, authority: Authority, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_keys, "WAIT_SECONDS", 0.05)
    clock = ManualClock()
    served.issuers = [issuer]
    served.is_open.clear()
    keys = keys_by(settings(served.url, authority), clock)
    loop = asyncio.get_running_loop()
    turns = 0

    async def work() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.001)
            turns += 1

    worker = loop.create_task(work())
    with pytest.raises(InvalidToken):
        await user(keys, issuer, clock)
    worker.cancel()
    assert turns > 5
    served.is_open.set()
    monkeypatch.setattr(token_keys, "WAIT_SECONDS", 20)
    assert await user(keys, issuer, clock) == "alice"  # by what was on its way
    assert len(served.requests) == 1


async def test_only_an_endpoint_of_a_trusted_authority_is_asked(
    served: Endpoint, authority: Authority, issuer: Issuer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    served.issuers = [issuer]
    stranger = Authority(tmp_path / "stranger")
    for given in (settings(served.url, stranger), settings(served.url)):
        with pytest.raises(InvalidToken):
            await user(keys_by(given, clock), issuer, clock)
        assert "CERTIFICATE_VERIFY_FAILED" in str(caplog.records[-1].__dict__["reason"])
    own = f"listener.name.{LISTENER.lower()}.oauthbearer.ssl.truststore.location"

    assert await user(keys_by({**settings(served.url, stranger), own: authority.certificate}, clock), issuer, clock)
    assert len(served.requests) == 1


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (302, b"", "answers 302"),
        (200, b"no", "not a JSON Web Key Set"),
        (200, b"x" * ((1 << 20) + 1), "too long"),
    ],
)
async def test_what_is_no_set_of_keys_is_not_taken(
    served: Endpoint,
    authority: Authority,
    issuer: Issuer,
    caplog: pytest.LogCaptureFixture,
    status: int,
    body: bytes,
    reason: str,
) -> None:
    clock = ManualClock()
    served.status, served.body = status, body
    keys = keys_by(settings(served.url, authority), clock)

    with pytest.raises(InvalidToken):
        await user(keys, issuer, clock)

    assert reason in str(caplog.records[-1].__dict__["reason"])


async def test_an_endpoint_that_is_not_there_is_logged(
    authority: Authority, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    keys = keys_by(settings("https://127.0.0.1:1/", authority), clock)

    with pytest.raises(InvalidToken):
        await user(keys, issuer, clock)

    assert "refused" in str(caplog.records[-1].__dict__["reason"])


async def test_authorities_that_cannot_be_read_stop_the_start() -> None:
    given = settings("https://127.0.0.1:1/") | {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/nowhere"}
    with pytest.raises(ConfigError, match=r"ssl\.truststore\.location"):
        keys_by(given, ManualClock())
