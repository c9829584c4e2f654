"""Client quotas as in Kafka: which quota applies to a client, and how long it is throttled after it exceeds it.

An entity is a user, a client id, a user with a client id, or an IP address; the name None stands for the default, which
applies to all without a quota of their own. Times are arguments, in monotonic milliseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass

USER, CLIENT_ID, IP = "user", "client-id", "ip"

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"

Entity = frozenset[tuple[str, str | None]]
Limits = Mapping[Entity, Mapping[str, float]]

MANY = 1024  # meters, before idle ones are removed

# The maximum of a quota that is a whole number; None if it need not be whole.
CLIENT_KEYS: Mapping[str, int | None] = {
    PRODUCER_BYTE_RATE: 2**63 - 1,
    CONSUMER_BYTE_RATE: 2**63 - 1,
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
IP_KEYS: Mapping[str, int | None] = {CONNECTION_CREATION_RATE: 2**31 - 1}
_TYPES = {2**63 - 1: "a LONG", 2**31 - 1: "an INT"}


def objection_to_value(keys: Mapping[str, int | None], key: str, value: float) -> str | None:
    """The reason why a limit is invalid, in Kafka's words."""
    if key not in keys:
        return f"Invalid configuration key {key}"
    if not value > 0:
        return f"Quota {key} must be greater than 0"
    most = keys[key]
    if most is None:
        return None
    if value > most:
        return f"Proposed value for {key} is too large for {_TYPES[most]}."
    return f"{key} cannot be a fractional value." if value % 1.0 > 1e-6 else None


class Rate:
    """A rate over the last seconds, from a few samples, of which the oldest drop out. A new rate begins as if it had been idle."""

    __slots__ = ("_count", "_samples", "_window")

    def __init__(self, samples: int, window_ms: float) -> None:
        self._count = samples
        self._window = window_ms
        self._samples: deque[list[float]] = deque()  # begin, last event, sum

    def record(self, value: float, now: float) -> None:
        samples = self._samples
        if not samples or now - samples[-1][0] >= self._window:
            samples.append([now, now, 0.0])
            if len(samples) > self._count + 1:
                samples.popleft()
        samples[-1][1] = now
        samples[-1][2] += value

    def per_second(self, now: float) -> float:
        span = self.span(now)
        return sum(sample[2] for sample in self._samples) * 1000 / span

    def span(self, now: float) -> float:
        """The milliseconds that the rate covers."""
        self._forget(now)
        elapsed = now - self._samples[0][0] if self._samples else 0.0
        missing = self._count - 1 - elapsed // self._window
        return elapsed + max(0.0, missing) * self._window or self._window

    def _forget(self, now: float) -> None:
        while self._samples and now - self._samples[0][1] >= self._count * self._window:
            self._samples.popleft()

    def is_idle(self, now: float) -> bool:
        """Whether it equals a new rate."""
        self._forget(now)
        return not self._samples

    def wait(self, limit: float, now: float) -> float:
        """Milliseconds until the rate is down to the limit, if nothing more is recorded."""
        rate = self.per_second(now)
        return (rate - limit) / limit * self.span(now) if rate > limit else 0.0


class Bucket:
    """A token bucket: it may be overdrawn once, and then gives no tokens until it is refilled above zero."""

    __slots__ = ("_at", "_seconds", "_tokens")

    def __init__(self, samples: int, window_ms: float) -> None:
        self._seconds = samples * window_ms / 1000  # that unused tokens accumulate for
        self._tokens: float | None = None  # None: full
        self._at = 0.0

    def _refill(self, limit: float, now: float) -> float:
        most = limit * self._seconds
        gained = (now - self._at) / 1000 * limit
        tokens = most if self._tokens is None else min(most, self._tokens + gained)
        self._tokens, self._at = tokens, now
        return tokens

    def record(self, value: float, limit: float, now: float) -> None:
        self._tokens = min(limit * self._seconds, self._refill(limit, now) - value)

    def wait(self, limit: float, now: float) -> float:
        tokens = self._refill(limit, now)
        return -tokens / limit * 1000 if tokens < 0 else 0.0

    def is_idle(self, limit: float | None, now: float) -> bool:
        return limit is None or self._refill(limit, now) >= limit * self._seconds


@dataclass(frozen=True, slots=True)
class Found:
    """The quota that applies to a client, and which clients share it."""

    limit: float
    shared_by: tuple[str, str, str]  # key, user, client id; empty: any


