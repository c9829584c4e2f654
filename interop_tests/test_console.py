"""The console in a real browser, on a real broker with real data: what it shows is true, and what is done there is done."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from playwright.sync_api import Browser, Page, expect

from interop_tests.support.broker import Broker, external, running
from interop_tests.support.browser import SCHEMES, Tab, chromium
from interop_tests.support.cluster import cluster_of
from interop_tests.support.rest import Door
from interop_tests.support.shop import BIG, HOSTILE, ORDERS, PARTITIONS, Shop, order
from interop_tests.support.wait import until

MANY = 1000
SECONDS = 60.0
PAGES = (
    (),
    ("topics",),
    ("topics", "orders"),
    ("topics", "orders", "messages"),
    ("topics", "orders", "produce"),
    ("topics", "reminders", "delayed"),
    ("topics", "orders", "settings"),
    ("topics", "orders", "0", "0", "trace"),
    ("groups",),
    ("groups", "audit"),
    ("queues",),
    ("queues", "orders", "billing"),
    ("delayed",),
    ("dead-letters",),
    ("dead-letters", "dlq.orders"),
    ("traces",),
    ("transactions",),
    ("cluster",),
    ("security",),
)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if external() is not None:
        pytest.skip("the console is kompat's own")
    with running(tmp_path_factory.mktemp("broker"), http=True) as broker:
        yield broker


@pytest.fixture(scope="module")
def door(started: Broker) -> Iterator[Door]:
    with contextlib.closing(Door(started.http_url)) as found:
        yield found


@pytest.fixture(scope="module")
def shop(started: Broker, door: Door) -> Iterator[Shop]:
    with contextlib.closing(Shop(started.bootstrap, door).make()) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def tab(browser: Browser, started: Broker) -> Iterator[Tab]:
    """One whose browser has nothing to complain of, whatever the test does in it."""
    with contextlib.closing(Tab(browser, started.http_url)) as found:
        yield found


# -- what is shown -----------------------------------------------------------------------------------------------------
def test_the_overview_tells_of_brokers_traffic_delays_and_letters(tab: Tab, shop: Shop) -> None:
    page = tab.open()

    tab.see_figure("Brokers", "1 of 1")
    tab.see_figure("Delayed", str(shop.door.get("/v1/delayed/statistics")["waiting"]))
    tab.see_figure("Dead letters", str(shop.letters()))
    producer = Producer({"bootstrap.servers": shop.bootstrap, "log_level": 0})
    chart = page.get_by_role("figure", name="Records per second")

    def is_seen() -> bool:
        producer.produce("payments", b"traffic", partition=0)
        producer.flush(SECONDS)
        told = re.search(r"in ([\d.]+)", chart.get_attribute("aria-label") or "")
        return told is not None and float(told[1]) > 0

    until(is_seen, "records that come in are seen in the chart", seconds=SECONDS)


def test_topics_and_partitions_show_what_the_broker_holds(tab: Tab, shop: Shop) -> None:
    page = tab.open("topics")
    expect(tab.named("orders").locator("td.number").nth(2)).to_have_text(str(ORDERS))

    tab.named("orders").get_by_role("link").click()

    expect(page.locator("h1")).to_have_text("orders")
    tab.see_figure("Partitions", str(PARTITIONS))
    tab.see_figure("Offsets", str(ORDERS))
    for partition in range(PARTITIONS):
        told = shop.door.get("/v1/topics/orders")["partitions"][partition]
        cells = page.get_by_role("table", name="Partitions").locator("tbody tr").nth(partition).locator("td")
        expect(cells.nth(1)).to_have_text("broker 1")
        expect(cells.nth(6)).to_have_text(str(told["endOffset"]))


def test_records_are_found_by_offset_key_time_and_text_and_shown_whole(tab: Tab, shop: Shop) -> None:
    page = tab.open("topics", "orders", "messages", partition=1, offset=5)
    expect(tab.row().first).to_contain_text("order-16")

    page.get_by_label("Begin").select_option("newest")
    expect(tab.row().first).to_contain_text(f"order-{ORDERS - 2}")
    page.get_by_label("Partition").select_option("")
    page.get_by_label("Key", exact=True).fill("order-41")
    page.keyboard.press("Enter")
    expect(tab.row()).to_have_count(1)
    page.get_by_label("Key", exact=True).fill("")
    page.get_by_label("Search in values, keys and headers").fill(f'"sku": "A-{33}"')
    page.get_by_role("button", name="Find").click()
    expect(tab.row()).to_have_count(1)

    tab.row("order-33").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("pre")).to_contain_text(f'"order": {BIG + 33}')  # not as a double would have it
    dialog.get_by_role("button", name="Text").click()
    expect(dialog.locator("pre")).to_have_text(order(33))
    expect(dialog.get_by_role("table", name="Headers")).to_contain_text("source")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)

    page.get_by_label("Search in values, keys and headers").fill("")
    page.get_by_label("Begin").select_option("time")
    page.get_by_label("From time").fill("2031-01-01T00:00:00")
    page.get_by_label("From time").press("Enter")
    expect(page.get_by_text("No record is like that")).to_be_visible()
    page.get_by_label("From time").fill("2001-01-01T00:00:00")
    page.get_by_label("From time").press("Enter")
    expect(tab.row()).to_have_count(50)
    page.get_by_role("button", name="Next").click()
    expect(tab.row()).to_have_count(ORDERS - 50)
    page.keyboard.press("p")
    expect(tab.row()).to_have_count(50)


def test_bytes_that_are_no_text_are_shown_as_numbers_and_tombstones_as_such(tab: Tab, shop: Shop) -> None:
    page = tab.open("topics", "payments", "messages", partition=0, offset=0)

    expect(tab.row().first).to_contain_text("0xff00")
    tab.row().first.get_by_role("button").click()
    expect(page.get_by_label("Value as Hex")).to_contain_text(
        "000000  f0 f1 f2 f3 f4 f5 f6 f7  f8 f9 fa fb fc fd fe ff"
    )
    tab.open("topics", "payments", "messages", partition=1)
    expect(tab.row().first).to_contain_text("tombstone")


def test_records_are_seen_as_they_come(tab: Tab, shop: Shop) -> None:
    page = tab.open("topics", "payments", "messages")
    page.get_by_role("button", name="Live").click()
    expect(page.get_by_text("live", exact=True)).to_be_visible()

    shop.door.send("payments", {"key": "now", "value": "just came", "partition": 0})
    expect(tab.row("just came")).to_have_count(1)
    page.get_by_label("Partition").select_option("1")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    shop.door.send("payments", {"value": "elsewhere", "partition": 0}, {"value": "just here", "partition": 1})
    expect(tab.row("just here")).to_have_count(1)
    expect(tab.row()).to_have_count(1)
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_label("Begin")).to_be_visible()


def test_a_groups_lag_and_members_are_true_and_sampled_over_time(tab: Tab, shop: Shop) -> None:
    tab.open("groups")
    expect(tab.row("audit")).to_contain_text("audit")
    page = tab.open("groups", "audit")

    told = shop.door.get("/v1/groups/audit")
    assert told["lag"] is not None
    tab.see_figure("Lag", f"{told['lag']:,}")
    tab.see_figure("Members", "1")
    expect(page.get_by_role("table", name="Members")).to_contain_text("audit-1")
    expect(page.get_by_role("table", name="Offsets").locator("tbody tr").filter(has_text="10").first).to_contain_text(
        "orders"
    )
    expect(page.locator("line-chart path.line").first).to_be_attached()  # a line: it was sampled twice at least


def test_a_queues_depth_by_class_flight_and_deliveries_are_true(tab: Tab, shop: Shop) -> None:
    tab.open("queues")
    tab.row("billing").get_by_role("link", name="billing").click()

    told = shop.door.get("/v1/queues/orders/groups/billing")
    assert told["inFlight"] == 3
    tab.see_figure("In flight", "3")
    tab.see_figure("Available", str(told["available"]))
    tab.see_figure("Dead letters", "2")
    for level, count in told["depthByClass"].items():
        expect(tab.page.get_by_role("img", name=f"Class {level}: {count} record")).to_be_visible()
    expect(tab.page.get_by_role("img", name="1: 3 records")).to_be_visible()


def test_a_records_story_is_one_click_from_the_record(tab: Tab, shop: Shop) -> None:
    page = tab.open("topics", "orders", "messages", partition=0, offset=0)
    tab.row("order-0").first.locator("td").last.click()
    page.get_by_role("dialog").get_by_role("link", name="Trace").click()

    expect(page.locator("h1")).to_have_text("Trace of 0/0")
    told = shop.door.get("/v1/topics/orders/partitions/0/messages/0/trace")
    expect(page.get_by_role("list", name="Events").get_by_role("listitem")).to_have_count(len(told["events"]))
    expect(page.get_by_role("list", name="Events")).to_contain_text("Produced")
    expect(page.get_by_role("list", name="Stages").get_by_label(re.compile("^publish: "))).to_be_visible()

    tab.open("traces")
    page.get_by_label("A trace's id, a message's id, or topic/partition/offset").fill(told["traceId"])
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text(f"Trace {told['traceId']}")
    expect(page.get_by_text("orders/0/0").first).to_be_visible()
    tab.open("topics", "orders", "1", "1", "trace")
    expect(page.get_by_text("This record is not traced")).to_be_visible()
    tab.forgive("404 (Not Found)")


# -- what is done ------------------------------------------------------------------------------------------------------
def test_a_topic_is_made_configured_grown_and_deleted(tab: Tab, shop: Shop) -> None:
    page = tab.open("topics")
    page.keyboard.press("c")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("made here")
    dialog.get_by_role("button", name="Create").click()
    assert dialog.get_by_label("Name").evaluate("node => !node.validity.valid")
    dialog.get_by_label("Name").fill("made.here")
    dialog.get_by_label("Partitions").fill("2")
    dialog.get_by_label("Clean up").select_option("compact")
    dialog.get_by_role("button", name="Create").click()

    expect(page.locator("h1")).to_have_text("made.here")
    assert shop.door.get("/v1/topics/made.here")["configs"] == {"cleanup.policy": "compact"}

    page.get_by_role("button", name="Add partitions").click()
    page.get_by_role("dialog").get_by_label("Partitions").fill("4")
    page.get_by_role("dialog").get_by_role("button", name="Add").click()
    tab.see_figure("Partitions", "4")

    page.get_by_role("link", name="Settings").click()
    page.get_by_label("Search settings").fill("retention.ms")
    page.get_by_role("button", name="Change retention.ms", exact=True).click()
    value = page.get_by_role("dialog").get_by_label("Value")
    value.fill("soon")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("retention.ms")
    value.fill("3600000")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(tab.row("retention.ms").first).to_contain_text("3600000")
    assert shop.door.get("/v1/topics/made.here")["configs"]["retention.ms"] == "3600000"
    tab.forgive("400 (Bad Request)")

    page.get_by_role("link", name="Partitions", exact=True).click()
    page.get_by_role("button", name="Delete", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Delete the topic")).to_be_disabled()
    dialog.get_by_role("textbox").fill("made.here")
    dialog.get_by_role("button", name="Delete the topic").click()
    expect(page.locator("h1")).to_have_text("Topics")
    shop.door.get("/v1/topics/made.here", status=404)


def test_what_the_form_sends_a_kafka_client_gets_when_it_is_due_with_its_priority(tab: Tab, shop: Shop) -> None:
    page = tab.open("topics", "reminders", "produce")
    page.get_by_label("Key", exact=True).fill("from-the-form")
    page.get_by_label("Value", exact=True).fill('{"tea": "ready"}')
    page.get_by_label("Value is").select_option("json")
    page.get_by_role("button", name="Add a header").click()
    page.get_by_label("Name of header 1").fill("who")
    page.get_by_label("Value of header 1").fill("a person")
    page.get_by_label("Priority").select_option("high")
    page.get_by_label("Deliver", exact=True).select_option("delay")
    page.get_by_label("Delay", exact=True).fill("1s")
    page.get_by_label("Time to live").fill("1h")
    page.get_by_label("Trace it").check()
    page.get_by_role("button", name="Produce", exact=True).click()
    expect(page.get_by_text("Waits in partition 0")).to_be_visible()

    def arrived() -> list[Any]:
        return [each for each in shop.read("reminders") if each.key() == b"from-the-form"]

    [message] = until(arrived, "the record is due", seconds=SECONDS)
    headers = dict(message.headers())
    assert message.value() == b'{"tea": "ready"}'
    assert headers["kompat-priority"] == b"high"
    assert headers["who"] == b"a person"
    assert headers["kompat-ttl-ms"] == b"3600000"
    assert message.timestamp()[1] >= int(headers["kompat-original-timestamp"]) + 1000
    page.get_by_role("link", name="Trace", exact=True).click()
    expect(page.get_by_role("list", name="Stages").get_by_label(re.compile("^park: "))).to_be_visible()


def test_a_form_says_what_is_wrong(tab: Tab, shop: Shop) -> None:
    page = tab.open("topics", "reminders", "produce")
    page.get_by_label("Value", exact=True).fill("hello")
    page.get_by_label("Deliver", exact=True).select_option("delay")
    page.get_by_label("Delay", exact=True).fill("a while")
    page.get_by_role("button", name="Produce", exact=True).click()

    expect(page.get_by_role("alert")).to_contain_text("delay")
    tab.forgive("400 (Bad Request)")


def test_a_delayed_record_is_cancelled_and_another_one_moved(tab: Tab, shop: Shop) -> None:
    before = shop.door.all("/v1/topics/reminders/delayed")
    page = tab.open("delayed")
    page.get_by_role("button", name="reminders").click()
    expect(page.get_by_role("figure", name="What is due")).to_contain_text("3 records")  # within the hour
    expect(page.get_by_role("table", name="Delayed records", exact=True).locator("tbody tr")).to_have_count(len(before))
    slot = {each["key"]: each["offset"] for each in before}

    page.get_by_role("button", name=f"Cancel 0/{slot['tea-0']}").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the record").click()
    expect(page.get_by_role("button", name=f"Cancel 0/{slot['tea-0']}")).to_have_count(0)
    page.get_by_role("button", name=f"Reschedule 0/{slot['tea-1']}").click()
    page.get_by_role("dialog").get_by_label("Deliver").select_option("delay")
    page.get_by_role("dialog").get_by_label("Delay").fill("1ms")
    page.get_by_role("dialog").get_by_role("button", name="Move").click()

    def delivered() -> list[bytes]:
        return [each.key() for each in shop.read("reminders") if each.key().startswith(b"tea-")]

    assert until(delivered, "it is due now", seconds=SECONDS) == [b"tea-1"]
    left = {each["key"] for each in shop.door.all("/v1/topics/reminders/delayed")}
    assert left == slot.keys() - {"tea-0", "tea-1"}


def test_dead_letters_go_back_where_they_come_from(tab: Tab, shop: Shop) -> None:
    page = tab.open("dead-letters")
    tab.row("dlq.orders").get_by_role("link").click()
    expect(page.locator("h1")).to_have_text("dlq.orders")
    expect(tab.row()).to_have_count(2)
    partition, offset = shop.rejected[0]
    expect(tab.row(f"orders/{partition}/{offset}")).to_contain_text("billing")
    count = len(shop.read("orders", PARTITIONS))

    tab.row(f"orders/{partition}/{offset}").get_by_role("checkbox").check()
    page.get_by_role("button", name="Redrive 1").click()
    page.get_by_role("dialog").get_by_role("button", name="Redrive").click()
    expect(page.get_by_text("1 letter redriven")).to_be_visible()

    expect(tab.row()).to_have_count(1)
    found = shop.read("orders", PARTITIONS)
    [redriven] = [each for each in found if "kompat-redrive-count" in dict(each.headers() or [])]
    [origin] = [each for each in found if (each.partition(), each.offset()) == (partition, offset)]
    assert (redriven.partition(), redriven.key(), redriven.value()) == (partition, origin.key(), origin.value())
    assert len(found) == count + 1

    page.get_by_role("button", name="Purge").click()
    page.get_by_role("dialog").get_by_label("Only those that were redriven").uncheck()
    page.get_by_role("dialog").get_by_role("button", name="Purge").click()
    expect(page.get_by_text("2 letters purged")).to_be_visible()
    assert shop.letters() == 0


def test_offsets_are_reset_as_the_preview_says(tab: Tab, shop: Shop) -> None:
    page = tab.open("groups", "nightly")
    page.get_by_role("button", name="Reset offsets").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("To", exact=True).select_option("offset")
    dialog.get_by_label("Offset").fill("7")
    dialog.get_by_role("button", name="Preview").click()
    plan = dialog.get_by_role("table", name="What would change").locator("tbody tr")
    expect(plan).to_have_count(PARTITIONS)
    assert set(shop.committed("nightly", "orders").values()) == {0}

    dialog.get_by_role("button", name="Reset").click()
    expect(dialog).to_have_count(0)
    assert set(shop.committed("nightly", "orders").values()) == {7}


def test_an_open_transaction_is_seen_and_aborted(tab: Tab, shop: Shop) -> None:
    page = tab.open("transactions")
    expect(tab.row("copy-1")).to_contain_text("Ongoing")
    tab.row("copy-1").get_by_role("button").click()
    expect(page.get_by_role("dialog")).to_contain_text("work.items 0")
    page.get_by_role("dialog").get_by_role("button", name="Abort").click()
    page.get_by_role("dialog").get_by_role("button", name="Abort the transaction").click()

    expect(tab.row("copy-1")).to_contain_text("Empty")


# -- for everybody -----------------------------------------------------------------------------------------------------
def test_what_a_record_holds_never_becomes_part_of_the_page(tab: Tab, shop: Shop) -> None:
    page = tab.open("topics", "hostile", "messages", partition=0, offset=0)
    expect(tab.row().first).to_contain_text("<img src=x")
    tab.row().first.locator("td").last.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("pre")).to_have_text(HOSTILE)
    expect(dialog.get_by_role("table", name="Headers").locator("td").first).to_have_text(HOSTILE)
    page.keyboard.press("Escape")
    tab.row("json").get_by_role("button").click()
    expect(dialog.locator("pre .json-name").first).to_contain_text("<img src=x")
    dialog.get_by_role("link", name="Produce again").click()
    expect(page.get_by_label("Key", exact=True)).to_have_value("json")
    tab.open("topics", HOSTILE)
    expect(page.get_by_role("alert")).to_be_visible()
    tab.open("topics", search=HOSTILE)
    expect(page.get_by_text("No topic has this in its name")).to_be_visible()

    assert page.evaluate("window.hurt") is None
    assert page.locator("#page img, #page script, dialog img, dialog script").count() == 0
    policy = shop.door.client.get("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.evaluate("try { document.body.innerHTML = '<b></b>'; false } catch (error) { true }")
    tab.forgive("TrustedHTML")
    tab.forgive("/v1/topics/%3Cimg")


def test_the_keyboard_is_enough(tab: Tab, shop: Shop) -> None:
    page = tab.open()
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page.locator("h1")).to_have_text("Topics")
    tab.settle()
    page.keyboard.press("/")
    expect(page.get_by_label("Search topics")).to_be_focused()
    page.keyboard.type("remin")
    expect(tab.row()).to_have_count(1)
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="reminders")).to_be_focused()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("reminders")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_contain_text("Messages of this topic")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("m")
    expect(page.get_by_label("Begin")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("c")
    expect(page.locator("h1")).to_have_text("Cluster")
    page.keyboard.press("b")
    expect(page.locator("h1")).to_have_text("reminders")


def test_every_page_can_be_read_and_used_by_everybody_and_fits_on_a_phone(tab: Tab, shop: Shop) -> None:
    for names in PAGES:
        page = tab.open(*names)
        assert page.locator("#page .problem").count() == 0, names
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            expect(page.locator("html")).to_have_attribute("data-theme", scheme)
            assert tab.stumbles() == [], names
        for width in (320, 414, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            assert not tab.is_too_wide(), (names, width)
    tab.open("topics", "orders", "messages")
    tab.row().first.get_by_role("button").click()
    assert tab.stumbles() == []
    tab.forgive("/v1/acls")  # security is off


def test_the_theme_stays_as_it_was_chosen_and_the_menu_of_a_phone_opens(tab: Tab, shop: Shop) -> None:
    page = tab.open("groups")
    page.get_by_role("button", name="Dark theme").click()
    page.reload()
    tab.settle()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.keyboard.press("Shift+D")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"

    page.set_viewport_size({"width": 360, "height": 700})
    sections = page.get_by_role("navigation", name="Sections")
    expect(sections).not_to_be_visible()
    page.get_by_role("button", name="Menu").click()
    sections.get_by_role("link", name="Topics").click()
    expect(page.locator("h1")).to_have_text("Topics")
    expect(sections).not_to_be_visible()


def test_a_thousand_topics_are_at_hand_and_few_of_them_drawn(tab: Tab, shop: Shop) -> None:
    names = [f"tenant-{number:04}" for number in range(MANY)]
    for future in shop.admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        future.result(SECONDS)
    page = tab.open("topics")
    table = page.get_by_role("table", name="Topics")
    until(lambda: int(table.get_attribute("aria-rowcount") or 0) > MANY, "all are there", seconds=SECONDS)
    assert tab.row().count() < 100

    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    expect(page.get_by_role("link", name="work.items")).to_be_visible()
    assert tab.row().count() < 100
    page.get_by_label("Search topics").fill("tenant-0777")
    expect(tab.row()).to_have_count(1)
    page.get_by_label("Search topics").fill("")
    page.get_by_role("button", name="Records").click()
    fullest = max(shop.door.all("/v1/topics", limit=1000), key=lambda each: each["records"])
    expect(tab.row().first).to_contain_text(fullest["name"])


def test_a_broker_that_is_gone_is_said_to_be(tab: Tab, shop: Shop) -> None:
    page = tab.open("groups")
    page.route("**/v1/**", lambda route: route.abort())
    page.route("**/version", lambda route: route.abort())

    expect(page.get_by_role("alert")).to_contain_text("The broker cannot be reached")
    expect(tab.row("audit")).to_have_count(1)  # what was there still is
    page.unroute_all()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert")).to_have_count(0)
    tab.forgive("net::ERR_FAILED")


def test_where_security_is_on_people_sign_in_and_manage_users_and_acls(browser: Browser, tmp_path: Path) -> None:
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
        page.get_by_role("dialog").get_by_label("Named").fill("orders")
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
        door.close()

        page.reload()
        expect(page.get_by_role("table", name="Users")).to_contain_text("bob")  # still signed in
        page.get_by_title("Sign out").click()
        expect(page.get_by_role("dialog", name="Sign in")).to_be_visible()
        tab.forgive("401 (Unauthorized)")


def test_any_broker_shows_the_cluster_its_leaders_and_who_is_missing(browser: Browser, tmp_path: Path) -> None:
    with (
        cluster_of(tmp_path / "cluster", 3, http=True) as cluster,
        contextlib.closing(Tab(browser, cluster.brokers[2].http_url)) as tab,
    ):
        topic = cluster.create("spread", 6, 3)
        page = tab.open("cluster")
        tab.see_figure("Brokers", "3 of 3")
        door = Door(cluster.brokers[2].http_url)
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
        expect(page.get_by_role("table", name="Brokers").locator("tr[data-row]").nth(2)).to_contain_text("down")
        door.close()
        tab.forgive("503 (Service Unavailable)")  # while leads pass on


def sign_in(page: Page, password: str) -> None:
    dialog = page.get_by_role("dialog", name="Sign in")
    dialog.get_by_label("User").fill("admin")
    dialog.get_by_label("Password").fill(password)
    dialog.get_by_role("button", name="Sign in").click()
