"""What OpenTelemetry's own library writes is read as it was meant."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    AGGREGATION_TEMPORALITY_DELTA,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)

from kompat.errors import KafkaError
from kompat.telemetry.otlp import Point, points


def data(*metrics: Metric) -> bytes:
    return bytes(
        MetricsData(
            resource_metrics=[ResourceMetrics(scope_metrics=[ScopeMetrics(metrics=metrics)])]
        ).SerializeToString()
    )


def labels(**values: str) -> list[KeyValue]:
    return [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in values.items()]


@given(st.floats(allow_nan=False), st.integers(-(2**63), 2**63 - 1))
def test_gauges_and_sums(double: float, integer: int) -> None:
    payload = data(
        Metric(
            name="queue", gauge=Gauge(data_points=[NumberDataPoint(as_double=double, attributes=labels(b="2", a="1"))])
        ),
        Metric(
            name="sent",
            sum=Sum(
                data_points=[NumberDataPoint(as_int=integer)],
                aggregation_temporality=AGGREGATION_TEMPORALITY_CUMULATIVE,
                is_monotonic=True,
            ),
        ),
        Metric(
            name="more",
            sum=Sum(data_points=[NumberDataPoint(as_int=1)], aggregation_temporality=AGGREGATION_TEMPORALITY_DELTA),
        ),
    )

    assert list(points(payload)) == [
        Point("queue", "a=1,b=2", double, False),
        Point("sent", "", integer, False),
        Point("more", "", 1, True),
    ]


def test_of_a_histogram_how_many_and_how_much() -> None:
    histogram = Histogram(
        data_points=[HistogramDataPoint(count=3, sum=4.5, bucket_counts=[1, 2], explicit_bounds=[1.0])],
        aggregation_temporality=AGGREGATION_TEMPORALITY_CUMULATIVE,
    )

    assert list(points(data(Metric(name="time", histogram=histogram)))) == [
        Point("time.count", "", 3, False),
        Point("time.sum", "", 4.5, False),
    ]


@pytest.mark.parametrize("value", [AnyValue(bool_value=True), AnyValue(int_value=5), AnyValue(double_value=0.5)])
def test_attributes_need_not_be_text(value: AnyValue) -> None:
    point = NumberDataPoint(as_int=1, attributes=[KeyValue(key="k", value=value)])

    ((_, attributes, _, _),) = points(data(Metric(name="m", gauge=Gauge(data_points=[point]))))

    assert attributes in ("k=true", "k=5", "k=0.5")


@given(st.binary(max_size=200))
def test_anything_else_is_read_or_refused(payload: bytes) -> None:
    with contextlib.suppress(KafkaError):
        list(points(payload))


def test_a_payload_that_is_cut_off_is_refused() -> None:
    payload = data(Metric(name="queue", gauge=Gauge(data_points=[NumberDataPoint(as_double=1.0)])))

    with pytest.raises(KafkaError):
        list(points(payload[:-1]))