def _candidates(user: str, client_id: str) -> Iterator[tuple[Entity, str, str]]:
    """The entities whose quotas may apply, by precedence, and which users and client ids share each."""
    yield frozenset({(USER, user), (CLIENT_ID, client_id)}), user, client_id
    yield frozenset({(USER, user), (CLIENT_ID, None)}), user, client_id
    yield frozenset({(USER, user)}), user, ""
    yield frozenset({(USER, None), (CLIENT_ID, client_id)}), user, client_id
    yield frozenset({(USER, None), (CLIENT_ID, None)}), user, client_id
    yield frozenset({(USER, None)}), user, ""
    yield frozenset({(CLIENT_ID, client_id)}), "", client_id
    yield frozenset({(CLIENT_ID, None)}), "", client_id


def find(limits: Limits, key: str, user: str, client_id: str) -> Found | None:
    for entity, whose_user, whose_client in _candidates(user, client_id):
        limit = limits.get(entity, {}).get(key)
        if limit is not None:
            return Found(limit, (key, whose_user, whose_client))
    return None


def find_ip(limits: Limits, address: str) -> float | None:
    for name in (address, None):
        limit = limits.get(frozenset({(IP, name)}), {}).get(CONNECTION_CREATION_RATE)
        if limit is not None:
            return limit
    return None


class Meters:
    """The recent usage of all clients that have a quota."""

    def __init__(self, samples: int, window_ms: float, mutation_samples: int, mutation_window_ms: float) -> None:
        self._shape = samples, window_ms
        self._mutation_shape = mutation_samples, mutation_window_ms
        self._limits: Limits = {}
        self._found: dict[tuple[str, str, str], Found | None] = {}
        self._rates: dict[Hashable, Rate] = {}
        self._buckets: dict[tuple[str, str, str], Bucket] = {}
        self._many = MANY

    @property
    def longest_ms(self) -> float:
        """The longest throttle time of quotas other than those on bytes."""
        return self._shape[1]

    def limit(self, limits: Limits) -> None:
        """Replace the limits; the recorded usage stays."""
        self._limits = limits
        self._found.clear()

    def find(self, key: str, user: str, client_id: str) -> Found | None:
        wanted = key, user, client_id
        if wanted not in self._found:
            if len(self._found) >= MANY:
                self._found.clear()
            self._found[wanted] = find(self._limits, key, user, client_id)
        return self._found[wanted]

    def most(self, key: str, user: str, client_id: str) -> float | None:
        """The most that a client may use at once, even if it has been idle."""
        found = self.find(key, user, client_id)
        samples, window = self._shape
        return found.limit * (samples - 1) * window / 1000 if found is not None else None

    def record(self, key: str, user: str, client_id: str, value: float, now: float) -> float:
        """Record usage and return the throttle time in milliseconds."""
        found = self.find(key, user, client_id)
        if found is None:
            return 0.0
        rate = self._rate(found.shared_by, now)
        rate.record(value, now)
        return rate.wait(found.limit, now)

    def connected(self, address: str, now: float) -> float:
        """The throttle time of a new connection in milliseconds, after which it is closed; 0 if it is accepted."""
        limit = find_ip(self._limits, address)
        if limit is None:
            return 0.0
        rate = self._rate((IP, address), now)
        rate.record(1, now)
        wait = rate.wait(limit, now)
        if wait > 0:
            rate.record(-1, now)
        return min(wait, self.longest_ms)

    def mutate(self, user: str, client_id: str, value: float, now: float, *, is_strict: bool) -> float:
        """The throttle time in milliseconds. With `is_strict`, nothing is recorded for a client that is throttled already."""
        found = self.find(CONTROLLER_MUTATION_RATE, user, client_id)
        if found is None:
            return 0.0
        bucket = self._buckets.get(found.shared_by)
        if bucket is None:
            self._tidy(now)
            bucket = self._buckets[found.shared_by] = Bucket(*self._mutation_shape)
        if is_strict:
            wait = bucket.wait(found.limit, now)
            if wait > 0:
                return wait
            bucket.record(value, found.limit, now)
            return 0.0
        bucket.record(value, found.limit, now)
        return bucket.wait(found.limit, now)

    def _rate(self, whose: Hashable, now: float) -> Rate:
        rate = self._rates.get(whose)
        if rate is None:
            self._tidy(now)
            rate = self._rates[whose] = Rate(*self._shape)
        return rate

    def _tidy(self, now: float) -> None:
        """Remove the meters of idle clients: clients may use any number of names."""
        if len(self._rates) + len(self._buckets) < self._many:
            return
        self._rates = {whose: rate for whose, rate in self._rates.items() if not rate.is_idle(now)}
        limits = self._limits
        self._buckets = {
            whose: bucket
            for whose, bucket in self._buckets.items()
            if not bucket.is_idle(_limit_of(limits, whose), now)
        }
        self._many = max(MANY, 2 * (len(self._rates) + len(self._buckets)))


def _limit_of(limits: Limits, whose: tuple[str, str, str]) -> float | None:
    found = find(limits, *whose)
    return found.limit if found is not None else None
