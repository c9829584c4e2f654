"""What is done in the console is done."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import expect

from interop_tests.support.browser import Tab
from interop_tests.support.shop import PARTITIONS, Shop
from interop_tests.support.wait import until

SECONDS = 60.0

REASON = "the warehouse has neither the box nor the ribbon that the customer asked for"


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
    expect(tab.row("retention.ms").first).to_contain_text("1 h")
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
    page.get_by_label("Trace this record").check()
    page.get_by_role("button", name="Produce", exact=True).click()
    expect(page.get_by_text("The record is delayed in partition 0")).to_be_visible()

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
    expect(page.get_by_role("figure", name="Delayed records by due time")).to_contain_text(
        "3 records"
    )  # within the hour
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
    page.get_by_role("dialog").get_by_label("Only redriven records").uncheck()
    page.get_by_role("dialog").get_by_role("button", name="Purge").click()
    expect(page.get_by_text("2 letters purged")).to_be_visible()
    assert shop.letters() == 0


def test_a_queues_record_is_taken_by_hand_and_put_back_acknowledged_or_given_up(tab: Tab, shop: Shop) -> None:
    address = "/v1/queues/orders/groups/billing"

    def left() -> int:
        told = shop.door.get(address)
        return int(told["available"] + told["backingOff"] + told["inFlight"])

    before, letters = left(), shop.letters()
    page = tab.open("queues", "orders", "billing")
    page.keyboard.press("t")
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("pre")).to_contain_text('"order"')
    assert shop.door.get(address)["inFlight"] == 4
    page.keyboard.press("Escape")
    expect(page.get_by_text("The record is released")).to_be_visible()
    assert shop.door.get(address)["inFlight"] == 3

    page.get_by_role("button", name="Acquire a record").click()
    dialog.get_by_label("Redeliver after").fill("1h")
    dialog.get_by_role("button", name="Release").click()
    tab.see_figure("Backing off", str(shop.door.get(address)["backingOff"]))
    assert left() == before
    page.get_by_role("button", name="Acquire a record").click()
    dialog.get_by_role("button", name="Acknowledge").click()
    expect(page.get_by_text("The record is acknowledged")).to_be_visible()
    assert left() == before - 1
    page.get_by_role("button", name="Acquire a record").click()
    dialog.get_by_role("button", name="Reject").click()
    until(lambda: shop.letters() == letters + 1, "it is a dead letter", seconds=SECONDS)


def test_letters_are_found_where_a_groups_settings_send_them_and_go_back_from_there(tab: Tab, shop: Shop) -> None:
    page = tab.open("groups", "packing", "settings")
    page.get_by_label("Search settings").fill("deadletterqueue")
    page.get_by_role("button", name="Change errors.deadletterqueue.topic.name").click()
    page.get_by_role("dialog").get_by_label("Value").fill("graveyard.of.<topic>")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(tab.row("errors.deadletterqueue.topic.name")).to_contain_text("graveyard.of.<topic>")
    [taken] = shop.door.post("/v1/queues/payments/groups/packing/acquire", {"waitMs": 10_000})["deliveries"]
    rejection = {"receipts": [taken["receipt"]], "reason": REASON}
    shop.door.post("/v1/queues/payments/groups/packing/reject", rejection)
    tab.open("dead-letters")
    expect(tab.row("graveyard.of.payments")).to_have_count(1)

    tab.open("queues", "payments", "packing")
    tab.see_figure("Dead letters", "1")
    page.get_by_role("link", name="1", exact=True).click()
    expect(page.locator("h1")).to_have_text("graveyard.of.payments")
    cause = page.locator("td.cause-cell")
    expect(cause).to_contain_text(REASON)
    assert cause.evaluate("cell => cell.scrollWidth <= cell.clientWidth"), "the cause is cut"
    place = f"payments/{taken['partition']}/{taken['offset']}"
    tab.settle()
    page.keyboard.press("j")
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text(place)
    page.keyboard.press("Escape")
    page.keyboard.press("Shift+R")
    page.get_by_role("dialog").get_by_role("button", name="Redrive").click()
    expect(page.get_by_text("1 letter redriven")).to_be_visible()
    expect(page.get_by_text("No dead-letter records")).to_be_visible()


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


def test_a_brokers_setting_is_changed_and_goes_back_to_its_default(tab: Tab, shop: Shop) -> None:
    def told() -> dict[str, Any]:
        [setting] = shop.door.get("/v1/cluster/configs?search=log.retention.ms")["items"]
        return dict(setting)

    page = tab.open("cluster")
    page.get_by_role("link", name="broker 1").click()
    expect(page.locator("h1")).to_have_text("Broker 1")
    tab.see_figure("Leads", f"{shop.door.get('/v1/cluster')['brokers'][0]['leads']:,}")
    page.get_by_label("Search settings").fill("log.retention.ms")
    for scope, source in (("broker 1", "DYNAMIC_BROKER_CONFIG"), ("all brokers", "DYNAMIC_DEFAULT_BROKER_CONFIG")):
        page.get_by_role("button", name="Change log.retention.ms").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Value").fill("7200000")
        expect(dialog).to_contain_text("2 h")
        dialog.get_by_label("Of", exact=True).select_option(label=scope)
        dialog.get_by_role("button", name="Save").click()
        expect(dialog).to_have_count(0)
        assert (told()["value"], told()["source"]) == ("7200000", source)
        page.get_by_role("button", name="Change log.retention.ms").click()
        dialog.get_by_label("Of", exact=True).select_option(label=scope)
        dialog.get_by_role("button", name="Reset to the default").click()
        expect(dialog).to_have_count(0)
        assert told()["isDefault"]
