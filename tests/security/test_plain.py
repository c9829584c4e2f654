"""PLAIN, and the users that settings give to a listener."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.errors import ConfigError
from kompat.security.failure import SaslFailure
from kompat.security.first_users import parse_first_users
from kompat.security.plain import is_listed, listed_users, name_and_password
from kompat.security.scram import Mechanism

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"alice", "expected 3 tokens, got 1"),
        (b"\0alice\0pw\0more", "expected 3 tokens, got 4"),
        (b"\0\0pw", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"bob\0alice\0pw", "different from username"),
        (b"\0alice\0\xff", "^SASL_AUTHENTICATION_FAILED$"),
    ],
)
def test_a_message_out_of_form_is_refused_in_kafkas_words(token: bytes, message: str) -> None:
    with pytest.raises(SaslFailure, match=message):
        name_and_password(token)


@pytest.mark.parametrize("token", [b"\0alice\0pw", b"alice\0alice\0pw"])
def test_name_and_password(token: bytes) -> None:
    assert name_and_password(token) == ("alice", "pw")


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_whatever_comes_is_read_or_refused(token: bytes) -> None:
    try:
        name, password = name_and_password(token)
    except SaslFailure:
        return
    assert name
    assert password


def test_users_of_a_login_module() -> None:
    text = f'{MODULE} username="broker" password="x" user_alice="a \\"quoted\\" one" user_bob=\'b;c\' user_dora=plain ;'

    users = listed_users("sasl.jaas.config", text)

    assert users == {"alice": 'a "quoted" one', "bob": "b;c", "dora": "plain"}
    assert is_listed(users, "bob", "b;c")
    assert not is_listed(users, "bob", "b")
    assert not is_listed(users, "nobody", "")


@pytest.mark.parametrize("text", ["", "PlainLoginModule", f"{MODULE} user_alice", f'{MODULE} user_alice="x"'])
def test_a_login_module_out_of_form_stops_the_start(text: str) -> None:
    with pytest.raises(ConfigError, match=r"sasl\.jaas\.config"):
        listed_users("sasl.jaas.config", text)


def test_the_first_users_stand_as_kafka_storage_takes_them() -> None:
    text = """
        # who may do everything
        SCRAM-SHA-256=[name=admin,password=admin-secret]
        SCRAM-SHA-512=[name="alice",password="a,]b",iterations=8192], SCRAM-SHA-256=[name=bob,password=c]
    """
    admin, alice, bob = parse_first_users("setting", text)

    assert (admin.mechanism, admin.name, admin.password, admin.iterations) == (
        Mechanism.SCRAM_SHA_256,
        "admin",
        "admin-secret",
        4096,
    )
    assert (alice.mechanism, alice.password, alice.iterations) == (Mechanism.SCRAM_SHA_512, "a,]b", 8192)
    assert bob.name == "bob"
    assert "admin-secret" not in repr(admin)


@pytest.mark.parametrize(
    "text",
    [
        "admin",
        "PLAIN=[name=admin,password=x]",
        "SCRAM-SHA-256=[name=admin]",
        "SCRAM-SHA-256=[name=,password=x]",
        "SCRAM-SHA-256=[name=admin,password=x,age=3]",
        "SCRAM-SHA-256=[name=admin,password=x,iterations=1]",
        "SCRAM-SHA-256=[name=admin,password=x] and more",
    ],
)
def test_first_users_out_of_form_stop_the_start_and_no_password_is_told(text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_first_users("setting", text)
    assert "password=x" not in str(raised.value)
