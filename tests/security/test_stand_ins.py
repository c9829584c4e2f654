"""Credentials for users that do not exist: nobody can tell them from real ones, or by what happens to others."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.security.scram import SALT_BYTES, Credential, Mechanism, matches
from kompat.security.stand_ins import LONGEST_SALT, MOST_SHAPES, Shape, StandIns, shape_of

SHA_256, SHA_512 = Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def kafka_salt(seed: int) -> bytes:
    """As Kafka's tools make them: 130 random bits as a number in base 36."""
    left, text = random.Random(seed).getrandbits(130), ""
    while left:
        left, digit = divmod(left, 36)
        text = DIGITS[digit] + text
    return text.encode()


def credential(salt: bytes, iterations: int = 4096) -> Credential:
    return Credential(salt, b"", b"", iterations)


def noting(*known: Credential, mechanism: Mechanism = SHA_256) -> StandIns:
    found = StandIns(b"secret")
    for each in known:
        found = found.noting(mechanism, each)
    return found


@pytest.mark.parametrize("mechanism", Mechanism)
def test_a_stand_in_looks_like_a_credential_and_fits_no_password(mechanism: Mechanism) -> None:
    stand_ins = StandIns(b"secret")
    found = stand_ins.of(mechanism, "nobody")

    assert found == StandIns(b"secret").of(mechanism, "nobody")
    assert found.salt != stand_ins.of(mechanism, "somebody").salt
    assert found.salt != StandIns(b"another secret").of(mechanism, "nobody").salt
    assert found.salt != stand_ins.of(SHA_256 if mechanism is SHA_512 else SHA_512, "nobody").salt
    assert (len(found.salt), len(found.stored_key), found.iterations) == (SALT_BYTES, mechanism.hash_size, 4096)
    assert not matches(mechanism, found, "")


@pytest.mark.parametrize("known", [credential(b"x" * 26, 8192), credential(bytes(64), 16384), credential(bytes(24))])
def test_a_stand_in_has_the_shape_of_those_that_exist(known: Credential) -> None:
    found = [noting(known).of(SHA_256, f"user-{number}") for number in range(20)]

    assert {shape_of(each) for each in found} == {shape_of(known)}
    assert len({each.salt for each in found}) == 20


def test_salts_are_as_long_as_those_of_kafkas_tools() -> None:
    real = [kafka_salt(seed) for seed in range(2000)]
    stand_ins = noting(credential(real[0]))
    imitated = [stand_ins.of(SHA_256, f"user-{number}").salt for number in range(2000)]

    assert {shape_of(credential(salt)) for salt in real} == {Shape(0, 4096)}
    assert set(b"".join(imitated)) == set(b"".join(real))
    for length in (24, 25, 26):
        assert abs(sum(len(s) == length for s in real) - sum(len(s) == length for s in imitated)) < 150


def test_stand_ins_have_all_shapes_that_there_are_and_keep_theirs() -> None:
    few, more = (credential(bytes(24)), credential(b"x" * 26, 8192)), credential(bytes(64))
    names = [f"user-{number}" for number in range(50)]

    before = {name: noting(*few).of(SHA_256, name) for name in names}
    after = {name: noting(*few, more).of(SHA_256, name) for name in names}

    assert {shape_of(each) for each in before.values()} == set(map(shape_of, few))
    for name in names:
        is_new = shape_of(after[name]) == shape_of(more)
        assert is_new or after[name] == before[name]
        # As after a new password: a salt that began as the one before would tell that it is none.
        assert not is_new or after[name].salt[:8] != before[name].salt[:8]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(Mechanism), st.sampled_from([bytes(24), bytes(64), b"y" * 25]))), st.text())
def test_a_stand_in_stays_whatever_becomes_of_other_users(changes: list[tuple[Mechanism, bytes]], name: str) -> None:
    """Made by whichever of the tools that the cluster has seen."""
    stand_ins = StandIns(b"secret", {each: frozenset({Shape(24), Shape(64), Shape(0)}) for each in Mechanism})
    before = [stand_ins.of(each, name) for each in Mechanism]

    for mechanism, salt in changes:
        stand_ins = stand_ins.noting(mechanism, credential(salt))

    assert [stand_ins.of(each, name) for each in Mechanism] == before


def test_neither_many_shapes_nor_long_salts_make_a_login_costly() -> None:
    many = noting(*(credential(bytes(24), 4096 + number) for number in range(10 * MOST_SHAPES)))
    assert len(many.shapes[SHA_256]) == MOST_SHAPES

    assert noting(credential(bytes(LONGEST_SALT + 1))).shapes == {}


def test_the_secret_does_not_show_itself() -> None:
    assert "secret of the cluster" not in repr(StandIns(b"secret of the cluster"))
