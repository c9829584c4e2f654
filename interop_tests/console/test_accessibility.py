"""The console is for everybody: by keyboard, on phones, in dark and light, with a thousand topics, and whatever records hold."""

from __future__ import annotations

from confluent_kafka.admin import NewTopic
from playwright.sync_api import expect

from interop_tests.support.browser import SCHEMES, Tab
from interop_tests.support.shop import HOSTILE, Shop
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
    ("groups", "billing", "settings"),
    ("queues",),
    ("queues", "orders", "billing"),
    ("delayed",),
    ("dead-letters",),
    ("dead-letters", "dlq.orders"),
    ("traces",),
    ("transactions",),
    ("cluster",),
    ("cluster", "1"),
    ("security",),
)


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
    expect(page.get_by_text("No matching topics")).to_be_visible()

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


def test_nobody_says_that_brokers_are_up_while_none_can_be_reached(tab: Tab, shop: Shop) -> None:
    page = tab.open()
    expect(page.get_by_text("all brokers up")).to_be_visible()
    page.route("**/v1/**", lambda route: route.abort())
    page.route("**/version", lambda route: route.abort())

    expect(page.get_by_text("broker unreachable")).to_be_visible(timeout=60_000)
    expect(page.get_by_text("all brokers up")).to_have_count(0)
    page.unroute_all()
    expect(page.get_by_text("all brokers up")).to_be_visible(timeout=60_000)
    expect(page.get_by_text("broker unreachable")).to_have_count(0, timeout=60_000)
    tab.forgive("net::ERR_FAILED")
