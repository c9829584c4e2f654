"""A fetch of a share group's member, from the first look at memory to the records that it holds then.

What memory cannot give is read in a worker thread. Where there is nothing to be had, the fetch waits for the logs to
grow, for records that others give back, or for its time to be up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple, Protocol

from kompat.errors import ErrorCode, KafkaError
from kompat.log.demand import Demand
from kompat.log.partition import Isolation, ReadResult
from kompat.share.live import LivePartition
from kompat.share.machine.messages import Span, Want
from kompat.share.machine.order import NO_END
from kompat.share.reading import Chunk, Picked
from kompat.share.requests import FetchedPartition, FetchRequest, TopicIdPartition
from kompat.types import Offset

logger = logging.getLogger(__name__)

LEAST_READ = 16 << 10
MOST_READ = 1 << 20  # bytes at once: more would be read in vain where the records are few


class Finder(Protocol):
    def find(self, group_id: str, partition: TopicIdPartition) -> LivePartition | KafkaError | None:
        """None: it is being loaded."""
        ...

    def when_loaded(
        self, group_id: str, partition: TopicIdPartition, told: Callable[[KafkaError | None], None]
    ) -> None: ...


class _Cold(NamedTuple):
    """A read that has to come from the store."""

    live: LivePartition
    offset: Offset
    limit: int
    isolation: Isolation


Reading = Generator[_Cold, ReadResult, None]


class Fetching:
    def __init__(self, finder: Finder, request: FetchRequest, spawn: Callable[..., asyncio.Task[None]]) -> None:
        self._finder = finder
        self._request = request
        self._spawn = spawn
        self._found: dict[TopicIdPartition, FetchedPartition] = {}
        self._records = 0
        self._bytes = 0
        self._live: list[LivePartition] = []
        self._loading = 0
        self._asked: list[Demand] = []  # that know of this fetch
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_up = request.max_wait_ms <= 0  # its time
        self._is_trying = False
        self._callbacks: list[Callable[[Fetching], None]] = []
        self.is_done = False

    @property
    def result(self) -> list[FetchedPartition]:
        """In the order asked; partitions without records or errors are left out."""
        return [self._found[each] for each in self._request.partitions if each in self._found]

    def start(self) -> Fetching:
        request = self._request
        if request.max_records <= 0 or request.max_bytes <= 0:
            self._finish()
            return self
        for partition in request.partitions:
            self._look_up(partition)
        if self._loading and not self._is_up:
            self._wait()
        self._try()
        return self

    def _look_up(self, partition: TopicIdPartition) -> None:
        found = self._finder.find(self._request.group_id, partition)
        if isinstance(found, LivePartition):
            self._live.append(found)
            if self._timer is not None:
                self._watch([found])
        elif found is not None:
            self._found[partition] = FetchedPartition(partition, error=found)
        else:
            self._loading += 1

            def loaded(error: KafkaError | None) -> None:
                self._loading -= 1
                if error is not None:
                    self._found[partition] = FetchedPartition(partition, error=error)
                elif not self.is_done:
                    self._look_up(partition)
                self._woken(None)

            self._finder.when_loaded(self._request.group_id, partition, loaded)

    # -- waiting ---------------------------------------------------------------------------------------------------
    def _wait(self) -> None:
        if self._timer is None:
            seconds = self._request.max_wait_ms / 1000
            self._timer = asyncio.get_running_loop().call_later(seconds, self._time_is_up)
            self._watch(self._live)

    def _watch(self, live: Sequence[LivePartition]) -> None:
        for each in live:
            each.watch(self._woken)
            each.log.watch(self._woken)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            for each in self._live:
                each.unwatch(self._woken)
                each.log.unwatch(self._woken)
        for demand in self._asked:
            demand.left(self)
        self._asked.clear()

    def _ask_for_more(self) -> None:
        """Tell whoever holds records back that there are no others."""
        for live in self._live:
            demand = live.log.demand
            if demand is not None and demand.counts_shares and live.is_at_end:
                if demand not in self._asked:
                    self._asked.append(demand)
                demand.asked(self, self._request.max_bytes)

    def _forget(self, live: LivePartition) -> None:
        self._live.remove(live)
        live.unwatch(self._woken)
        live.log.unwatch(self._woken)

    def _woken(self, _: object) -> None:
        if not (self.is_done or self._is_trying) and self._task is None:
            self._try()

    def _time_is_up(self) -> None:
        self._is_up = True
        self._woken(None)

    def hurry(self) -> None:
        """The broker is about to stop: answer with what there is."""
        self._time_is_up()

    def cancel(self) -> None:
        """The member is gone: acquire nothing for it any more."""
        self._stop_waiting()
        self.is_done = True
        self._callbacks.clear()
        if self._task is not None:
            self._task.cancel()

    def add_done_callback(self, callback: Callable[[Fetching], None]) -> None:
        if self.is_done:
            callback(self)
        else:
            self._callbacks.append(callback)

    async def wait(self) -> list[FetchedPartition]:
        if not self.is_done:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.add_done_callback(lambda _: None if done.done() else done.set_result(None))
            try:
                await done
            except asyncio.CancelledError:
                self.cancel()
                raise
        return self.result

    def _finish(self) -> None:
        self._stop_waiting()
        self.is_done = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def _fail(self, error: Exception) -> None:
        """Nobody is to wait for ever because of a bug, or of a disk that gives back something else than it was given."""
        if self.is_done:
            raise error  # it is of those who were told
        logger.error("a fetch of share group %s failed", self._request.group_id, exc_info=error)
        unexpected = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{type(error).__name__}: {error}")
        told = error if isinstance(error, KafkaError) else unexpected
        for partition in self._request.partitions:
            self._found.setdefault(partition, FetchedPartition(partition, error=told))
        self._finish()

    # -- looking ---------------------------------------------------------------------------------------------------
    def _try(self) -> None:
        try:
            self._look()
        except Exception as error:  # noqa: BLE001 - whoever waits hears of it
            self._fail(error)

    def _look(self) -> None:
        for live in [live for live in self._live if live.is_fenced]:
            self._forget(live)
            self._look_up(TopicIdPartition(live.key.topic_id, live.key.partition))
        self._is_trying = True  # what it finds out may wake those who wait: itself among them
        try:
            is_enough = bool(self._is_up or self._found or self._is_enough())
            reading = self._collect()
            cold = next(reading, None) if is_enough else None
        finally:
            self._is_trying = False
        if cold is not None:
            self._task = self._spawn(self._collect_cold(reading, cold))
        else:
            self._settle()

    def _settle(self) -> None:
        """Answer, or go on waiting."""
        if not self._found:
            self._ask_for_more()
        if self._found or self._is_up or not (self._live or self._loading):
            self._finish()
        else:
            self._wait()

    def _is_enough(self) -> bool:
        """Is there what the member wants to be woken for?"""
        least, ready = self._request.min_bytes, 0
        if least <= 1:
            return True  # the attempt tells
        for live in self._live:
            if not live.is_fenced and not live.is_reading:
                spans = live.next_spans(1)
                if spans and spans[0].first < live.end:
                    ready += min(self._request.max_bytes, live.log.available(Offset(spans[0].first), live.isolation))
                    if ready >= least:
                        return True
        return False

    async def _collect_cold(self, reading: Reading, cold: _Cold) -> None:
        try:
            while True:
                cold.live.is_reading = True
                try:
                    read = await cold.live.log.read_around(cold.offset, cold.limit, cold.isolation)
                except KafkaError as error:
                    cold.live.is_reading = False
                    cold = reading.throw(error)
                else:
                    cold.live.is_reading = False
                    cold = reading.send(read)
        except StopIteration:
            failure = None
        except Exception as error:  # noqa: BLE001 - whoever waits hears of it
            failure = error
        finally:
            cold.live.is_reading = False
            self._task = None
            cold.live.wake()
        if self.is_done:
            return
        if failure is None:
            self._settle()
        else:
            self._fail(failure)

    # -- collecting ------------------------------------------------------------------------------------------------
    def _collect(self) -> Reading:
        """Acquire what can be had; reads that memory cannot serve are asked for."""
        for live in self._live:
            if self._records >= self._request.max_records or self._bytes >= self._request.max_bytes:
                break
            if live.is_fenced or live.is_reading:
                continue
            partition = TopicIdPartition(live.key.topic_id, live.key.partition)
            fetched = FetchedPartition(partition)
            try:
                yield from self._collect_from(live, fetched)
            except KafkaError as error:
                # Where the log's start has moved meanwhile, the next attempt begins there.
                if not fetched.acquired and error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                    fetched.error = error
            if fetched.acquired or fetched.error is not None:
                self._found[partition] = fetched

    def _collect_from(self, live: LivePartition, fetched: FetchedPartition) -> Reading:
        share = max(1, self._request.max_bytes // len(self._live))
        previous: Sequence[Span] = ()
        while self._records < self._request.max_records and fetched.size < share and not live.is_fenced:
            spans = live.next_spans(self._request.max_records - self._records)
            if not spans or spans == previous:
                break  # there is nothing, or nothing that goes with what was found
            if fetched.acquired and min(spans).first <= fetched.acquired[-1].last:
                break  # it has become available meanwhile: records are given in ascending order
            previous = spans
            if spans[0].last == NO_END:
                yield from self._acquire_next(live, Offset(spans[0].first), fetched, share)
            else:
                yield from self._acquire_best(live, spans, fetched, share)

    def _acquire_next(self, live: LivePartition, offset: Offset, fetched: FetchedPartition, share: int) -> Reading:
        """Whatever can be had of what lies there."""
        if offset < live.end:
            limit = self._read_limit(live, self._request.max_records - self._records, share - fetched.size)
            read = yield from self._read(live, offset, limit)
            if read is not None:
                self._take(live, Chunk(offset, read), None, fetched)

    def _acquire_best(
        self, live: LivePartition, spans: Sequence[Span], fetched: FetchedPartition, share: int
    ) -> Reading:
        """Read as much of the best as may be sent at once, then acquire that in ascending order."""
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

    def _read(self, live: LivePartition, offset: Offset, limit: int) -> Generator[_Cold, ReadResult, ReadResult | None]:
        """None: there is nothing, or nobody who wants it any more."""
        isolation = live.isolation
        read = live.log.read(offset, limit, isolation)
        if read is None:
            read = yield _Cold(live, offset, limit, isolation)
            if self.is_done or live.is_fenced:
                return None
        if read.next_offset <= offset:
            return None
        live.record_bytes = max(1.0, read.size / (read.next_offset - offset))
        return read

    def _read_limit(self, live: LivePartition, wanted: int, room: int) -> int:
        return min(max(1, room), max(LEAST_READ, min(MOST_READ, int(wanted * live.record_bytes))))

    def _take(
        self, live: LivePartition, chunk: Chunk, within: Sequence[Span] | None, fetched: FetchedPartition
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
