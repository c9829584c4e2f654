"""Sends traces to a collector of spans, by OpenTelemetry's own exporter.

It works in threads of its own. If it cannot keep up, it drops spans: the events stay in `__kompat_trace`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING, Any, Final

from kompat.errors import ConfigError
from kompat.extensions.tracing import events
from kompat.extensions.tracing.spans import Stages, StageSpan

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

logger = logging.getLogger(__name__)

MOST_WAITING: Final = 1000  # batches of events
CLOSE_SECONDS: Final = 5.0
IDLE_SECONDS: Final = 0.1
SEND_SECONDS: Final = 3  # the collector's timeout


class OtlpExport:
    def __init__(self, endpoint: str, *, node_id: int, version: str) -> None:
        """ConfigError if its packages are missing."""
        self._waiting: Queue[Sequence[bytes]] = Queue(MOST_WAITING)
        self._spans = _Spans(endpoint, node_id=node_id, version=version)
        self._stages = Stages()
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kompat-otlp", daemon=True)
        self.dropped = 0  # events

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Send the rest, as far as possible in some seconds. It blocks: not for the event loop."""
        self._is_closing.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS)
        self._spans.close()

    def show(self, values: Sequence[bytes]) -> None:
        """Add events that were written. It neither waits nor fails."""
        try:
            self._waiting.put_nowait(values)
        except Full:
            self.dropped += len(values)

    def _run(self) -> None:
        while True:
            try:
                values = self._waiting.get(timeout=IDLE_SECONDS)
            except Empty:
                if self._is_closing.is_set():
                    return
                continue
            try:
                self._send(values)
            except Exception:
                logger.exception("events could not be made into spans")

    def _send(self, values: Sequence[bytes]) -> None:
        for value in values:
            event = events.decode(value)
            span = self._stages.take(event) if event is not None else None
            if span is not None:
                self._spans.add(span)


class _Spans:
    """The SDK, imported when it is needed: it is not part of every installation."""

    def __init__(self, endpoint: str, *, node_id: int, version: str) -> None:
        try:
            from opentelemetry import trace
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.sdk.trace.sampling import ALWAYS_ON
        except ImportError as error:
            raise ConfigError(
                f"kompat.otlp.endpoint is set, but {error.name} is not installed: pip install 'kompat[otlp]'"
            ) from error
        self._trace: Any = trace
        self._ids = _ids()
        who = {"service.name": "kompat", "service.version": version, "service.instance.id": str(node_id)}
        self._provider: TracerProvider = TracerProvider(
            sampler=ALWAYS_ON, resource=Resource.create(who), id_generator=self._ids, shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint, timeout=SEND_SECONDS)))
        self._tracer = self._provider.get_tracer("kompat", version)

    def add(self, stage: StageSpan) -> None:
        trace = self._trace
        parent = None
        if stage.parent_id is not None:
            flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
            known = trace.SpanContext(stage.trace_id, stage.parent_id, is_remote=True, trace_flags=flags)
            parent = trace.set_span_in_context(trace.NonRecordingSpan(known))
        self._ids.trace_id, self._ids.span_id = stage.trace_id, stage.span_id
        span = self._tracer.start_span(
            stage.name,
            context=parent or trace.set_span_in_context(trace.INVALID_SPAN),
            kind=trace.SpanKind.INTERNAL,
            attributes=dict(stage.attributes),
            start_time=stage.start_ns,
        )
        if stage.is_failed:
            span.set_status(trace.StatusCode.ERROR)
        span.end(end_time=stage.end_ns)

    def close(self) -> None:
        self._provider.shutdown()


def _ids() -> Any:
    """Generates the ids that a span is to have, and random ones where it does not matter."""
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class Ids(RandomIdGenerator):  # type: ignore[misc] # where the package is missing, it is anything
        trace_id: int = 0
        span_id: int | None = None

        def generate_trace_id(self) -> int:
            return self.trace_id

        def generate_span_id(self) -> int:
            return super().generate_span_id() if self.span_id is None else self.span_id

    return Ids()
