"""Clients that push metrics: what each was told, when it may come again, and the newest of what it has told.

A client that nobody wants anything of is told so and forgotten: it costs a request every five minutes. All is bounded: clients,
metrics of each, and the time that they are kept after the last push.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from kompat.errors import ErrorCode, KafkaError
from kompat.telemetry.otlp import Point
from kompat.telemetry.subscriptions import ClientFacts, Subscription, Wanted, wanted
from kompat.types import ZERO_UUID, Millis

MOST_CLIENTS: Final = 1_000
MOST_METRICS: Final = 500  # of one client
KEPT_AT_LEAST: Final = 60_000  # milliseconds after a client was heard of last
KEPT_INTERVALS: Final = 3
RESERVED: Final = frozenset({ZERO_UUID, UUID(int=1)})


@dataclass(slots=True)
class Instance:
    client_id: str
    wanted: Wanted
    asked: int = -1  # when it asked last, in milliseconds; -1: never
    pushed: int = -1
    is_terminating: bool = False
    may_ask_at_once: bool = False  # it was told to
    values: dict[tuple[str, str], float] = field(default_factory=dict)  # by metric and attributes

    @property
    def heard(self) -> int:
        return max(self.asked, self.pushed)

    def is_old(self, now: Millis) -> bool:
        return now - self.heard > max(KEPT_AT_LEAST, KEPT_INTERVALS * self.wanted.interval_ms)


class Clients:
    def __init__(self) -> None:
        self._instances: OrderedDict[UUID, Instance] = OrderedDict()  # who was heard of last comes last
        self.pushes = 0
        self.refused: Counter[ErrorCode] = Counter()

    # -- asking ----------------------------------------------------------------------------------------------------
    def ask(self, facts: ClientFacts, subscriptions: Iterable[Subscription], now: Millis) -> Wanted:
        """What the client is to push. Raises KafkaError where it asks too early."""
        instance_id, known = facts.instance_id, self._instances.get(facts.instance_id)
        found = wanted(subscriptions, facts)
        if not found.metrics:
            self._instances.pop(instance_id, None)
            return found
        if known is not None:
            if not known.may_ask_at_once and now - known.heard < known.wanted.interval_ms:
                raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            known.wanted = found
        else:
            known = self._add(instance_id, Instance(facts.client_id, found), now)
        known.asked, known.may_ask_at_once = now, False
        self._instances.move_to_end(instance_id)
        return found

    def _add(self, instance_id: UUID, instance: Instance, now: Millis) -> Instance:
        self._forget_old(now)
        self._instances[instance_id] = instance
        if len(self._instances) > MOST_CLIENTS:
            self._instances.popitem(last=False)
        return instance

    def _forget_old(self, now: Millis) -> None:
        for instance_id in [each for each, instance in self._instances.items() if instance.is_old(now)]:
            del self._instances[instance_id]

    # -- pushing ---------------------------------------------------------------------------------------------------
    def admit(
        self,
        facts: ClientFacts,
        subscriptions: Iterable[Subscription],
        subscription_id: int,
        now: Millis,
        *,
        terminating: bool,
    ) -> None:
        """Raises KafkaError where the client may not push now."""
        if facts.instance_id in RESERVED:
            raise self._refused(ErrorCode.INVALID_REQUEST, "the client instance id is missing")
        found = wanted(subscriptions, facts)
        known = self._instances.get(facts.instance_id)
        if known is None:
            known = self._add(facts.instance_id, Instance(facts.client_id, found), now)
        if known.is_terminating:
            raise self._refused(ErrorCode.INVALID_REQUEST, "the client has said that it ends")
        has_asked_since = known.asked > known.pushed
        is_early = not has_asked_since and known.pushed >= 0 and now - known.pushed < known.wanted.interval_ms
        if is_early and not terminating:
            raise self._refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        known.pushed, known.is_terminating = now, terminating
        self._instances.move_to_end(facts.instance_id)
        if found.id_for(facts.instance_id) != subscription_id:
            known.may_ask_at_once = True
            raise self._refused(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)

    def refuse(self, instance_id: UUID, code: ErrorCode) -> KafkaError:
        """What it pushed cannot be taken; it may ask again, for perhaps it was told something else."""
        known = self._instances.get(instance_id)
        if known is not None:
            known.may_ask_at_once = True
        return self._refused(code)

    def _refused(self, code: ErrorCode, reason: str = "") -> KafkaError:
        self.refused[code] += 1
        return KafkaError(code, reason)

    def take(self, instance_id: UUID, points: Iterable[Point]) -> None:
        """The newest values; those of before that did not come again stay, for clients leave out what has not changed."""
        self.pushes += 1
        known = self._instances.get(instance_id)
        if known is None:  # so many others have come meanwhile
            return
        values = known.values
        for metric, attributes, value, is_delta in points:
            key = metric, attributes
            if key in values:
                values[key] = values[key] + value if is_delta else value
            elif len(values) < MOST_METRICS:
                values[key] = value

    # -- looking ---------------------------------------------------------------------------------------------------
    def all(self, now: Millis) -> Iterator[tuple[UUID, Instance]]:
        self._forget_old(now)
        yield from list(self._instances.items())
