"""The users of the cluster: they are looked up at once, their passwords are checked off the event loop."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from kompat.cluster.messages import AlterUsers, CreateFirstUsers
from kompat.cluster.scram_users import Deletion, ScramCredentialSet, Upsertion
from kompat.cluster.service import ClusterService
from kompat.config.broker import BrokerConfig
from kompat.errors import ConfigError, ErrorCode, KafkaError
from kompat.rpc.messages import CONTROLLER
from kompat.security import scram
from kompat.security.first_users import FirstUser, parse_first_users
from kompat.security.scram import Credential, Mechanism

log = logging.getLogger(__name__)

FIRST = "kompat.bootstrap.scram"
THREADS = 2  # many logins at once must not take all cores from authenticated clients
REMEMBERED = 256
NO_MATTER = Mechanism.SCRAM_SHA_256
PAUSE = 0.2  # seconds, before it is tried again

T = TypeVar("T")


class Users:
    def __init__(self, cluster: ClusterService) -> None:
        self._cluster = cluster
        self._pool: ThreadPoolExecutor | None = None  # until it is needed
        self._secret = secrets.token_bytes(32)
        # Correct passwords, as hashes under a key of this process: HTTP clients send theirs with every request. An entry is valid
        # for one credential only.
        self._proved: dict[tuple[str, bytes], Credential] = {}
        cluster.rpc.serve(AlterUsers, self._on_alter)
        cluster.rpc.serve(CreateFirstUsers, self._on_first)

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
        """A credential that no password matches if the user does not exist: clients do not learn which users exist."""
        return self.credentials(user).get(mechanism) or self._cluster.image.stand_ins.of(mechanism, user)

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
        """Whether it is the user's password, by any of its credentials. Takes the same time for users that do not exist."""
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
        """Create a user, or change its password. Raises KafkaError."""
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
        """Each user is changed or refused on its own, by the controller."""
        return await self._cluster.rpc.call(CONTROLLER, AlterUsers(tuple(deletions), tuple(upsertions)))

    async def _on_alter(self, request: AlterUsers) -> dict[str, KafkaError | None]:
        return await self._cluster.run(lambda machine: machine.alter_users(request.deletions, request.upsertions))

    # -- the first users -------------------------------------------------------------------------------------------
    async def begin(self, config: BrokerConfig) -> None:
        """Create the users of the config that do not exist yet."""
        missing = [user for user in first_users(config) if user.name not in self._known]
        made = [
            ScramCredentialSet(
                user.name, user.mechanism, await self._made(user.mechanism, user.password, user.iterations)
            )
            for user in missing
        ]
        if not made:
            return
        names = await self._begun(CreateFirstUsers(tuple(made)))
        log.info("users made", extra={"users": names})

    async def _begun(self, request: CreateFirstUsers) -> list[str]:
        while True:
            try:
                return await self._cluster.rpc.call(CONTROLLER, request)
            except KafkaError as error:
                if error.code is not ErrorCode.NOT_CONTROLLER:
                    raise
                log.warning("the first users are not made yet", extra={"reason": error})
                await asyncio.sleep(PAUSE)

    async def _on_first(self, request: CreateFirstUsers) -> list[str]:
        return await self._cluster.run(lambda machine: machine.first_users(request.credentials))


def first_users(config: BrokerConfig) -> list[FirstUser]:
    """The users of the config. Raises ConfigError."""
    given, file = config[FIRST], config[f"{FIRST}.file"]
    found = parse_first_users(FIRST, given) if given else []
    if file:
        try:
            text = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{FIRST}.file: {file}: {error}") from None
        found += parse_first_users(f"{FIRST}.file", text)
    return found
