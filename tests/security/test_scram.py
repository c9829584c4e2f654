"""The broker's side of SCRAM, held against the RFC's example and a client of our own."""

from __future__ import annotations

from base64 import b64decode
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kompat.errors import ErrorCode
from kompat.security.failure import SaslFailure
from kompat.security.scram import (
    Conversation,
    Credential,
    Mechanism,
    credential,
    matches,
    salted,
)
from tests.security.scram_client import ScramClient

SHA_256, SHA_512 = Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512
FEW = 16  # rounds: the conversation does not care how many

NAMES = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), min_size=1, max_size=20)
PASSWORDS = st.text(st.characters(blacklist_categories=["Cs"]), max_size=20)


def made(mechanism: Mechanism, password: str, salt: bytes = b"salt", iterations: int = FEW) -> Credential:
    return credential(mechanism, salted(mechanism, password, salt, iterations), salt, iterations)


def conversation(mechanism: Mechanism, password: str) -> Conversation:
    return Conversation(mechanism, lambda _: made(mechanism, password), "server-nonce")


def test_the_example_of_rfc_7677() -> None:
    known = made(SHA_256, "pencil", b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
    talk = Conversation(SHA_256, lambda user: {"user": known}[user], "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")

    first = talk.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert talk.user is None

    proof = b"dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    final = talk.respond(b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=" + proof)
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert talk.user == "user"


@settings(deadline=None)
@given(mechanism=st.sampled_from(Mechanism), user=NAMES, password=PASSWORDS)
@example(mechanism=SHA_512, user="a=b,c", password="=,=2C")  # noqa: S106
def test_who_has_the_password_is_let_in_and_knows_the_broker(mechanism: Mechanism, user: str, password: str) -> None:
    client = ScramClient(mechanism.hash_name, user, password)
    asked: list[str] = []

    def find(name: str) -> Credential:
        asked.append(name)
        return made(mechanism, password)

    talk = Conversation(mechanism, find, "server-nonce")
    last = client.final(talk.respond(client.first()))

    assert talk.respond(last) == client.expected
    assert talk.user == user
    assert asked == [user]


@settings(deadline=None)
@given(mechanism=st.sampled_from(Mechanism), right=PASSWORDS, wrong=PASSWORDS)
def test_who_has_not_is_not(mechanism: Mechanism, right: str, wrong: str) -> None:
    client = ScramClient(mechanism.hash_name, "alice", wrong + "x" if wrong == right else wrong)
    talk = conversation(mechanism, right)
    last = client.final(talk.respond(client.first()))

    with pytest.raises(SaslFailure) as raised:
        talk.respond(last)

    assert raised.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert talk.user is None


@settings(deadline=None)
@given(mechanism=st.sampled_from(Mechanism), data=st.data())
def test_a_message_that_was_tampered_with_proves_nothing(mechanism: Mechanism, data: st.DataObject) -> None:
    client = ScramClient(mechanism.hash_name, "alice", "pw")
    talk = conversation(mechanism, "pw")
    last = bytearray(client.final(talk.respond(client.first())))
    place = data.draw(st.integers(0, len(last) - 1))
    last[place] ^= data.draw(st.integers(1, 255))

    # The last character of a base64 text has bits that mean nothing.
    if b64_means(bytes(last)) == b64_means(client.final(b"r=client-nonceserver-nonce,s=c2FsdA==,i=16")):
        return
    with pytest.raises(SaslFailure):
        talk.respond(bytes(last))
    assert talk.user is None


def b64_means(message: bytes) -> object:
    try:
        head, _, proof = message.partition(b",p=")
        return head, b64decode(proof, validate=True)
    except ValueError:
        return message


@settings(max_examples=300, deadline=None)
@given(messages=st.lists(st.binary(max_size=80), min_size=1, max_size=3))
def test_whatever_comes_is_refused_and_breaks_nothing(messages: list[bytes]) -> None:
    talk = conversation(SHA_256, "pw")
    for message in messages:
        with suppress(SaslFailure):
            talk.respond(message)
    assert talk.user is None


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,n=,r=x",
        b"n,,n=alice",
        b"y,,n=alice,r=x",
        b"p=tls-unique,,n=alice,r=x",  # channel binding is not offered
        b"n,,n=alice,r=x,tokenauth=true",  # nor are delegation tokens
        b"n,,n=al=ice,r=x",
        b"n,,n=\xff,r=x",
    ],
)
def test_a_first_message_out_of_form_is_refused(first: bytes) -> None:
    with pytest.raises(SaslFailure):
        conversation(SHA_256, "pw").respond(first)


def test_nobody_may_ask_to_be_somebody_else() -> None:
    talk = conversation(SHA_256, "pw")
    with pytest.raises(SaslFailure, match="authorization id that is different from username"):
        talk.respond(b"n,a=bob,n=alice,r=x")


def test_a_client_may_say_its_nonce_twice_as_old_librdkafka_does() -> None:
    client = ScramClient("sha256", "alice", "pw")
    talk = conversation(SHA_256, "pw")
    first = talk.respond(client.first())

    talk.respond(client.final(first, repeated="client-nonce"))

    assert talk.user == "alice"


def test_a_proof_does_not_serve_twice() -> None:
    client = ScramClient("sha256", "alice", "pw")
    talk = conversation(SHA_256, "pw")
    last = client.final(talk.respond(client.first()))
    talk.respond(last)

    with pytest.raises(SaslFailure):
        talk.respond(last)


def test_a_message_that_no_login_needs_is_refused_before_it_is_read() -> None:
    with pytest.raises(SaslFailure):
        conversation(SHA_256, "pw").respond(b"n,,n=" + b"a" * 9000 + b",r=abc")


@pytest.mark.parametrize("mechanism", Mechanism)
def test_a_password_is_checked_without_a_conversation(mechanism: Mechanism) -> None:
    assert matches(mechanism, made(mechanism, "pässword"), "pässword")
    assert not matches(mechanism, made(mechanism, "pässword"), "password")


def test_a_credential_does_not_show_itself() -> None:
    assert repr(made(SHA_256, "pw")) == f"Credential(iterations={FEW})"
