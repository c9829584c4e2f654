"""The users of the cluster: who they are is looked up at once, their passwords are checked off the event loop."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from kompat.cluster import scram_users
from kompat.cluster.scram_users import Deletion, ScramCredentialSet, Upsertion
from kompat.cluster.service import ClusterService
from kompat.config.broker import BrokerConfig
from kompat.errors import ConfigError, ErrorCode, KafkaError
from kompat.security import scram
from kompat.security.first_users import FirstUser, parse_first_users
from kompat.security.scram import Credential, Mechanism, Shape

log = logging.getLogger(__name__)

FIRST = "kompat.bootstrap.scram"
THREADS = 2  # a storm of logins must not take all cores from those who are in
REMEMBERED = 256
NO_MATTER = Mechanism.SCRAM_SHA_256
# There is no controller, or it is one that is still starting and does not know this question yet.
NOT_YET = (ErrorCode.NOT_CONTROLLER, ErrorCode.UNSUPPORTED_VERSION)
PAUSE = 0.2  # seconds, before it is asked again

T = TypeVar("T")


class StandIns:
    """Credentials for users that do not exist.

    They are made of a secret and in the shapes of those that do. The secret comes from the credentials themselves: every broker of the
    cluster has the same, before and after a restart, and nobody else knows it. Salts that differ from broker to broker would tell."""

    def __init__(self, secret: bytes) -> None:
        """`secret`: as long as there is nobody."""
        self._own_secret = self._secret = secret
        self._shapes: dict[Mechanism, list[Shape]] = {}
        self._version: object = None

    def of(
        self, mechanism: Mechanism, user: str, known: Mapping[str, Mapping[Mechanism, Credential]], version: object
    ) -> Credential:
        """`version` changes whenever `known` does."""
        if version != self._version:
            self._version = version
            self._learn(known)
        return scram.stand_in(mechanism, self._secret, user, self._shapes.get(mechanism, ()))

    def _learn(self, known: Mapping[str, Mapping[Mechanism, Credential]]) -> None:
        shapes: dict[Mechanism, set[Shape]] = {}
        hashed = hashlib.sha256()
        for name in sorted(known):
            for mechanism, credential in sorted(known[name].items()):
                hashed.update(credential.server_key)
                shapes.setdefault(mechanism, set()).add(scram.shape_of(credential))
        self._secret = hashed.digest() if known else self._own_secret
        self._shapes = {mechanism: sorted(found) for mechanism, found in shapes.items()}


class Users:
    def __init__(self, cluster: ClusterService) -> None:
        self._cluster = cluster
        self._pool: ThreadPoolExecutor | None = None  # until somebody needs it
        self._secret = secrets.token_bytes(32)
        self._stand_ins = StandIns(self._secret)
        # Passwords that were right, as hashes under a key that ends with this process: callers over HTTP show theirs with
        # every request. What is remembered counts for one credential only.
        self._proved: dict[tuple[str, bytes], Credential] = {}
        if cluster.member is not None:
            cluster.member.controller.commands({"alter-users": self._alter_told, "first-users": self._first_told})

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    # -- looking up ------------------------------------------------------------------------------------------------
    @property
    def _known(self) -> Mapping[str, Mapping[Mechanism, Credential]]:
        return self._cluster.image.users

    def names(self) -> list[str]:
        return sorted(self._known)

    def credentials(self, user: str) -> Mapping[Mechanism, Credential]:
        return self._known.get(user, {})

    def credential(self, mechanism: Mechanism, user: str) -> Credential:
        """One that no password fits, where there is none: strangers do not learn who exists."""
        known = self.credentials(user).get(mechanism)
        return (
            known
            if known is not None
            else self._stand_ins.of(mechanism, user, self._known, self._cluster.metadata_offset)
        )

    def describe(self, names: Sequence[str]) -> dict[str, Mapping[Mechanism, Credential] | KafkaError]:
        return {name: self._described(name, names.count(name)) for name in dict.fromkeys(names)}

    def _described(self, name: str, count: int) -> Mapping[Mechanism, Credential] | KafkaError:
        if count > 1:
            twice = "Cannot describe SCRAM credentials for the same user twice in a single request: "
            return KafkaError(ErrorCode.DUPLICATE_RESOURCE, twice + name)
        missing = "Attempt to describe a user credential that does not exist: "
        return self.credentials(name) or KafkaError(ErrorCode.RESOURCE_NOT_FOUND, missing + name)

    # -- passwords -------------------------------------------------------------------------------------------------
    async def verify(self, user: str, password: str) -> bool:
        """Whether it is the user's password, by whichever credential there is. Takes time for users that do not exist too."""
        found = self.credentials(user) or {NO_MATTER: self.credential(NO_MATTER, user)}
        key = user, hashlib.blake2b(password.encode(), key=self._secret).digest()
        if self._proved.get(key) in found.values():
            return True
        for mechanism, known in found.items():
            if await self._apart(partial(scram.matches, mechanism, known, password)):
                if len(self._proved) >= REMEMBERED:
                    self._proved.clear()
                self._proved[key] = known
                return True
        return False

    async def set_password(
        self,
        user: str,
        password: str,
        mechanisms: Collection[Mechanism] = (Mechanism.SCRAM_SHA_256,),
        iterations: int = scram.LEAST_ITERATIONS,
    ) -> None:
        """Make a user, or change its password. Raises KafkaError."""
        for mechanism in mechanisms:
            made = await self._made(mechanism, password, iterations)
            refusal = (await self.alter([], [Upsertion(user, mechanism, made)]))[user]
            if refusal is not None:
                raise refusal

    async def _made(self, mechanism: Mechanism, password: str, iterations: int) -> Credential:
        salt = secrets.token_bytes(scram.SALT_BYTES)
        return await self._apart(
            lambda: scram.credential(mechanism, scram.salted(mechanism, password, salt, iterations), salt, iterations)
        )

    async def _apart(self, work: Callable[[], T]) -> T:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="kompat-passwords")
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    # -- changes ---------------------------------------------------------------------------------------------------
    async def alter(
        self, deletions: Sequence[Deletion], upsertions: Sequence[Upsertion]
    ) -> dict[str, KafkaError | None]:
        """Each user is changed or refused on its own, by the controller, wherever that is."""
        if self._cluster.member is None:
            return await self._cluster.run(lambda machine: machine.alter_users(deletions, upsertions))
        told = [[each.user, each.mechanism] for each in deletions], [_told(each) for each in upsertions]
        answer = await self._cluster.member.controller.ask("alter-users", told)
        return {user: KafkaError(ErrorCode(found[0]), found[1]) if found else None for user, found in answer.items()}

    async def _alter_told(self, told: Sequence[Any]) -> dict[str, tuple[int, str] | None]:
        deletions = [Deletion(*each) for each in told[0]]
        upsertions = [_upsertion(each) for each in told[1]]
        outcomes = await self._cluster.run(lambda machine: machine.alter_users(deletions, upsertions))
        return {user: (error.code, error.message) if error else None for user, error in outcomes.items()}

    # -- the first users -------------------------------------------------------------------------------------------
    async def begin(self, config: BrokerConfig) -> None:
        """Make the users that the settings name, where they do not exist yet."""
        missing = [user for user in first_users(config) if user.name not in self._known]
        made = [
            ScramCredentialSet(
                user.name, user.mechanism, await self._made(user.mechanism, user.password, user.iterations)
            )
            for user in missing
        ]
        if not made:
            return
        names = await self._begun(made)
        log.info("users made", extra={"users": names})

    async def _begun(self, made: Sequence[ScramCredentialSet]) -> list[str]:
        if self._cluster.member is None:
            return await self._cluster.run(lambda machine: machine.first_users(made))
        told = list(map(scram_users.write_set, made))
        while True:
            try:
                names: list[str] = await self._cluster.member.controller.ask("first-users", told)
            except KafkaError as error:
                if error.code not in NOT_YET:
                    raise
                log.warning("the first users are not made yet", extra={"reason": error})
                await asyncio.sleep(PAUSE)
            else:
                return names

    async def _first_told(self, told: Sequence[Mapping[str, Any]]) -> list[str]:
        wanted = list(map(scram_users.read_set, told))
        return await self._cluster.run(lambda machine: machine.first_users(wanted))


def first_users(config: BrokerConfig) -> list[FirstUser]:
    """As the settings say. Raises ConfigError."""
    given, file = config[FIRST], config[f"{FIRST}.file"]
    found = parse_first_users(FIRST, given) if given else []
    if file:
        try:
            text = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{FIRST}.file: {file}: {error}") from None
        found += parse_first_users(f"{FIRST}.file", text)
    return found


def _told(wanted: Upsertion) -> list[Any]:
    known = wanted.credential
    keys = (known.salt.hex(), known.stored_key.hex(), known.server_key.hex())
    return [wanted.user, wanted.mechanism, *keys, known.iterations]


def _upsertion(told: Sequence[Any]) -> Upsertion:
    user, mechanism, salt, stored, server, iterations = told
    return Upsertion(
        user, mechanism, Credential(bytes.fromhex(salt), bytes.fromhex(stored), bytes.fromhex(server), iterations)
    )
