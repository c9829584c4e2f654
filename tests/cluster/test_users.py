"""The users of a cluster on a real log: made once, checked off the event loop, there again after a restart."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kompat.cluster.scram_users import Deletion
from kompat.cluster.users import Users
from kompat.config.broker import BrokerConfig
from kompat.errors import ConfigError, ErrorCode, KafkaError
from kompat.security import scram
from kompat.security.scram import Mechanism
from kompat.security.stand_ins import shape_of
from tests.cluster.support import service_on
from tests.coordination.support import Disk, Node

SHA_256, SHA_512 = Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512
FIRST = "SCRAM-SHA-256=[name=admin,password=first] SCRAM-SHA-512=[name=admin,password=first]"


@pytest.fixture
async def users() -> AsyncIterator[Users]:
    node = Node(Disk())
    found = Users(await service_on(node))
    yield found
    found.close()
    await node.close()


async def test_a_password_is_right_or_wrong_whatever_the_mechanism(users: Users) -> None:
    await users.set_password("alice", "secret", [SHA_512])
    await users.set_password("bob", "secret", [SHA_256, SHA_512])

    for user in ("alice", "bob"):
        assert await users.verify(user, "secret")
        assert await users.verify(user, "secret")
        assert not await users.verify(user, "Secret")
    assert not await users.verify("nobody", "secret")
    assert not await users.verify("nobody", "")


async def test_users_that_do_not_exist_look_like_those_that_do_on_every_broker(users: Users) -> None:
    await users.set_password("alice", "secret", [SHA_256], iterations=8192)
    known = users.credential(SHA_256, "alice")

    for name in ("bob", "carol"):
        found = users.credential(SHA_256, name)
        assert shape_of(found) == shape_of(known)
        assert found == users._cluster.image.stand_ins.of(SHA_256, name)  # which every broker has
    assert users.credential(SHA_256, "bob") != users.credential(SHA_256, "carol")


async def test_a_name_without_a_user_looks_the_same_whatever_becomes_of_others_and_after_a_restart() -> None:
    disk = Disk()
    found = []
    for _ in range(2):
        node = Node(disk)
        users = Users(await service_on(node))
        found.append(users.credential(SHA_256, "nobody"))
        await users.set_password("alice", "secret", [SHA_256, SHA_512])
        await users.set_password("bob", "secret")
        found.append(users.credential(SHA_256, "nobody"))
        await users.set_password("alice", "another")
        await users.alter([Deletion("bob", SHA_256)], [])
        found.append(users.credential(SHA_256, "nobody"))
        users.close()
        await node.close()

    assert len({each.salt for each in found}) == 1
    assert set(found) == {found[0]}


async def test_clusters_have_secrets_of_their_own(users: Users) -> None:
    node = Node(Disk())
    others = Users(await service_on(node))

    assert users.credential(SHA_256, "nobody") != others.credential(SHA_256, "nobody")
    others.close()
    await node.close()


async def test_a_user_may_have_a_password_for_each_mechanism(users: Users) -> None:
    await users.set_password("alice", "one", [SHA_256])
    await users.set_password("alice", "two", [SHA_512])

    assert [await users.verify("alice", password) for password in ("one", "two", "three")] == [True, True, False]


async def test_a_password_that_was_changed_is_not_remembered(users: Users) -> None:
    await users.set_password("alice", "old")
    assert await users.verify("alice", "old")

    await users.set_password("alice", "new")
    assert not await users.verify("alice", "old")
    assert await users.verify("alice", "new")

    await users.alter([Deletion("alice", SHA_256)], [])
    assert not await users.verify("alice", "new")


async def test_passwords_are_hashed_beside_the_event_loop(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    await users.set_password("alice", "secret")
    threads: set[int] = set()
    hashed = scram.salted

    def watched(mechanism: Mechanism, password: str, salt: bytes, iterations: int) -> bytes:
        threads.add(threading.get_ident())
        return hashed(mechanism, password, salt, iterations)

    monkeypatch.setattr(scram, "salted", watched)
    await asyncio.gather(*(users.verify("alice", f"wrong {number}") for number in range(20)))
    await users.set_password("bob", "b")

    assert 1 <= len(threads) <= 2
    assert threading.get_ident() not in threads


async def test_users_are_described_without_what_they_could_be_forged_with(users: Users) -> None:
    await users.set_password("alice", "secret", iterations=8192)

    found = users.describe(["alice", "bob", "twice", "twice"])

    assert {name: getattr(outcome, "code", None) for name, outcome in found.items()} == {
        "alice": None,
        "bob": ErrorCode.RESOURCE_NOT_FOUND,
        "twice": ErrorCode.DUPLICATE_RESOURCE,
    }
    assert users.names() == ["alice"]
    assert users.credentials("alice")[SHA_256].iterations == 8192


async def test_what_cannot_be_a_user_is_refused(users: Users) -> None:
    with pytest.raises(KafkaError, match="Too many iterations"):
        await users.set_password("alice", "secret", iterations=20_000)
    assert users.names() == []


async def test_the_first_users_are_made_once_and_keep_their_passwords() -> None:
    disk = Disk()
    config = BrokerConfig({"kompat.bootstrap.scram": FIRST})
    for password in ("first", "changed"):
        node = Node(disk)
        users = Users(await service_on(node))
        await users.begin(config)
        assert set(users.credentials("admin")) == {SHA_256, SHA_512}
        assert await users.verify("admin", password)
        await users.set_password("admin", "changed", [SHA_256, SHA_512])
        users.close()
        await node.close()


async def test_the_first_users_may_stand_in_a_file(users: Users, tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("# ours\nSCRAM-SHA-256=[name=carol,password=c]\n")

    await users.begin(BrokerConfig({"kompat.bootstrap.scram": FIRST, "kompat.bootstrap.scram.file": str(file)}))

    assert users.names() == ["admin", "carol"]
    assert await users.verify("carol", "c")


async def test_a_file_of_first_users_that_is_not_there_stops_the_start(users: Users) -> None:
    with pytest.raises(ConfigError, match="/nowhere"):
        await users.begin(BrokerConfig({"kompat.bootstrap.scram.file": "/nowhere"}))
