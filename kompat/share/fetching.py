"""A fetch by a member of a share group, from the first read of memory to the acquired records.

While no record is available, the fetch waits until a log grows, records are released, or its timeout ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Generator, Sequence
from functools import partial
from typing import Any, Protocol, Self

from kompat.common.promise import Promise
from kompat.errors import ErrorCode, KafkaError, kafka_error
from kompat.log.long_poll import LongPoll, Steps
from kompat.log.partition import ReadResult
from kompat.share.machine.messages import Span, Want
from kompat.share.machine.order import NO_END
from kompat.share.partition import SharePartition, Spawn
from kompat.share.reading import Chunk, Picked
from kompat.share.requests import FetchedPartition, FetchRequest
from kompat.types import LogId, Offset

logger = logging.getLogger(__name__)

LEAST_READ = 16 << 10
MOST_READ = 1 << 20  # bytes of one read: more would be wasted where few records are available


class Finder(Protocol):
    def find(self, group_id: str, partition: LogId) -> SharePartition | KafkaError | None:
        """None while it is being loaded."""
        ...

    def loading(self, group_id: str, partition: LogId) -> Promise[None]: ...


class DelayedShareFetch(LongPoll[list[FetchedPartition]]):
    """The result is in the order of the request, without partitions that have neither records nor errors."""

    __slots__ = ("_bytes", "_finder", "_found", "_live", "_loading", "_records", "_request", "_spawn")

    def __init__(self, finder: Finder, request: FetchRequest, spawn: Spawn) -> None:
        super().__init__(request.max_wait_ms)
        self._spawn = spawn
        self._finder = finder
        self._request = request
        self._found: dict[LogId, FetchedPartition] = {}
        self._records = 0
        self._bytes = 0
        self._live: list[SharePartition] = []
        self._loading = 0

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._spawn(work)

    def start(self) -> Self:
        if self._request.max_records <= 0 or self._request.max_bytes <= 0:
            self.resolve([])
            return self
        for partition in self._request.partitions:
            self._look_up(partition)
        return super().start()

    def _look_up(self, partition: LogId) -> None:
        found = self._finder.find(self._request.group_id, partition)
        if isinstance(found, SharePartition):
            self._live.append(found)
        elif found is not None:
            self._found[partition] = FetchedPartition(partition, error=found)
        else:
            self._loading += 1

            def loaded(outcome: Promise[None]) -> None:
                self._loading -= 1
                if isinstance(outcome.error, KafkaError):
                    self._found[partition] = FetchedPartition(partition, error=outcome.error)
                elif not self.is_done:
                    self._look_up(partition)
                self.changed(outcome)

            self._finder.loading(self._request.group_id, partition).add_done_callback(loaded)

    # -- looking ---------------------------------------------------------------------------------------------------
    def try_complete(self) -> Steps:
        is_last = self.is_expired
        for live in [live for live in self._live if live.is_fenced]:
            self._live.remove(live)
            self.unwatch(live)
            self.unwatch(live.log)
            self._look_up(LogId(live.key.topic_id, live.key.partition))
        if is_last or self._found or self._is_enough():
            yield from self._collect()
        if not self._found:
            self._ask_for_more()
        if self._found or is_last or not (self._live or self._loading):
            self._complete()
        else:
            for live in self._live:
                self.watch(live)
                self.watch(live.log)

    def _complete(self) -> None:
        self.resolve([self._found[each] for each in self._request.partitions if each in self._found])

    def on_failure(self, error: Exception) -> None:
        """A bug, or a disk that returns other data than was written."""
        logger.error("a fetch of share group %s failed", self._request.group_id, exc_info=error)
        for partition in self._request.partitions:
            self._found.setdefault(partition, FetchedPartition(partition, error=kafka_error(error)))
        self._complete()

    def _ask_for_more(self) -> None:
        """Tell the fetch listeners of the logs that a reader waits: they may release more records."""
        for live in self._live:
            listener = live.log.fetch_listener
            if listener is not None and listener.counts_shares and live.is_at_end:
                self.notify(listener, self._request.max_bytes)

    def _is_enough(self) -> bool:
        """Whether records are available that the member waits for."""
        least, ready = self._request.min_bytes, 0
        if least <= 1:
            return True  # the attempt finds out
        for live in self._live:
            if not live.is_fenced and not live.is_reading:
                spans = live.next_spans(1)
                if spans and spans[0].first < live.end:
                    ready += min(self._request.max_bytes, live.log.available(Offset(spans[0].first), live.isolation))
                    if ready >= least:
                        return True
        return False

    # -- collecting ------------------------------------------------------------------------------------------------
    def _collect(self) -> Steps:
        """Acquire the records that are available."""
        for live in self._live:
            if self._records >= self._request.max_records or self._bytes >= self._request.max_bytes:
                break
            if live.is_fenced or live.is_reading:
                continue
            partition = LogId(live.key.topic_id, live.key.partition)
            fetched = FetchedPartition(partition)
            try:
                yield from self._collect_from(live, fetched)
            except KafkaError as error:
                # If the log's start has moved meanwhile, the next attempt begins there.
                if not fetched.acquired and error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                    fetched.error = error
            finally:
                if live.is_reading:  # other fetches have left it to this one
                    live.is_reading = False
                    live.wake()
            if fetched.acquired or fetched.error is not None:
                self._found[partition] = fetched

    def _collect_from(self, live: SharePartition, fetched: FetchedPartition) -> Steps:
        share = max(1, self._request.max_bytes // len(self._live))
        previous: Sequence[Span] = ()
        while self._records < self._request.max_records and fetched.size < share and not live.is_fenced:
            spans = live.next_spans(self._request.max_records - self._records)
            if not spans or spans == previous:
                break  # no record is available, or none that goes with those already found
            if fetched.acquired and min(spans).first <= fetched.acquired[-1].last:
                break  # they became available meanwhile: records are delivered in ascending order
            previous = spans
            if spans[0].last == NO_END:
                yield from self._acquire_next(live, Offset(spans[0].first), fetched, share)
            else:
                yield from self._acquire_best(live, spans, fetched, share)

    def _acquire_next(self, live: SharePartition, offset: Offset, fetched: FetchedPartition, share: int) -> Steps:
        """Acquire all available records of the chunk."""
        if offset < live.end:
            limit = self._read_limit(live, self._request.max_records - self._records, share - fetched.size)
            read = yield from self._read(live, offset, limit)
            if read is not None:
                self._take(live, Chunk(offset, read), None, fetched)

    def _acquire_best(
        self, live: SharePartition, spans: Sequence[Span], fetched: FetchedPartition, share: int
    ) -> Steps:
        """Read as many of the first records in order as fit into the response, then acquire them in ascending order."""
        picked = Picked(share - fetched.size)
        for span in spans:
            offset = span.first
            while offset <= span.last and offset < live.end and not picked.is_full:
                chunk = picked.holding(offset)
                if chunk is None:
                    limit = self._read_limit(live, span.last - offset + 1, share - fetched.size)
                    read = yield from self._read(live, Offset(offset), limit)
                    if read is None:
                        break
                    chunk = picked.add(Chunk.whole(Offset(offset), read))
                offset = picked.pick(chunk, Span(offset, span.last))
        if self.is_done or live.is_fenced:
            return
        for chunk, within in picked.ascending():
            if self._records < self._request.max_records:
                self._take(live, chunk, within, fetched)

    def _read(self, live: SharePartition, offset: Offset, limit: int) -> Generator[Any, Any, ReadResult | None]:
        """None: no record was found, or the fetch has ended."""
        isolation = live.isolation
        read = live.log.read(offset, limit, isolation)
        if read is None:
            live.is_reading = True
            read = yield partial(live.log.read_around, offset, limit, isolation)
            if self.is_done or live.is_fenced:
                return None
        if read.next_offset <= offset:
            return None
        live.record_bytes = max(1.0, read.size / (read.next_offset - offset))
        return read

    def _read_limit(self, live: SharePartition, wanted: int, room: int) -> int:
        return min(max(1, room), max(LEAST_READ, min(MOST_READ, int(wanted * live.record_bytes))))

    def _take(
        self, live: SharePartition, chunk: Chunk, within: Sequence[Span] | None, fetched: FetchedPartition
    ) -> None:
        request = self._request
        want = Want(
            max_records=request.max_records - self._records,
            batch_size=request.batch_size,
            mode=request.mode,
            is_continued=bool(fetched.acquired),
        )
        acquired = live.acquire(request.member_id, chunk.found, want, within)
        if acquired.spans:
            self._records += acquired.count
            fetched.acquired += acquired.spans
            size = chunk.take(acquired.spans, fetched)
            self._bytes += size
            meter = live.log.meter
            meter.records_out += acquired.count
            meter.bytes_out += size
