"""Which client is to push what and when, as KIP-714 and Kafka have it."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from kompat.errors import ErrorCode, KafkaError
from kompat.telemetry.clients import MOST_CLIENTS, MOST_METRICS, Clients
from kompat.telemetry.otlp import Point
from kompat.telemetry.subscriptions import DEFAULT_INTERVAL_MS, ClientFacts, Wanted, parse, wanted
from kompat.types import ZERO_UUID, Millis

ME = UUID(int=7)
ALL = [parse({"metrics": "*", "interval.ms": "1000"})]


def facts(instance_id: UUID = ME, software: str = "librdkafka") -> ClientFacts:
    return ClientFacts(
        instance_id=instance_id,
        client_id="shop-1",
        software_name=software,
        software_version="2.1",
        address="10.1.2.3",
        port="4711",
    )


def pushed(clients: Clients, now: int, *, subscription_id: int | None = None, terminating: bool = False) -> None:
    if subscription_id is None:
        subscription_id = wanted(ALL, facts()).id_for(ME)
    clients.admit(facts(), ALL, subscription_id, Millis(now), terminating=terminating)


def code_of(raised: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return raised.value.code


# -- which -------------------------------------------------------------------------------------------------------------
def test_subscriptions_add_up_and_the_most_eager_sets_the_pace() -> None:
    subscriptions = [
        parse({"metrics": "org.apache.kafka.producer.,x.", "interval.ms": "60000"}),
        parse({"metrics": "x.,y.", "interval.ms": "2000"}),
    ]

    assert wanted(subscriptions, facts()) == Wanted(("org.apache.kafka.producer.", "x.", "y."), 2000)


def test_one_that_wants_all_leaves_nothing_to_the_others() -> None:
    assert wanted([parse({"metrics": "x."}), *ALL], facts()).metrics == ("*",)


@pytest.mark.parametrize(
    ("match", "is_meant"),
    [
        ("client_id=shop-.*", True),
        ("client_id=shop", False),  # all of it has to match
        ("client_software_name=librdkafka,client_software_version=2\\..*", True),
        ("client_software_name=librdkafka,client_software_version=3.*", False),
        ("client_source_address=10\\.1\\..*,client_source_port=4711", True),
        (f"client_instance_id={ME}", True),
    ],
)
def test_all_patterns_of_a_subscription_have_to_match(match: str, *, is_meant: bool) -> None:
    found = wanted([parse({"metrics": "x.", "match": match})], facts())

    assert found == (Wanted(("x.",), DEFAULT_INTERVAL_MS) if is_meant else Wanted((), DEFAULT_INTERVAL_MS))


def test_a_subscription_that_changes_has_another_id() -> None:
    ids = {Wanted(metrics, ms).id_for(ME) for metrics in (("x.",), ("y.",)) for ms in (1000, 2000)}

    assert len(ids) == 4


# -- when --------------------------------------------------------------------------------------------------------------
def test_a_client_that_nobody_wants_anything_of_is_not_remembered() -> None:
    clients = Clients()

    for now in range(10):  # it may ask as often as it likes: it costs nothing
        assert clients.ask(facts(), [], Millis(now)).metrics == ()

    assert not list(clients.all(Millis(10)))


def test_asking_again_before_the_interval_is_over_is_too_early() -> None:
    clients = Clients()
    clients.ask(facts(), ALL, Millis(0))

    with pytest.raises(KafkaError) as raised:
        clients.ask(facts(), ALL, Millis(999))

    assert code_of(raised) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    clients.ask(facts(), ALL, Millis(1000))


def test_a_push_is_taken_after_asking_and_then_once_an_interval() -> None:
    clients = Clients()
    clients.ask(facts(), ALL, Millis(0))
    pushed(clients, 1)

    with pytest.raises(KafkaError) as raised:
        pushed(clients, 1000)

    assert code_of(raised) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    pushed(clients, 1001)


def test_a_push_of_an_old_subscription_is_told_to_ask_at_once() -> None:
    clients = Clients()
    clients.ask(facts(), ALL, Millis(0))

    with pytest.raises(KafkaError) as raised:
        pushed(clients, 1, subscription_id=1)

    assert code_of(raised) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    clients.ask(facts(), ALL, Millis(2))


def test_the_last_push_comes_whenever_the_client_ends_and_none_after_it() -> None:
    clients = Clients()
    clients.ask(facts(), ALL, Millis(0))
    pushed(clients, 1)
    pushed(clients, 2, terminating=True)

    with pytest.raises(KafkaError) as raised:
        pushed(clients, 2000)

    assert code_of(raised) is ErrorCode.INVALID_REQUEST


def test_a_client_without_an_id_cannot_push() -> None:
    with pytest.raises(KafkaError) as raised:
        Clients().admit(facts(ZERO_UUID), ALL, 1, Millis(0), terminating=False)

    assert code_of(raised) is ErrorCode.INVALID_REQUEST


# -- what came ---------------------------------------------------------------------------------------------------------
def test_the_newest_values_are_kept_and_deltas_add_up() -> None:
    clients = Clients()
    clients.ask(facts(), ALL, Millis(0))

    clients.take(ME, [Point("a", "", 1, False), Point("b", "x=1", 2, True)])
    clients.take(ME, [Point("a", "", 5, False), Point("b", "x=1", 3, True)])

    ((_, instance),) = clients.all(Millis(1))
    assert instance.values == {("a", ""): 5, ("b", "x=1"): 5}


def test_neither_clients_nor_their_metrics_grow_without_end() -> None:
    clients = Clients()
    for index in range(2, MOST_CLIENTS + 10):
        clients.ask(facts(UUID(int=index)), ALL, Millis(index))

    clients.take(UUID(int=MOST_CLIENTS), (Point(str(each), "", each, False) for each in range(MOST_METRICS + 5)))

    found = dict(clients.all(Millis(MOST_CLIENTS)))
    assert len(found) == MOST_CLIENTS
    assert UUID(int=2) not in found
    assert len(found[UUID(int=MOST_CLIENTS)].values) == MOST_METRICS


def test_clients_that_are_not_heard_of_any_more_are_forgotten() -> None:
    clients = Clients()
    clients.ask(facts(), ALL, Millis(0))

    assert len(list(clients.all(Millis(60_000)))) == 1
    assert not list(clients.all(Millis(60_001)))


def test_an_expression_that_backtracks_costs_no_more_than_others() -> None:
    client = replace(facts(), client_id="a" * 200)

    assert not wanted([parse({"metrics": "x.", "match": "client_id=(a+)+b"})], client).metrics


def test_an_expression_that_is_none_any_more_matches_nobody() -> None:
    assert not wanted([parse({"metrics": "x.", "match": "client_id=(?=shop).*"})], facts()).metrics
