"""Quotas: whose counts, and how long somebody has to wait who did too much."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kompat.security.quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    MANY,
    PRODUCER_BYTE_RATE,
    USER,
    Bucket,
    Entity,
    Meters,
    Rate,
    find,
)

CALM = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)  # on a busy machine
WINDOW = 1000.0
SAMPLES = 11
# The most specific first, as Kafka's documentation lists them.
PRECEDENCE: tuple[Mapping[str, str | None], ...] = (
    {USER: "alice", CLIENT_ID: "app"},
    {USER: "alice", CLIENT_ID: None},
    {USER: "alice"},
    {USER: None, CLIENT_ID: "app"},
    {USER: None, CLIENT_ID: None},
    {USER: None},
    {CLIENT_ID: "app"},
    {CLIENT_ID: None},
)
ENTITIES: list[Entity] = [frozenset(each.items()) for each in PRECEDENCE]


def _meters(limits: Mapping[Entity, Mapping[str, float]]) -> Meters:
    meters = Meters(SAMPLES, WINDOW, SAMPLES, WINDOW)
    meters.limit(limits)
    return meters


@CALM
@given(st.sets(st.integers(0, len(ENTITIES) - 1)))
def test_the_most_specific_quota_counts(given_quotas: set[int]) -> None:
    limits = {ENTITIES[index]: {PRODUCER_BYTE_RATE: index + 1.0} for index in given_quotas}

    found = find(limits, PRODUCER_BYTE_RATE, "alice", "app")

    assert (found.limit if found else None) == (min(given_quotas) + 1.0 if given_quotas else None)


def test_quotas_of_others_and_of_other_things_do_not_count() -> None:
    limits = {frozenset({(USER, "bob")}): {PRODUCER_BYTE_RATE: 1.0}, ENTITIES[2]: {"consumer_byte_rate": 1.0}}

    assert find(limits, PRODUCER_BYTE_RATE, "alice", "app") is None


def test_a_users_quota_is_shared_by_its_clients_and_a_default_is_not_shared_by_users() -> None:
    meters = _meters({frozenset({(USER, None)}): {PRODUCER_BYTE_RATE: 100.0}})
    limit = 100.0 * (SAMPLES - 1)

    assert meters.record(PRODUCER_BYTE_RATE, "alice", "one", limit, 0) == 0
    assert meters.record(PRODUCER_BYTE_RATE, "bob", "one", limit, 0) == 0
    assert meters.record(PRODUCER_BYTE_RATE, "alice", "two", limit, 0) > 0


@CALM
@given(
    st.lists(st.tuples(st.floats(0, 3000), st.floats(0, 1e6)), min_size=1, max_size=60),
    st.floats(1, 1e5),
)
def test_a_rate_is_what_was_recorded_over_the_time_that_it_spans(
    events: list[tuple[float, float]], limit: float
) -> None:
    rate, now = Rate(SAMPLES, WINDOW), 0.0
    recorded: list[tuple[float, float]] = []
    for pause, value in events:
        now += pause
        rate.record(value, now)
        recorded.append((now, value))
        span = rate.span(now)
        assert span >= (SAMPLES - 1) * WINDOW
        everything = sum(value for _, value in recorded)
        recent = sum(value for at, value in recorded if now - at < (SAMPLES - 1) * WINDOW)
        assert recent * 1000 / span <= rate.per_second(now) * (1 + 1e-9) + 1e-9
        assert rate.per_second(now) <= everything * 1000 / span * (1 + 1e-9) + 1e-9
        assert (rate.wait(limit, now) > 0) == (rate.per_second(now) > limit)


@CALM
@given(st.lists(st.integers(1, 50_000), min_size=50, max_size=150))
def test_who_waits_as_told_keeps_to_its_quota(sizes: list[int]) -> None:
    """Give or take what may be saved up: whole samples fall out of the reckoning at a time."""
    limit, rate, now = 10_000.0, Rate(SAMPLES, WINDOW), 0.0
    for size in sizes:
        rate.record(size, now)
        now += rate.wait(limit, now)

    saved = limit * SAMPLES * WINDOW / 1000
    assert sum(sizes) <= 1.1 * limit * now / 1000 + saved + max(sizes)


def test_an_idle_rate_is_as_good_as_new() -> None:
    rate = Rate(SAMPLES, WINDOW)
    rate.record(1e9, 0)
    assert not rate.is_idle(SAMPLES * WINDOW - 1)
    assert rate.is_idle(SAMPLES * WINDOW)
    assert rate.per_second(SAMPLES * WINDOW) == 0


def test_kafkas_example_of_a_throttle_time() -> None:
    """500 bytes a second, ten windows of a second: 600 a second for ten, and then 2 s to wait, as Kafka reckons it."""
    rate = Rate(SAMPLES, WINDOW)
    for second in range(10):
        rate.record(600, second * WINDOW)
    rate.record(0, 10 * WINDOW)

    assert rate.per_second(10 * WINDOW) == 600
    assert rate.wait(500, 10 * WINDOW) == pytest.approx(2000)


# -- mutations ------------------------------------------------------------------------------------------------------------
def test_tokens_are_saved_up_overdrawn_once_and_made_good() -> None:
    bucket = Bucket(SAMPLES, WINDOW)
    assert bucket.wait(2, 0) == 0
    bucket.record(2 * SAMPLES + 10, 2, 0)
    assert bucket.wait(2, 0) == 5000
    assert bucket.wait(2, 4000) == 1000
    assert bucket.wait(2, 5000) == 0
    assert bucket.wait(2, 1e9) == 0
    bucket.record(2 * SAMPLES, 2, 1e9)
    assert bucket.wait(2, 1e9) == 0


def test_who_is_refused_is_not_charged_and_who_cannot_be_refused_is() -> None:
    meters = _meters({frozenset({(USER, "alice")}): {CONTROLLER_MUTATION_RATE: 1.0}})
    assert meters.mutate("alice", "app", 12, 0, is_strict=True) == 0
    assert meters.mutate("alice", "app", 5, 0, is_strict=True) == 1000
    assert meters.mutate("alice", "app", 5, 0, is_strict=True) == 1000
    assert meters.mutate("alice", "app", 5, 0, is_strict=False) == 6000
    assert meters.mutate("bob", "app", 5000, 0, is_strict=True) == 0


# -- connections ----------------------------------------------------------------------------------------------------------
def test_connections_are_counted_by_address_and_refused_ones_are_not() -> None:
    meters = _meters({frozenset({(IP, None)}): {CONNECTION_CREATION_RATE: 1.0}})
    assert [meters.connected("10.0.0.1", 0) for _ in range(SAMPLES - 1)] == [0] * (SAMPLES - 1)
    assert meters.connected("10.0.0.1", 0) == 1000
    assert meters.connected("10.0.0.1", 0) == 1000
    assert meters.connected("10.0.0.2", 0) == 0
    assert meters.connected("10.0.0.1", SAMPLES * WINDOW) == 0


# -- bounds ---------------------------------------------------------------------------------------------------------------
def test_clients_of_ever_new_names_do_not_fill_the_memory() -> None:
    meters = _meters({frozenset({(CLIENT_ID, None)}): {PRODUCER_BYTE_RATE: 1.0, CONTROLLER_MUTATION_RATE: 1.0}})
    for number in range(4 * MANY):
        meters.record(PRODUCER_BYTE_RATE, "alice", f"app-{number}", 1, number * 100.0)
        meters.mutate("alice", f"app-{number}", 1, number * 100.0, is_strict=True)

    assert len(meters._rates) + len(meters._buckets) <= 2 * MANY


def test_a_lower_limit_counts_at_once_for_what_was_done_before() -> None:
    entity: Entity = frozenset({(USER, "alice")})
    meters = _meters({entity: {PRODUCER_BYTE_RATE: 1000.0}})
    assert meters.record(PRODUCER_BYTE_RATE, "alice", "app", 5000, 0) == 0

    meters.limit({entity: {PRODUCER_BYTE_RATE: 100.0}})

    assert meters.record(PRODUCER_BYTE_RATE, "alice", "app", 0, 0) == 40_000
