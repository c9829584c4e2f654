"""Whatever strangers send, they are answered or closed, learn nothing, and break nothing."""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from uuid import UUID

import pytest

import kompat.testing
from kompat.handlers import APIS
from kompat.handlers.support.base import Api
from kompat.testing import RunningBroker
from tests.server import fuzzing
from tests.server.test_fuzz import is_answered

BEFORE_LOGIN = (17, 18, 36)
NO_TOPIC = UUID(int=0)


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    settings: dict[str, str | int] = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "kompat.bootstrap.scram": "SCRAM-SHA-256=[name=alice,password=secret]",
        "connection.failed.authentication.delay.ms": 0,
    }
    with kompat.testing.broker(settings) as running:
        yield running


@pytest.fixture(autouse=True)
def no_bugs(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [r.exc_text or r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("api", [api for api in APIS if api.key not in BEFORE_LOGIN], ids=lambda api: api.name)
def test_no_other_request_is_answered(broker: RunningBroker, api: Api) -> None:
    random = Random(api.key)
    version = api.versions.high
    with socket.create_connection((broker.host, broker.port), timeout=10) as connection:
        connection.sendall(fuzzing.wild_request(random, api.key, version, NO_TOPIC))
        with suppress(ConnectionError):
            assert connection.recv(100) == b""


@pytest.mark.parametrize("seed", range(2))
def test_mutated_logins_are_answered_or_closed(broker: RunningBroker, seed: int) -> None:
    random = Random(seed)
    tokens = (b"\0alice\0x", b"n,,n=alice,r=abc", b"c=biws,r=abc,p=AAAA", random.randbytes(30), b"")
    for _ in range(150):
        sent = b""
        for _ in range(random.randint(1, 3)):
            mechanism = random.choice((b"PLAIN", b"SCRAM-SHA-256", b"SCRAM-SHA-512", b""))
            version = random.randrange(2)
            sent += fuzzing.frame(17, version, 1, struct.pack(">h", len(mechanism)) + mechanism)
            token = random.choice(tokens)
            body = struct.pack(">i", len(token)) + token
            sent += random.choice((fuzzing.frame(36, version, 2, body), struct.pack(">i", len(token)) + token))
        if random.random() < 0.7:
            sent = fuzzing.mutated(random, sent)

        is_answered(broker, sent, is_whole=False)


def test_random_streams_of_strangers_are_closed(broker: RunningBroker) -> None:
    random = Random(2)
    for _ in range(100):
        is_answered(broker, random.randbytes(random.randrange(1, 2000)), is_whole=False)
