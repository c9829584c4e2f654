"""Pushes as they come from clients: compressed or not, small or large, or nothing of the kind."""

from __future__ import annotations

from uuid import UUID

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
)

from kompat.clock import ManualClock
from kompat.errors import ErrorCode, KafkaError
from kompat.protocol.compression import compress
from kompat.telemetry.service import ACCEPTED, AT_ONCE, NONE, Telemetry
from kompat.telemetry.subscriptions import ClientFacts

ME = UUID(int=7)
FACTS = ClientFacts(
    instance_id=ME, client_id="c", software_name="s", software_version="1", address="127.0.0.1", port="5"
)


def payload(metrics: int) -> bytes:
    found = [
        Metric(name=f"metric-{index}", gauge=Gauge(data_points=[NumberDataPoint(as_int=index)]))
        for index in range(metrics)
    ]
    whole = MetricsData(resource_metrics=[ResourceMetrics(scope_metrics=[ScopeMetrics(metrics=found)])])
    return bytes(whole.SerializeToString())


def subscribed() -> tuple[Telemetry, int]:
    telemetry = Telemetry(ManualClock(), lambda: [{"metrics": "*"}], lambda: 1)
    return telemetry, telemetry.ask(FACTS).id_for(ME)


async def push(telemetry: Telemetry, subscription_id: int, codec: int, content: bytes) -> None:
    await telemetry.push(FACTS, subscription_id, codec, content, terminating=False, max_bytes=100_000)


@pytest.mark.parametrize("codec", [NONE, *ACCEPTED])
@pytest.mark.parametrize("metrics", [3, 400])
async def test_every_codec_is_read(codec: int, metrics: int) -> None:
    telemetry, subscription_id = subscribed()
    content = payload(metrics)
    assert (len(content) > AT_ONCE) == (metrics == 400)

    await push(telemetry, subscription_id, codec, bytes(compress(codec, content)) if codec else content)

    ((_, instance),) = telemetry.clients.all(ManualClock().now())
    assert instance.values == {(f"metric-{index}", ""): index for index in range(metrics)}
    assert telemetry.clients.pushes == 1


@pytest.mark.parametrize(
    ("codec", "content", "code"),
    [
        (NONE, b"x" * 100_001, ErrorCode.TELEMETRY_TOO_LARGE),
        (9, b"", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (NONE, b"\x0a\xff", ErrorCode.INVALID_RECORD),
        (4, b"no zstd", ErrorCode.INVALID_RECORD),
    ],
    ids=["too large", "a codec that there is not", "no metrics", "not compressed"],
)
async def test_what_cannot_be_taken_is_refused_and_counted(codec: int, content: bytes, code: ErrorCode) -> None:
    telemetry, subscription_id = subscribed()

    with pytest.raises(KafkaError) as raised:
        await push(telemetry, subscription_id, codec, content)

    assert raised.value.code is code
    assert telemetry.clients.refused == {code: 1}
    assert telemetry.clients.pushes == 0
    telemetry.ask(FACTS)  # at once: perhaps it was told something else since


async def test_a_push_of_nothing_is_fine() -> None:
    telemetry, subscription_id = subscribed()

    await push(telemetry, subscription_id, NONE, b"")

    assert telemetry.clients.pushes == 1


def test_a_changed_subscription_is_seen() -> None:
    settings, stamp = [{"metrics": "a."}], [1]
    telemetry = Telemetry(ManualClock(), lambda: settings, lambda: stamp[0])
    assert telemetry.ask(FACTS).metrics == ("a.",)

    settings[:], stamp[0] = [], 2

    assert telemetry.ask(FACTS).metrics == ()


def test_what_a_client_said_of_itself_goes_with_its_connection() -> None:
    telemetry, _ = subscribed()
    telemetry.greeted("c1", "librdkafka", "2")

    assert telemetry.software("c1") == ("librdkafka", "2")
    telemetry.left("c1")
    assert telemetry.software("c1") == ("", "")
