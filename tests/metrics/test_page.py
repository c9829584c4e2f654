"""Pages are what Prometheus' own parser reads out of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from kompat.common.meters import LATENCIES, MOST_TOPICS, OTHER, Histogram, Meters
from kompat.metrics.catalogue import METRICS, markdown
from kompat.metrics.page import Page

DOCS = Path(__file__).parents[2] / "docs" / "operations.md"
TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=20)


def parsed(page: Page) -> dict[str, list[tuple[dict[str, str], float]]]:
    text = "\n".join(page.lines()) + "\n"
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


@settings(deadline=None)  # the first example pays for imports
@given(TEXTS, TEXTS, st.floats(allow_nan=False) | st.integers(-(2**53), 2**53))
def test_labels_and_values_come_out_as_they_went_in(api: str, error: str, value: float) -> None:
    page = Page()

    page.add("kompat_request_errors_total", value, api, error)

    assert parsed(page) == {"kompat_request_errors_total": [({"api": api, "error": error}, float(value))]}


@given(st.lists(st.floats(0, 100), max_size=50))
def test_a_histogram_counts_what_took_no_longer_than_each_bound(seconds: list[float]) -> None:
    histogram, page = Histogram(), Page()
    for each in seconds:
        histogram.took(each)

    page.add_histogram("kompat_sync_seconds", histogram)

    found = parsed(page)
    counts = {float(labels["le"]): count for labels, count in found["kompat_sync_seconds_bucket"]}
    assert counts == {bound: sum(each <= bound for each in seconds) for bound in (*LATENCIES, float("inf"))}
    assert found["kompat_sync_seconds_count"] == [({}, len(seconds))]
    assert found["kompat_sync_seconds_sum"] == [({}, pytest.approx(sum(seconds)))]


def test_more_series_than_there_may_be_are_left_out_and_counted() -> None:
    page = Page(most=3)

    for index in range(5):
        page.add("kompat_topic_log_bytes", index, f"topic-{index}")

    found = parsed(page)
    assert len(found["kompat_topic_log_bytes"]) == 3
    assert found["kompat_metrics_omitted_series"] == [({"metric": "kompat_topic_log_bytes"}, 2)]


def test_a_metric_that_is_not_in_the_catalogue_cannot_be_told() -> None:
    with pytest.raises(KeyError):
        Page().add("kompat_surprise", 1)


def test_names_follow_the_conventions_of_prometheus() -> None:
    for name, metric in METRICS.items():
        assert name.endswith("_total") == (metric.kind == "counter"), name
        assert metric.help.endswith("."), name


def test_topics_beyond_the_limit_are_counted_together_until_there_is_room_again() -> None:
    meters = Meters()
    first = meters.topic("topic-0")
    for index in range(1, MOST_TOPICS):
        meters.topic(f"topic-{index}")

    late = meters.topic("late")
    late.bytes_in += 7

    assert "late" not in meters.topics
    assert meters.topics[OTHER].bytes_in == 7
    meters.leave("topic-0", first)
    assert "topic-0" not in meters.topics
    assert meters.topic("later") is meters.topics["later"]


def test_the_documentation_has_every_metric() -> None:
    assert markdown() in DOCS.read_text(encoding="utf-8"), (
        "python -c 'from kompat.metrics.catalogue import markdown; print(markdown())'"
    )
