"""HTTP where security is on: users of the cluster by name and password, and each may do what ACLs allow."""

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from prometheus_client.parser import text_string_to_metric_families

from interop_tests.support.broker import Broker, external, running
from interop_tests.support.topics import fresh_name
from interop_tests.support.wait import until

pytestmark = pytest.mark.skipif(external() is not None, reason="the broker under test is not ours to secure")

ADMIN = ("admin", "of all passwords: the longest")
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "kompat.bootstrap.scram": f"SCRAM-SHA-256=[name={ADMIN[0]},password={ADMIN[1]}]",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{ADMIN[0]}",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running(tmp_path_factory.mktemp("secure"), SETTINGS, http=True) as started:
        yield started


def ask(broker: Broker, auth: tuple[str, str] | None, method: str, path: str, body: Any = None) -> httpx.Response:
    return httpx.request(method, f"{broker.http_url}{path}", json=body, auth=auth, timeout=30)


@pytest.mark.parametrize(
    "auth",
    [None, ("admin", "wrong"), ("nobody", "of all passwords: the longest"), ("", "x")],
    ids=["none", "wrong", "unknown", "empty"],
)
def test_strangers_are_asked_who_they_are(broker: Broker, auth: tuple[str, str] | None) -> None:
    answer = ask(broker, auth, "GET", "/v1/topics")

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Basic ")
    assert answer.json()["type"] == "urn:kompat:problem:unauthenticated"


@pytest.mark.parametrize("header", ["Basic ???", "Basic " + "x" * 9000, "Bearer abc", "Basic YWRtaW4="])
def test_what_is_no_name_and_password_is_refused(broker: Broker, header: str) -> None:
    answer = httpx.get(f"{broker.http_url}/v1/topics", headers={"authorization": header}, timeout=30)

    assert answer.status_code == 401


def test_only_what_says_nothing_is_open_to_all(broker: Broker) -> None:
    assert ask(broker, None, "GET", "/health/live").status_code == 200
    for path in (
        "/version",
        "/metrics",
        "/v1/cluster",
        "/v1/statistics",
        "/v1/users",
        "/v1/groups",
        "/v1/cluster/raft",
    ):
        assert ask(broker, None, "GET", path).status_code == 401, path


def test_a_user_may_do_what_acls_allow_and_no_more(broker: Broker) -> None:
    name, topic = fresh_name("user"), fresh_name("acl")
    user = (name, "pencil")
    made = ask(broker, ADMIN, "POST", "/v1/users", {"name": name, "password": "pencil"})
    assert made.status_code == 201, made.text
    assert ask(broker, ADMIN, "POST", "/v1/topics", {"name": topic}).status_code == 201

    assert ask(broker, user, "GET", "/v1/topics").json()["items"] == []
    refused = {
        ("GET", f"/v1/topics/{topic}"): None,
        ("DELETE", f"/v1/topics/{topic}"): None,
        ("POST", "/v1/topics"): {"name": "other"},
        ("PATCH", f"/v1/topics/{topic}/configs"): {"set": {"retention.ms": "1"}},
        ("POST", f"/v1/topics/{topic}/truncate"): {"offsets": {"0": -1}},
        ("GET", "/v1/users"): None,
        ("POST", "/v1/users"): {"name": "admin", "password": "mine now"},
        ("GET", "/v1/acls"): None,
        ("GET", "/v1/quotas"): None,
        ("GET", "/v1/statistics"): None,
        ("GET", "/metrics"): None,
        ("GET", "/v1/cluster/raft"): None,
        ("GET", "/v1/cluster/configs"): None,
        ("GET", "/v1/groups/g"): None,
    }
    for (method, path), body in refused.items():
        answer = ask(broker, user, method, path, body)
        assert answer.status_code == 403, f"{method} {path}: {answer.status_code} {answer.text}"
        assert answer.json()["code"].endswith("_AUTHORIZATION_FAILED")

    acl = {"principal": f"User:{name}", "operation": "describe", "resourceType": "topic", "resourceName": topic}
    assert ask(broker, ADMIN, "POST", "/v1/acls", {"acls": [acl]}).status_code == 201
    until(lambda: ask(broker, user, "GET", f"/v1/topics/{topic}").status_code == 200, "the ACL counts")
    assert [t["name"] for t in ask(broker, user, "GET", "/v1/topics").json()["items"]] == [topic]
    [listed] = ask(broker, ADMIN, "GET", f"/v1/acls?principal=User:{name}").json()["items"]
    assert (listed["operation"], listed["resourceName"], listed["permission"]) == ("describe", topic, "allow")
    deleted = ask(broker, ADMIN, "DELETE", f"/v1/acls?principal=User:{name}").json()["deleted"]
    assert len(deleted) == 1
    until(lambda: ask(broker, user, "GET", f"/v1/topics/{topic}").status_code == 403, "it is gone")

    assert ask(broker, ADMIN, "DELETE", f"/v1/users/{name}").status_code == 204
    until(lambda: ask(broker, user, "GET", "/v1/topics").status_code == 401, "so is the user")


