"""A real browser on the console: what it shows, what it complains of, and whether everybody can use it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

CHROMIUM = "/usr/bin/chromium"
OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SECONDS = 20.0  # for the page to show what it should, on a busy machine
Scheme = Literal["dark", "light"]
SCHEMES: tuple[Scheme, ...] = ("dark", "light")

# What a person who cannot see, or point, or tell grey from grey, would stumble over.
STUMBLES = r"""
() => {
  const found = [];
  const say = (what, node) => found.push(`${what}: ${node.outerHTML.slice(0, 160)}`);
  const isSeen = (node) => node.checkVisibility({ visibilityProperty: true }) && node.getClientRects().length > 0;
  for (const node of document.querySelectorAll("input, select, textarea"))
    if (isSeen(node) && !node.labels?.length && !node.getAttribute("aria-label")) say("no label", node);
  for (const node of document.querySelectorAll("a[href], button"))
    if (isSeen(node) && !(node.getAttribute("aria-label") || node.innerText.trim())) say("no name", node);
  for (const node of document.querySelectorAll("table, nav, dialog[open], [role=figure]"))
    if (!node.getAttribute("aria-label") && !node.getAttribute("aria-labelledby")) say("no name", node);
  for (const node of document.querySelectorAll("img")) if (node.getAttribute("alt") === null) say("no alt", node);
  const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) found.push(`id twice: ${id}`);
  if (document.querySelectorAll("h1").length !== 1) found.push(`${document.querySelectorAll("h1").length} h1`);

  const parse = (text) => (text.match(/[\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)).reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const groundOf = (node) => {
    for (let each = node; each; each = each.parentElement) {
      const colour = parse(getComputedStyle(each).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  for (const node of document.querySelectorAll("body *")) {
    const hasText = [...node.childNodes].some((each) => each.nodeType === 3 && each.data.trim() !== "");
    if (!hasText || !isSeen(node) || node.closest("svg, :disabled, option, kbd, [aria-hidden=true], .skip")) continue;
    const [one, other] = [light(parse(getComputedStyle(node).color)), light(groundOf(node))].sort((a, b) => b - a);
    const contrast = (one + 0.05) / (other + 0.05);
    if (contrast < 4.5) say(`contrast ${contrast.toFixed(2)}`, node);
  }
  return found;
}
"""


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """One tab of the console."""

    def __init__(
        self, browser: Browser, url: str, *, width: int = 1280, height: int = 800, scheme: Scheme = "light"
    ) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, timezone_id="UTC", locale="en-GB"
        )
        self.context.set_default_timeout(SECONDS * 1000)
        expect.set_options(timeout=SECONDS * 1000)
        self.url = url
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self._forgiven: list[str] = []
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(f"dialog {dialog.message}"), dialog.dismiss()))

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.text} {message.location}")

    def open(self, *names: str, **query: Any) -> Page:
        """A page of the console, when it has loaded what it shows."""
        address = "/".join(_escape(name) for name in names)
        search = "&".join(f"{name}={_escape(str(value))}" for name, value in query.items())
        hash_ = f"#/{address}{'?' + search if search else ''}"
        self.page.goto(f"{self.url}/{hash_}")
        expect(self.page.locator("#page")).to_have_attribute("data-address", hash_)
        self.settle()
        return self.page

    def settle(self) -> None:
        expect(self.page.locator("#page[aria-busy]")).to_have_count(0)
        expect(self.page.locator("#page h1")).to_have_count(1)
        expect(self.page.locator("#page .loading")).to_have_count(0)

    def row(self, *texts: str) -> Any:
        """The row of a table that has all of these."""
        found = self.page.locator("#page tr[data-row]")
        for text in texts:
            found = found.filter(has_text=text)
        return found

    def named(self, name: str) -> Any:
        """The row of a table with a link of exactly this name."""
        link = self.page.get_by_role("link", name=name, exact=True)
        return self.page.locator("#page tr[data-row]").filter(has=link)

    def see_figure(self, name: str, value: str) -> None:
        expect(self._figure(name)).to_have_text(value)

    def shown(self, name: str) -> str:
        return str(self._figure(name).inner_text())

    def _figure(self, name: str) -> Any:
        """One of the figures at a page's top."""
        return self.page.locator(f".figure:has(dt:text-is({json.dumps(name)})) dd").first

    def stumbles(self) -> list[str]:
        return list(self.page.evaluate(STUMBLES))

    def is_too_wide(self) -> bool:
        return bool(self.page.evaluate("document.documentElement.scrollWidth > innerWidth"))

    def forgive(self, part: str) -> None:
        """What the browser says about this is what the test is about, or no mistake."""
        self._forgiven.append(part)

    def close(self) -> None:
        self.context.close()
        left = [each for each in self.complaints if not any(part in each for part in self._forgiven)]
        assert left == [], left


def _escape(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")
