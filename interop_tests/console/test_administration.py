"""What operators do in the console: users, ACLs, quotas, brokers, replicas."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from interop_tests.support.broker import external, running
from interop_tests.support.browser import Tab
from interop_tests.support.cluster import Cluster, cluster_of
from interop_tests.support.rest import Door
from interop_tests.support.wait import until

SECONDS = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if external() is not None:
        pytest.skip("the console is kompat's own")
    with cluster_of(tmp_path_factory.mktemp("cluster"), 3, http=True) as found:
        yield found


@pytest.fixture
def operator(browser: Browser, cluster: Cluster) -> Iterator[Tab]:
    """A tab on the second broker."""
    with contextlib.closing(Tab(browser, cluster.brokers[2].http_url)) as found:
        yield found


def test_where_security_is_on_people_sign_in_and_manage_users_acls_and_quotas(browser: Browser, tmp_path: Path) -> None:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
        "kompat.bootstrap.scram": "SCRAM-SHA-512=[name=admin,password=admin-secret]",
        "connection.failed.authentication.delay.ms": "1",
    }
    with (
        running(tmp_path / "secured", settings, http=True) as broker,
        contextlib.closing(Tab(browser, broker.http_url)) as tab,
    ):
        page = tab.page
        page.goto(f"{broker.http_url}/#/security")
        sign_in(page, "wrong")
        expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("wrong")
        sign_in(page, "admin-secret")
        expect(page.get_by_role("table", name="Users")).to_contain_text("admin")

        page.get_by_role("button", name="Add a user").click()
        page.get_by_role("dialog").get_by_label("User").fill("bob")
        page.get_by_role("dialog").get_by_label("Password").fill("bob-secret")
        page.get_by_role("dialog").get_by_role("button", name="Add").click()
        expect(page.get_by_role("table", name="Users")).to_contain_text("bob")
        page.get_by_role("button", name="Add an ACL").click()
        page.get_by_role("dialog").get_by_label("Principal").fill("User:bob")
        page.get_by_role("dialog").get_by_label("Resource name").fill("orders")
        page.get_by_role("dialog").get_by_label("Name is").select_option("prefixed")
        page.get_by_role("dialog").get_by_role("button", name="Add").click()
        expect(page.get_by_role("table", name="ACLs")).to_contain_text("User:bob")

        door = Door(broker.http_url)
        door.client.auth = ("bob", "bob-secret")
        door.get("/v1/topics")
        door.client.auth = ("admin", "admin-secret")
        [acl] = door.all("/v1/acls")
        assert (acl["principal"], acl["operation"], acl["resourceName"]) == ("User:bob", "read", "orders")
        page.get_by_role("button", name="Delete the ACL of User:bob").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete the ACL").click()
        expect(page.get_by_text("No ACLs")).to_be_visible()
        assert door.all("/v1/acls") == []

        page.get_by_role("button", name="Add a quota").click()
        page.get_by_role("dialog").get_by_label("For").select_option("both")
        page.get_by_role("dialog").get_by_label("User").fill("bob")
        page.get_by_role("dialog").get_by_label("Produced bytes per second").fill("1048576")
        page.get_by_role("dialog").get_by_label("Percent of a request thread").fill("50")
        page.get_by_role("dialog").get_by_role("button", name="Add").click()
        expect(tab.row("user bob", "default for every client")).to_contain_text("1 MiB/s")
        both = {"user": "bob", "clientId": None}
        values = {"producer_byte_rate": 1048576.0, "request_percentage": 50.0}
        assert door.all("/v1/quotas") == [{**both, "values": values}]
        page.get_by_role("button", name="Change the quota of user bob").click()
        page.get_by_role("dialog").get_by_label("Produced bytes per second").fill("2048")
        page.get_by_role("dialog").get_by_label("Percent of a request thread").fill("")
        page.get_by_role("dialog").get_by_role("button", name="Save").click()
        expect(tab.row("user bob", "default for every client")).to_contain_text("2 KiB/s")
        assert door.all("/v1/quotas") == [{**both, "values": {"producer_byte_rate": 2048.0}}]
        page.get_by_role("button", name="Delete the quota of user bob").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete the quota").click()
        expect(page.get_by_text("No quotas")).to_be_visible()
        assert door.all("/v1/quotas") == []
        door.close()

        page.reload()
        expect(page.get_by_role("table", name="Users")).to_contain_text("bob")  # still signed in
        page.get_by_title("Sign out").click()
        expect(page.get_by_role("dialog", name="Sign in")).to_be_visible()
        tab.forgive("401 (Unauthorized)")


def test_a_partition_moves_to_another_broker_and_its_lead_follows(cluster: Cluster, operator: Tab) -> None:
    topic = cluster.create("moved", 1, 2)
    [(_, before, _)] = cluster.partitions(topic)
    [other] = {1, 2, 3} - set(before)
    with contextlib.closing(Door(cluster.brokers[2].http_url)) as door:
        door.post("/v1/cluster/elect-leaders")
    until(lambda: cluster.leader(topic) == before[0], "the preferred one leads", seconds=SECONDS)
    page = operator.open("topics", topic)

    def replicas() -> list[int]:
        return cluster.partitions(topic)[0][1]

    page.get_by_role("button", name="Move partition 0").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Move")).to_be_disabled()
    dialog.get_by_label(f"Replica on broker {other}").check()
    dialog.get_by_label(f"Replica on broker {before[1]}").uncheck()
    expect(dialog.get_by_role("status")).to_have_text(f"2 replicas: adds broker {other}, removes broker {before[1]}.")
    dialog.get_by_role("button", name="Move").click()
    until(lambda: replicas() == [before[0], other], "it has moved", seconds=SECONDS)
    cluster.wait_in_sync(topic)

    operator.open("cluster")
    page.get_by_label("Search partitions").fill(topic)
    page.get_by_role("button", name=f"Move {topic} 0").click()
    dialog.get_by_label("Preferred leader").select_option(str(other))
    dialog.get_by_role("button", name="Move").click()
    until(lambda: replicas() == [other, before[0]], "another is preferred", seconds=SECONDS)
    page.get_by_role("button", name=f"Move {topic} 0").click()
    dialog.get_by_role("button", name=f"Elect broker {other}").click()
    expect(page.get_by_text(f"Broker {other} is elected leader")).to_be_visible()
    until(lambda: cluster.leader(topic) == other, "the preferred one leads", seconds=SECONDS)
    operator.forgive("503 (Service Unavailable)")  # while leads pass on


def test_a_broker_is_drained_and_used_again(cluster: Cluster, operator: Tab) -> None:
    topic = cluster.create("drained", 3, 2)
    page = operator.open("cluster", "3")
    page.get_by_role("button", name="Drain").click()
    page.get_by_role("dialog").get_by_role("button", name="Drain").click()
    expect(page.get_by_text("draining", exact=True)).to_be_visible()
    until(lambda: operator.shown("Replicas") == "0", "it has nothing any more", seconds=SECONDS)
    assert all(set(replicas) == {1, 2} for _, replicas, _ in cluster.partitions(topic))

    page.get_by_role("button", name="End the drain").click()
    expect(page.get_by_text("up", exact=True)).to_be_visible()
    operator.forgive("503 (Service Unavailable)")  # while leads pass on


def test_a_drain_that_cannot_end_says_why_and_what_helps(cluster: Cluster, operator: Tab) -> None:
    cluster.create("everywhere", 1, 3)
    page = operator.open("cluster", "3")
    page.get_by_role("button", name="Drain").click()
    page.get_by_role("dialog").get_by_role("button", name="Drain").click()

    expect(page.get_by_role("alert")).to_contain_text("Add a broker")
    page.get_by_role("button", name="End the drain").click()
    expect(page.get_by_text("up", exact=True)).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    operator.forgive("503 (Service Unavailable)")  # while leads pass on


def test_any_broker_shows_the_cluster_its_leaders_and_who_is_missing(cluster: Cluster, operator: Tab) -> None:
    topic, tab = cluster.create("spread", 6, 3), operator
    page = tab.open("cluster")
    tab.see_figure("Brokers", "3 of 3")
    tab.see_figure("Under-replicated", "0")
    with contextlib.closing(Door(cluster.brokers[2].http_url)) as door:
        told = {each["id"]: each["leads"] for each in door.get("/v1/cluster")["brokers"]}
    for broker, leads in told.items():
        expect(page.get_by_role("img", name=f"Broker {broker} leads {leads} partition")).to_be_visible()
    page.get_by_label("Search partitions").fill(topic)
    raft = page.get_by_role("table", name="Raft").locator("tr[data-row]")
    expect(raft).to_have_count(6)
    expect(raft.first).to_contain_text("broker ")
    tab.open()
    page.get_by_label("Charts of").select_option("cluster")
    expect(page.get_by_text("of all brokers", exact=True)).to_be_visible()
    expect(page.locator("line-chart path.line").first).to_be_attached()
    tab.open("topics", topic)
    tab.see_figure("Under-replicated", "0")

    cluster.brokers[3].kill()
    until(lambda: tab.shown("Under-replicated") == "6", "its replicas are missing", seconds=SECONDS)
    tab.open("cluster")
    tab.see_figure("Brokers", "2 of 3")
    until(lambda: int(tab.shown("Under-replicated")) >= 6, "its replicas are missing here, too", seconds=SECONDS)
    expect(page.get_by_role("table", name="Brokers").locator("tr[data-row]").nth(2)).to_contain_text("down")
    tab.forgive("503 (Service Unavailable)")  # while leads pass on


def sign_in(page: Page, password: str) -> None:
    dialog = page.get_by_role("dialog", name="Sign in")
    dialog.get_by_label("User").fill("admin")
    dialog.get_by_label("Password").fill(password)
    dialog.get_by_role("button", name="Sign in").click()