LARGE = {"messages": [{"value": "x" * 100_000}]}


@pytest.mark.parametrize(
    ("quota", "rate", "method", "body"),
    [
        ("producer_byte_rate", 18_000, "POST", LARGE),
        ("consumer_byte_rate", 18_000, "GET", None),
        ("request_percentage", 0.001, "GET", None),
    ],
)
def test_quotas_slow_down_who_comes_by_http(
    broker: Broker, quota: str, rate: float, method: str, body: dict[str, Any] | None
) -> None:
    topic = fresh_name("slow")
    assert ask(broker, ADMIN, "POST", "/v1/topics", {"name": topic}).status_code == 201
    assert ask(broker, ADMIN, "POST", f"/v1/topics/{topic}/messages", LARGE).status_code == 200
    before = metric(broker, "kompat_quota_throttle_seconds_total", quota=quota)
    assert ask(broker, ADMIN, "POST", "/v1/quotas", {"user": ADMIN[0], "set": {quota: rate}}).status_code == 204
    begun = time.monotonic()
    try:
        for _ in range(2):
            done = ask(broker, ADMIN, method, f"/v1/topics/{topic}/messages", body)
            assert done.status_code == 200, done.text
        took = time.monotonic() - begun
    finally:
        ask(broker, ADMIN, "POST", "/v1/quotas", {"user": ADMIN[0], "delete": [quota]})
    waited = metric(broker, "kompat_quota_throttle_seconds_total", quota=quota) - before
    assert waited > 0
    assert took > waited / 2  # the last request may have been told after its answer was there


def test_requests_and_refused_logins_are_counted(broker: Broker) -> None:
    refused = metric(broker, "kompat_failed_authentications_total", listener="HTTP")
    for _ in range(2):
        assert ask(broker, ("admin", "wrong"), "GET", "/v1/cluster/brokers/1").status_code == 401

    assert metric(broker, "kompat_failed_authentications_total", listener="HTTP") == refused + 2
    told = {"method": "GET", "route": "/v1/cluster/brokers/{broker}"}
    assert metric(broker, "kompat_http_requests_total", **told, status="401") == 2
    assert metric(broker, "kompat_http_request_seconds_count", **told) == 2


def test_refused_logins_on_kafkas_port_are_counted(broker: Broker) -> None:
    def refused() -> float:
        return metric(broker, "kompat_failed_authentications_total", listener="SASL_PLAINTEXT")

    before = refused()
    stranger = AdminClient(
        {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "admin",
            "sasl.password": "wrong",
            "log_level": 0,
        }
    )
    with pytest.raises(KafkaException):
        stranger.list_topics(timeout=2)
    until(lambda: refused() > before, "it is counted")


