"""Clients that push metrics: the subscription of each, when it may push next, and its newest values.

A client without a matching subscription gets an empty one and is not kept: it costs a request every five minutes. The number of
clients, the metrics of each, and the time that they are kept after the last push are bounded.
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
KEPT_AT_LEAST: Final = 60_000  # milliseconds after a client's last request
KEPT_INTERVALS: Final = 3
RESERVED: Final = frozenset({ZERO_UUID, UUID(int=1)})


@dataclass(slots=True)
class Instance:
    client_id: str
    wanted: Wanted
    requested: int = -1  # when it last requested its subscription, in milliseconds; -1: never
    pushed: int = -1
    is_terminating: bool = False
    may_request_at_once: bool = False  # after an error that makes it do so
    values: dict[tuple[str, str], float] = field(default_factory=dict)  # by metric and attributes

    @property
    def heard(self) -> int:
        return max(self.requested, self.pushed)

    def is_old(self, now: Millis) -> bool:
        return now - self.heard > max(KEPT_AT_LEAST, KEPT_INTERVALS * self.wanted.interval_ms)


class Clients:
    def __init__(self) -> None:
        self._instances: OrderedDict[UUID, Instance] = OrderedDict()  # the most recently active last
        self.pushes = 0
        self.refused: Counter[ErrorCode] = Counter()

    # -- subscriptions ---------------------------------------------------------------------------------------------
    def ask(self, facts: ClientFacts, subscriptions: Iterable[Subscription], now: Millis) -> Wanted:
        """The subscription of the client. Raises KafkaError if it requests it too early."""
        instance_id, known = facts.instance_id, self._instances.get(facts.instance_id)
        found = wanted(subscriptions, facts)
        if not found.metrics:
            self._instances.pop(instance_id, None)
            return found
        if known is not None:
            if not known.may_request_at_once and now - known.heard < known.wanted.interval_ms:
                raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            known.wanted = found
        else:
            known = self._add(instance_id, Instance(facts.client_id, found), now)
        known.requested, known.may_request_at_once = now, False
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
        """Raises KafkaError if the client may not push now."""
        if facts.instance_id in RESERVED:
            raise self._refused(ErrorCode.INVALID_REQUEST, "the client instance id is missing")
        found = wanted(subscriptions, facts)
        known = self._instances.get(facts.instance_id)
        if known is None:
            known = self._add(facts.instance_id, Instance(facts.client_id, found), now)
        if known.is_terminating:
            raise self._refused(ErrorCode.INVALID_REQUEST, "the client has sent its terminating push")
        has_requested_since = known.requested > known.pushed
        is_early = not has_requested_since and known.pushed >= 0 and now - known.pushed < known.wanted.interval_ms
        if is_early and not terminating:
            raise self._refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        known.pushed, known.is_terminating = now, terminating
        self._instances.move_to_end(facts.instance_id)
        if found.id_for(facts.instance_id) != subscription_id:
            known.may_request_at_once = True
            raise self._refused(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)

    def refuse(self, instance_id: UUID, code: ErrorCode) -> KafkaError:
        """The error for a push that is rejected. The client may request its subscription at once, which may have changed."""
        known = self._instances.get(instance_id)
        if known is not None:
            known.may_request_at_once = True
        return self._refused(code)

    def _refused(self, code: ErrorCode, reason: str = "") -> KafkaError:
        self.refused[code] += 1
        return KafkaError(code, reason)

    def take(self, instance_id: UUID, points: Iterable[Point]) -> None:
        """Keep the newest values. Values that were not pushed again stay, because clients leave out what has not changed."""
        self.pushes += 1
        known = self._instances.get(instance_id)
        if known is None:  # it was evicted by newer clients meanwhile
            return
        values = known.values
        for metric, attributes, value, is_delta in points:
            key = metric, attributes
            if key in values:
                values[key] = values[key] + value if is_delta else value
            elif len(values) < MOST_METRICS:
                values[key] = value

    # -- values ----------------------------------------------------------------------------------------------------
    def all(self, now: Millis) -> Iterator[tuple[UUID, Instance]]:
        self._forget_old(now)
        yield from list(self._instances.items())
