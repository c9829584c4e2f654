"""/docs in a real browser: it shows every route, sends requests, and asks nobody but the broker."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Page, expect, sync_playwright

from interop_tests.support.broker import Broker, external, running

pytestmark = pytest.mark.skipif(external() is not None, reason="the broker under test may have no HTTP door")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running(tmp_path_factory.mktemp("docs"), http=True) as started:
        yield started


@pytest.fixture
def page(broker: Broker) -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        yield browser.new_page()
        browser.close()


def test_every_route_is_shown_and_can_be_tried(broker: Broker, page: Page) -> None:
    complaints: list[str] = []
    hosts: set[str] = set()
    page.on(
        "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
    paths = httpx.get(f"{broker.http_url}/openapi.json", timeout=60).json()["paths"]

    page.goto(f"{broker.http_url}/docs")
    page.wait_for_selector("details")
    assert page.locator("details").count() == sum(map(len, paths.values()))

    page.fill("#search", "create a topic post /v1")
    chosen = page.locator("details:visible")
    assert chosen.count() == 1
    chosen.locator("summary").click()
    chosen.locator("textarea").fill('{"name": "tried"}')
    chosen.get_by_role("button", name="Send").click()
    expect(chosen.locator("pre").last).to_contain_text("201 Created", timeout=30_000)

    page.fill("#search", "group")
    for summary in page.locator("details:visible > summary").all()[:5]:
        summary.click()
    assert complaints == []
    assert hosts == {urlsplit(broker.http_url).netloc}
    assert httpx.get(f"{broker.http_url}/v1/topics/tried", timeout=30).status_code == 200
