"""Traces as spans, by the real exporter to a real receiver."""

import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from kompat.broker import Broker
from kompat.cluster.requests import NewTopic
from kompat.config.broker import BrokerConfig
from kompat.errors import ConfigError
from kompat.extensions.tracing.events import Happening, Kind, PartitionLabel, RecordTrace, TraceEvent, details
from kompat.extensions.tracing.otlp import OtlpExport
from kompat.extensions.tracing.spans import Stages, StageSpan
from kompat.protocol.records import Record, build_batch
from kompat.types import Millis

TRACE = bytes.fromhex("4bf92f3577b34da6a3ce929d0e0e4736")
PARENT = bytes.fromhex("00f067aa0ba902b7")
BEGUN = 1_700_000_000_000


class Receiver:
    """An OTLP collector over HTTP, as far as traces go."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Not told."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/v1/traces"

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    started = Receiver()
    yield started
    started.close()


def happened(kind: Kind, after: int, trace: RecordTrace, **more: str | int) -> bytes:
    [value] = Happening(
        kind, Millis(BEGUN + after), PartitionLabel("orders", 2), [(5, trace)], details(**more)
    ).values()
    return value


def exported(receiver: Receiver, *values: bytes) -> list[Span]:
    export = OtlpExport(receiver.endpoint, node_id=3, version="1.2")
    export.start()
    export.show(values)
    export.close()
    assert export.dropped == 0
    return receiver.spans


def times(span: Span) -> tuple[int, int]:
    million = 1_000_000
    return span.start_time_unix_nano // million - BEGUN, span.end_time_unix_nano // million - BEGUN


def test_each_stage_is_a_span_under_the_producers(receiver: Receiver) -> None:
    trace = RecordTrace(TRACE, "orders/2/5", PARENT, "m-1")
    spans = exported(
        receiver,
        happened(Kind.PRODUCED, 0, trace, client_id="shop"),
        happened(Kind.REPLICATED, 2, trace),
        happened(Kind.PARKED, 2, trace, due=BEGUN + 100),
        happened(Kind.FIRED, 101, trace, to_topic="orders", to_partition=2, to_offset=9),
        happened(Kind.DELIVERED, 110, trace, group="g", member_id="m", delivery_count=1),
        happened(Kind.REJECTED, 150, trace, group="g", member_id="m"),
        happened(Kind.DEAD_LETTERED, 153, trace, group="g", reason="rejected"),
    )

    assert [(span.name, times(span)) for span in spans] == [
        ("orders publish", (0, 2)),
        ("orders park", (2, 101)),
        ("orders wait", (101, 110)),
        ("orders process", (110, 150)),
        ("orders dead letter", (150, 153)),
    ]
    assert {(span.trace_id, span.parent_span_id) for span in spans} == {(TRACE, PARENT)}
    assert len({span.span_id for span in spans}) == 5
    failed = [span.status.code == Status.StatusCode.STATUS_CODE_ERROR for span in spans]
    assert failed == [False, False, False, True, True]
    told = {each.key: each.value.string_value or each.value.int_value for each in spans[3].attributes}
    assert told["messaging.destination.name"] == "orders"
    assert told["messaging.kafka.offset"] == 5
    assert told["messaging.consumer.group.name"] == "g"
    assert told["messaging.message.id"] == "m-1"
    [resource] = {request.resource_spans[0].resource.SerializeToString() for request in receiver.requests}
    assert b"kompat" in resource


def test_a_record_without_a_context_has_a_root_of_its_own(receiver: Receiver) -> None:
    trace = RecordTrace(TRACE, "orders/2/5")
    values = [
        happened(kind, after, trace) for after, kind in enumerate((Kind.PRODUCED, Kind.REPLICATED, Kind.DELIVERED))
    ]

    publish, wait = exported(receiver, *values)

    assert (publish.trace_id, publish.parent_span_id) == (TRACE, b"")
    assert (wait.trace_id, wait.parent_span_id) == (TRACE, publish.span_id)


@pytest.mark.slow
def test_a_collector_that_is_gone_stops_nobody() -> None:
    receiver = Receiver()
    receiver.close()
    export = OtlpExport(receiver.endpoint, node_id=3, version="1.2")
    for _ in range(1005):
        export.show([happened(Kind.COMMITTED_PAST, 1, RecordTrace(TRACE, "orders/2/5")), b"rubbish"])
    assert export.dropped == 10  # nobody takes them yet

    export.start()
    export.close()


def told(event: str, at: int, group: str | None = None) -> TraceEvent:
    return TraceEvent(
        event=event,
        timestamp=at,
        trace_id=TRACE.hex(),
        record="orders/2/5",
        topic="orders",
        partition=2,
        offset=5,
        group=group,
    )


def spans_of(*events: TraceEvent) -> list[StageSpan]:
    stages = Stages()
    return [span for event in events if (span := stages.take(event)) is not None]


def length(span: StageSpan) -> int:
    return (span.end_ns - span.start_ns) // 1_000_000


def test_groups_do_not_end_each_others_stages() -> None:
    spans = spans_of(
        told("DELIVERED", 10, "a"),
        told("DELIVERED", 20, "b"),
        told("ACKNOWLEDGED", 50, "a"),
        told("ACKNOWLEDGED", 51, "b"),
    )

    assert [(span.name, length(span)) for span in spans if span.name.endswith("process")] == [
        ("orders process", 40),
        ("orders process", 31),
    ]


def test_what_has_no_beginning_has_no_length() -> None:
    [span] = spans_of(told("COMMITTED_PAST", 10, "a"))

    assert length(span) == 0


async def test_a_broker_with_an_endpoint_sends_what_it_traces(receiver: Receiver) -> None:
    config = BrokerConfig({"log.dirs": ":memory:", "kompat.otlp.endpoint": receiver.endpoint})
    broker = Broker(config)
    services = await broker._build_services()
    await services.cluster.create_topics([NewTopic("orders", 1, 1)])
    log = services.logs.find("orders", 0)
    assert log is not None
    headers = (("traceparent", f"00-{TRACE.hex()}-{PARENT.hex()}-01".encode()),)
    record = Record(0, services.clock.now(), None, b"v", headers)
    await log.append(memoryview(build_batch([record]))).pending

    await broker.stop()

    [span] = receiver.spans
    assert (span.name, span.trace_id, span.parent_span_id) == ("orders publish", TRACE, PARENT)


def test_without_the_packages_the_operator_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)

    with pytest.raises(ConfigError, match=r"kompat\[otlp\]"):
        OtlpExport("http://127.0.0.1:1/", node_id=1, version="1")
