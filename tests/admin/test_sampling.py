"""A sample a second: what was counted since the last, and how long requests took."""

import math
from bisect import bisect_left
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kompat.admin.routes.statistics import merged
from kompat.admin.sampling import SECONDS, Sample, Sampler, quantile
from kompat.clock import ManualClock
from kompat.common.meters import Histogram, Meters


async def test_a_sample_has_what_came_since_the_last() -> None:
    meters = Meters()
    sampler = Sampler(meters, ManualClock())
    topic = meters.topic("t")
    topic.records_in, topic.bytes_in = 10, 1000
    meters.api(0, "Produce").took(0.004)
    sampler.take()
    topic.records_in += 5
    sampler.take()
    meters.leave("t", topic)
    sampler.take()

    assert [sample.messages_in for sample in sampler.samples] == [10, 5, 0]
    assert [sample.produce_p50 is None for sample in sampler.samples] == [False, True, True]
    assert sampler.totals().requests == 1


async def test_only_the_last_minutes_are_kept() -> None:
    sampler = Sampler(Meters(), ManualClock())
    for _ in range(SECONDS + 10):
        sampler.take()

    assert len(sampler.samples) == SECONDS


@given(st.lists(st.floats(0, 9.9), min_size=1), st.sampled_from([0.5, 0.99]))
def test_a_quantile_is_no_less_than_so_many_were_and_within_their_bucket(seconds: list[float], share: float) -> None:
    histogram = Histogram()
    for each in seconds:
        histogram.took(each)

    found = quantile(histogram, histogram.buckets, share)

    exact = sorted(seconds)[math.ceil(share * len(seconds)) - 1]
    bucket = bisect_left(histogram.bounds, exact)
    assert found is not None
    assert 1000 * (0.0, *histogram.bounds)[bucket] <= found + 0.001
    assert found - 0.001 <= 1000 * histogram.bounds[bucket]


def sample(at: int, count: int, time: float | None) -> Sample:
    counters: Any = dict.fromkeys(
        ("messages_in", "messages_out", "bytes_in", "bytes_out", "requests", "errors", "connections"), count
    )
    times: Any = dict.fromkeys(("produce_p50", "produce_p99", "fetch_p50", "fetch_p99"), time)
    return Sample(at=at, **counters, **times)


def test_samples_of_several_brokers_are_added_by_the_second() -> None:
    found = list(merged([[sample(1000, 1, None), sample(2000, 2, 5.0)], [sample(2500, 3, 7.0)]]))

    assert [(each.at, each.messages_in, each.produce_p50) for each in found] == [(1000, 1, None), (2000, 5, 7.0)]
