"""The page of a trace report: all numbers are in it, it needs nothing else, and no name can break it."""

import json
import re
from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st

from spark.charts import bar_chart, line_chart
from spark.trace_report import COUNTS, MOST_PLOTTED, Numbers, StuckRecord, Summary, Times, page, table

START = 1_800_000_000_000


def numbers(topic: str = "orders", group: str | None = "workers", minute: int | None = None, **counts: int) -> Numbers:
    return Numbers(
        topic=topic,
        group=group,
        minute=minute,
        counts={name: counts.get(name, 0) for name in COUNTS},
        unmatched=0,
        dead_letter_rate=0.25 if counts.get("dead_lettered") else None,
        stages={"wait": Times(count=4, p50=10, p95=200, p99=250, max=300)},
    )


def summary(*totals: Numbers, stuck: int = 0) -> Summary:
    record = StuckRecord("orders", "workers", "delivered", "orders/0/7", "ab" * 16, START)
    return Summary(
        steps=40,
        bad=2,
        late=1,
        newest=START,
        window=60,
        totals=totals,
        minutes=[
            numbers(each.topic, each.group, START + n * 60_000, redelivered=n) for each in totals for n in range(3)
        ],
        stuck=[record] if stuck else [],
        stuck_count=stuck,
    )


class Checker(HTMLParser):
    """Elements are closed in the order in which they were opened; text and what else is loaded is noted."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def check(html: str) -> Checker:
    checker = Checker()
    checker.feed(html)
    checker.close()
    assert checker.open == []
    assert checker.loads == []
    return checker


def test_a_page_has_tables_plots_and_the_numbers() -> None:
    found = check(page(summary(numbers(dead_lettered=1, acknowledged=3), stuck=3)))

    for expected in ("25.00%", "orders/0/7", "And 2 more.", "Stuck records: 3", "orders · workers: wait"):
        assert expected in found.text
    embedded = re.search(r'id="numbers">(.*?)</script>', page(summary(numbers())))
    assert embedded is not None
    assert json.loads(embedded[1])["totals"][0]["stages"]["wait"]["p95"] == 200


@settings(max_examples=25)
@given(st.text(max_size=20), st.none() | st.text(max_size=20))
def test_no_name_breaks_a_page(topic: str, group: str | None) -> None:
    html = page(summary(numbers(topic, group)))

    check(html)
    embedded = re.search(r'id="numbers">(.*?)</script>', html, re.DOTALL)
    assert embedded is not None
    assert json.loads(embedded[1])["totals"][0]["topic"] == topic


def test_only_the_busiest_are_plotted_and_the_page_says_so() -> None:
    totals = [numbers(f"t{index}", delivered=index) for index in range(MOST_PLOTTED + 2)]

    text = check(page(summary(*totals))).text

    assert "t21 · workers: wait" in text
    assert "t1 · workers: wait" not in text
    assert "2 topics and groups" in text


def test_the_table_tells_each_stage() -> None:
    told = table(summary(numbers(dead_lettered=1, redelivered=2)))

    assert re.search(r"orders · workers +wait +4 +10 +200 +250 +300", told)
    assert "2 redelivered, 1 dead lettered, dead letters 25.00%" in told


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.integers(0, 10**13), st.integers(0, 10**9)), min_size=1, max_size=20, unique_by=lambda p: p[0]
    )
)
def test_points_lie_within_a_plot(points: list[tuple[int, int]]) -> None:
    for svg in (line_chart("a", {"b": points}, " ms"), bar_chart("a", {"b": points}, "", 60_000)):
        check(svg)
        for x in re.findall(r'(?:cx|x)="([-\d.]+)"', svg):
            assert 0 <= float(x) <= 640
        for y in re.findall(r'(?:cy|y)="([-\d.]+)"', svg):
            assert 0 <= float(y) <= 180