def metric(broker: Broker, name: str, **labels: str) -> float:
    """0 where there is none."""
    page = ask(broker, ADMIN, "GET", "/metrics").text
    samples = (sample for family in text_string_to_metric_families(page) for sample in family.samples)
    return sum(sample.value for sample in samples if sample.name == name and sample.labels == labels)


def user_with(broker: Broker, *rights: tuple[str, str, str]) -> tuple[str, str]:
    """A user who may do these operations on resources of a kind and a name."""
    name = fresh_name("user")
    assert ask(broker, ADMIN, "POST", "/v1/users", {"name": name, "password": "pencil"}).status_code == 201
    acls = [
        {"principal": f"User:{name}", "operation": operation, "resourceType": kind, "resourceName": resource}
        for operation, kind, resource in rights
    ]
    assert ask(broker, ADMIN, "POST", "/v1/acls", {"acls": acls}).status_code == 201
    return name, "pencil"


def test_queues_of_topics_that_a_user_may_not_know_of_are_not_listed(broker: Broker) -> None:
    topic, other, group = fresh_name("known"), fresh_name("secret"), fresh_name("group")
    user = user_with(broker, ("read", "group", group), ("read", "topic", topic))
    for each in (topic, other):
        assert ask(broker, ADMIN, "POST", "/v1/topics", {"name": each}).status_code == 201
        taken = ask(broker, ADMIN, "POST", f"/v1/queues/{each}/groups/{group}/acquire", {"waitMs": 0})
        assert taken.status_code == 200, taken.text

    everything = ask(broker, ADMIN, "GET", f"/v1/queues?search={group}").json()["items"]
    assert {each["topic"] for each in everything} == {topic, other}
    assert [each["topic"] for each in ask(broker, user, "GET", "/v1/queues").json()["items"]] == [topic]


def test_a_consumers_id_is_its_users_alone(broker: Broker) -> None:
    topic, mine, theirs = fresh_name("ids"), fresh_name("mine"), fresh_name("theirs")
    assert ask(broker, ADMIN, "POST", "/v1/topics", {"name": topic}).status_code == 201
    owner = user_with(broker, ("read", "group", mine), ("read", "topic", topic))
    other = user_with(broker, ("read", "group", theirs), ("describe", "group", mine), ("read", "topic", topic))

    def connect(user: tuple[str, str], group: str) -> httpx.Response:
        body = {"consumerID": "worker", "consumerGroup": group, "topics": [topic]}
        return ask(broker, user, "POST", "/connect", body)

    assert connect(owner, mine).status_code == 200
    unknown = ask(broker, other, "POST", "/healthCheck", {"consumerID": "worker"})
    assert unknown.status_code == 404, unknown.text
    assert connect(other, theirs).status_code == 200
    for user, group in ((owner, mine), (other, theirs)):
        alive = ask(broker, user, "POST", "/healthCheck", {"consumerID": "worker"})
        assert (alive.status_code, alive.json().get("consumer_group")) == (200, group), alive.text


def test_no_header_passes_an_acl_by_host(broker: Broker) -> None:
    topic, name = fresh_name("hosts"), fresh_name("user")
    assert ask(broker, ADMIN, "POST", "/v1/topics", {"name": topic}).status_code == 201
    assert ask(broker, ADMIN, "POST", "/v1/users", {"name": name, "password": "pencil"}).status_code == 201
    acl = {"principal": f"User:{name}", "operation": "describe", "resourceType": "topic", "resourceName": topic}
    assert ask(broker, ADMIN, "POST", "/v1/acls", {"acls": [{**acl, "host": "10.9.9.9"}]}).status_code == 201

    for headers in ({"x-forwarded-for": "10.9.9.9"}, {"forwarded": "for=10.9.9.9"}, {"x-real-ip": "10.9.9.9"}):
        answer = httpx.get(f"{broker.http_url}/v1/topics/{topic}", auth=(name, "pencil"), headers=headers, timeout=30)
        assert answer.status_code == 403
