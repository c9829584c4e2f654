"""What the console shows is true."""

from __future__ import annotations

import re

from confluent_kafka import Producer
from playwright.sync_api import Request, Route, expect

from interop_tests.support.browser import Tab
from interop_tests.support.shop import BIG, ORDERS, PARTITIONS, Shop, order
from interop_tests.support.wait import until

SECONDS = 60.0


def test_the_overview_tells_of_brokers_traffic_delays_and_letters(tab: Tab, shop: Shop) -> None:
    page = tab.open()

    tab.see_figure("Brokers", "1 of 1")
    tab.see_figure("Under-replicated", "0")
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
    shop.read("payments", 2)
    expect(page.get_by_role("figure", name=re.compile(r"Fetch latency: p50 [\d.]+ m?s"))).to_be_visible()


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
    expect(tab.row()).to_have_text([re.compile("order-41")])
    page.get_by_label("Key", exact=True).fill("")
    page.get_by_label("Search in values, keys and headers").fill(f'"sku": "A-{33}"')
    page.get_by_role("button", name="Find").click()
    expect(tab.row()).to_have_text([re.compile("order-33")])

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
    expect(page.get_by_text("No record matches")).to_be_visible()
    page.get_by_label("From time").fill("2001-01-01T00:00:00")
    page.get_by_label("From time").press("Enter")
    expect(tab.row()).to_have_count(50)
    page.get_by_role("button", name="Next").click()
    expect(tab.row()).to_have_count(ORDERS - 50)
    page.keyboard.press("p")
    expect(tab.row()).to_have_count(50)


def test_an_answer_that_comes_late_does_not_replace_a_newer_one(tab: Tab, shop: Shop) -> None:
    page = tab.open("topics", "orders", "messages")
    held: list[Route] = []
    ended: list[Request] = []
    page.on("requestfinished", lambda request: ended.append(request))
    page.on("requestfailed", lambda request: ended.append(request))
    page.route(re.compile(r"/messages\?.*fromTime=19"), lambda route: held.append(route))

    page.get_by_label("Begin").select_option("time")
    page.get_by_label("From time").fill("2031-01-01T00:00:00")
    page.get_by_label("From time").press("Enter")
    until(lambda: page.evaluate("1") and held, "the first request is on its way", seconds=SECONDS)
    page.get_by_label("From time").fill("2001-01-01T00:00:00")
    page.get_by_label("From time").press("Enter")
    expect(tab.row()).to_have_count(50)
    for route in held:
        route.continue_()
    late = {each.request for each in held}
    until(lambda: page.evaluate("1") and late <= set(ended), "the late ones have ended", seconds=SECONDS)

    page.get_by_role("button", name="Next").click()
    expect(tab.row()).to_have_count(ORDERS - 50)


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
    page.get_by_label("Trace id, message id, or topic/partition/offset").fill(told["traceId"])
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text(f"Trace {told['traceId']}")
    expect(page.get_by_text("orders/0/0").first).to_be_visible()
    tab.open("topics", "orders", "1", "1", "trace")
    expect(page.get_by_text("This record is not traced")).to_be_visible()
    tab.forgive("404 (Not Found)")
