"""Where the states of share partitions are kept: in partitions of `__share_group_state`, led by this broker or by another.

Of another broker everything is asked as often as it takes: there may be no leader for a moment, and answers get lost. So
a command may come twice, and does no more then than the first time.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from kompat.clock import Clock
from kompat.coordination.decision import Decision
from kompat.coordination.runtime import Runtime
from kompat.coordination.shards import Shards
from kompat.errors import ErrorCode, KafkaError
from kompat.share import home_codec as codec
from kompat.share.machine.messages import Update
from kompat.share.machine.state import Fence, ShareStateMachine, Stored, Summary, Writing
from kompat.share.records import ShareKey, ShareRecord
from kompat.share.requests import TopicIdPartition
from kompat.types import LeaderEpoch, Millis, Offset

SECONDS = 10.0  # that a home is looked for
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 0.5  # seconds

PASSING = {  # soon another broker may lead, or more may be in sync
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
}

Keeper = Runtime[ShareStateMachine, ShareRecord]
Command = Callable[..., Decision[ShareRecord, Any]]


class Elsewhere(Protocol):
    """The other brokers of the cluster."""

    async def ask_home(self, place: int, command: str, arguments: Sequence[Any]) -> Any:
        """Ask the broker that leads this partition of `__share_group_state`. Raises KafkaError."""
        ...

    async def ask_leader(self, partition: TopicIdPartition, command: str, arguments: Sequence[Any]) -> Any:
        """Ask the broker that leads a partition. Raises KafkaError."""
        ...


class Homes:
    def __init__(
        self, shards: Shards[ShareStateMachine, ShareRecord], clock: Clock, elsewhere: Elsewhere | None = None
    ) -> None:
        """`elsewhere`: None where this broker is alone."""
        self._shards = shards
        self._clock = clock
        self.elsewhere = elsewhere

    # -- one share partition ---------------------------------------------------------------------------------------
    async def place_of(self, key: ShareKey) -> int:
        """The partition that has its state; the topic is made if need be."""
        return await self._shards.place(key.coordinator_key)

    async def begin(self, place: int, key: ShareKey, start: Offset, leader_epoch: LeaderEpoch, writer: str) -> Stored:
        """The state of a share partition that this writer uses from now on, and nobody else."""
        return codec.read_stored(await self._run(place, "begin", codec.key(key), start, leader_epoch, writer))

    async def write(self, place: int, key: ShareKey, update: Update, fence: Fence, writing: Writing) -> None:
        await self._run(place, "write", codec.key(key), codec.update(update), fence, writing)

    async def summary(self, key: ShareKey) -> Summary:
        place = self._shards.known_place(key.coordinator_key)
        return Summary() if place is None else codec.read_summary(await self._run(place, "summary", codec.key(key)))

    async def restart(self, key: ShareKey, offset: Offset, leader_epoch: LeaderEpoch) -> None:
        """Let the group begin anew there."""
        await self._run(await self.place_of(key), "restart", codec.key(key), offset, leader_epoch)

    # -- many ------------------------------------------------------------------------------------------------------
    async def ensure(self, keys: Iterable[ShareKey]) -> None:
        """Let these have a state."""
        places: dict[int, list[Any]] = defaultdict(list)
        for key in keys:
            places[await self.place_of(key)].append(codec.key(key))
        await asyncio.gather(*(self._run(place, "ensure", each) for place, each in places.items()))

    async def delete(self, keys: Iterable[ShareKey]) -> None:
        places: dict[int, list[Any]] = defaultdict(list)
        for key in keys:
            place = self._shards.known_place(key.coordinator_key)
            if place is not None:
                places[place].append(codec.key(key))
        await asyncio.gather(*(self._run(place, "delete", each) for place, each in places.items()))

    async def keys_of(self, group_id: str) -> list[ShareKey]:
        found = await asyncio.gather(*(self._run(place, "keys", group_id) for place in range(self._shards.count)))
        return [codec.read_key(key) for keys in found for key in keys]

    async def topics(self) -> set[tuple[str, UUID]]:
        """All groups, and the topics that they have a state of."""
        found = await asyncio.gather(*(self._run(place, "topics") for place in range(self._shards.count)))
        return {(group_id, UUID(topic_id)) for part in found for group_id, topic_id in part}

    # -- those that this broker keeps ------------------------------------------------------------------------------
    async def forget_topics(self, topic_ids: Collection[UUID]) -> None:
        """Every broker does that for itself."""
        for keeper in self._shards.all():
            await keeper.run(lambda machine: machine.delete_topics(topic_ids))

    async def archiving(self) -> list[ShareKey]:
        """Share partitions that owe dead letters."""
        found: list[ShareKey] = []
        for keeper in self._shards.all():
            keys = await keeper.run(lambda machine: machine.archiving())
            found += keys
        return found

    def here(self, place: int) -> Keeper | None:
        """Who keeps the states of a partition; None: another broker."""
        try:
            return self._shards.at(place)
        except KafkaError:
            return None

    # -- commands --------------------------------------------------------------------------------------------------
    async def _run(self, place: int, command: str, *arguments: Any) -> Any:
        if self.elsewhere is None:
            return await self.serve(place, command, arguments)
        deadline = self._clock.monotonic() + SECONDS
        pause = FIRST_PAUSE
        while True:
            try:
                if self.here(place) is not None:
                    return await self.serve(place, command, arguments)
                return await self.elsewhere.ask_home(place, command, arguments)
            except KafkaError as error:
                if error.code not in PASSING or self._clock.monotonic() > deadline:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def serve(self, place: int, command: str, arguments: Sequence[Any]) -> Any:
        """What is asked by this broker, or by another. Raises KafkaError: NOT_COORDINATOR where it is not led here."""
        keeper = self._shards.at(place)
        if keeper is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return await keeper.run(lambda machine: COMMANDS[command](machine, self._clock.now(), *arguments))


def _begin(
    machine: ShareStateMachine, now: Millis, key: Any, start: int, leader_epoch: int, writer: str
) -> Decision[ShareRecord, Any]:
    epoch = LeaderEpoch(leader_epoch)
    begun = machine.begin(codec.read_key(key), Offset(start), leader_epoch=epoch, now=now, writer=writer)
    return Decision(begun.records, codec.stored(begun.reply))


def _write(
    machine: ShareStateMachine, now: Millis, key: Any, update: Any, fence: Sequence[Any], writing: Sequence[Any]
) -> Decision[ShareRecord, None]:
    return machine.write_afar(codec.read_key(key), codec.read_update(update), Fence(*fence), now, Writing(*writing))


def _summary(machine: ShareStateMachine, _: Millis, key: Any) -> Decision[ShareRecord, Any]:
    return Decision([], codec.summary(machine.summary(codec.read_key(key)).reply))


def _restart(
    machine: ShareStateMachine, now: Millis, key: Any, offset: int, leader_epoch: int
) -> Decision[ShareRecord, None]:
    epoch = LeaderEpoch(leader_epoch)
    return machine.initialize(codec.read_key(key), Offset(offset), leader_epoch=epoch, state_epoch=None, now=now)


def _ensure(machine: ShareStateMachine, now: Millis, keys: Sequence[Any]) -> Decision[ShareRecord, None]:
    return machine.ensure(map(codec.read_key, keys), now)


def _delete(machine: ShareStateMachine, _: Millis, keys: Sequence[Any]) -> Decision[ShareRecord, None]:
    return machine.delete(map(codec.read_key, keys))


def _keys(machine: ShareStateMachine, _: Millis, group_id: str) -> Decision[ShareRecord, Any]:
    return Decision([], [codec.key(key) for key in machine.keys_of(group_id).reply])


def _topics(machine: ShareStateMachine, _: Millis) -> Decision[ShareRecord, Any]:
    return Decision([], [[group_id, topic_id.hex] for group_id, topic_id in machine.topics().reply])


COMMANDS: Mapping[str, Command] = {
    "begin": _begin,
    "write": _write,
    "summary": _summary,
    "restart": _restart,
    "ensure": _ensure,
    "delete": _delete,
    "keys": _keys,
    "topics": _topics,
}
