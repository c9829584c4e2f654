"""One client's connection: requests are begun and answered in the order they arrived, each after those before it.

`ordering.py` has the requests that may begin sooner. Reading stops while too much is under way, here or broker-wide, or while the client
leaves its responses unread.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from typing import Any

from kompat.common.slices import Slice
from kompat.errors import ProtocolError
from kompat.protocol.api_keys import ApiKey
from kompat.protocol.frames import POOLED_SIZE, FrameReader
from kompat.server.clients import client_of
from kompat.server.dispatch import Answer, Client, Exchange
from kompat.server.ordering import Order
from kompat.server.owner import Owner
from kompat.server.watch import Progress, Watch

log = logging.getLogger(__name__)

REQUESTS_A_TURN = 64  # of one client, before the others get their turn; fewer, where they take longer than a slice
LONG_POLL_KEYS = (ApiKey.Fetch, ApiKey.ShareFetch)
LONG_REQUEST = POOLED_SIZE  # more than is read at once: the budget has to admit such a request
ADMITTED_AT_ONCE = 2 * 1024 * 1024  # bytes of it: many requests can arrive at once, and a stock producer's in one piece
UNREAD_NOTICED = 64 * 1024  # bytes of unsent responses, from which on they are counted


class Connection(asyncio.BufferedProtocol):
    def __init__(self, owner: Owner, listener: str = "") -> None:
        """`listener`: the name of the listener that accepted it."""
        limits = owner.limits
        self._owner = owner
        self._listener = listener
        self._budget = owner.budget
        self._dispatch = owner.dispatcher.dispatch
        self._max_bytes = limits.connection_bytes
        self._max_requests = limits.connection_requests
        self._max_unread = limits.unread_bytes
        self._reader = FrameReader(limits.request_bytes)
        self._backlog: deque[memoryview] = deque()  # received, not begun
        self._queue: deque[Answer | Exchange] = deque()  # begun, not sent
        self._order = Order()
        self._bytes = 0  # held by the queue
        self._backlog_bytes = 0
        self._unread = 0  # bytes of responses that the client has not read, where they are many
        self._held = 0  # bytes of all that, as counted in the budget
        self._lacking = 0  # bytes that are still to arrive of a long request that was admitted
        self._expected = 0  # of these, what the budget counts
        self._received = 0
        self._frames = 0
        self._written = 0
        self._is_reading = True
        self._is_serving = False
        self._is_turn_due = False  # it has used up a turn, and waits for the next one
        self._is_send_due = False  # answers are ready, and others may be in a moment
        self._is_congested = False  # the client is slow to read
        self._mutes = 0  # reasons not to begin anything for a while
        self._is_draining = False  # to be closed when what is under way has been answered
        self._is_final = False  # the broker stops
        self._is_closing = False
        self._watch = Watch(limits, owner.loop.time())

    # -- calls of the transport -------------------------------------------------------------------------------------
    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(high=min(UNREAD_NOTICED, self._max_unread))
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.client = self._identified(transport)
        self.client.mute = self._mute
        if not self._owner.joined(self):
            self.abort()

    def _identified(self, transport: Any) -> Client:
        return client_of(transport, self._listener)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self._received += nbytes
        try:
            frames = self._reader.received(nbytes)
        except ProtocolError as error:
            self._refuse(str(error))
            return
        if not frames:
            self._account()
            self.regulate()
            return
        self._frames += len(frames)
        self._backlog.extend(frames)
        self._backlog_bytes += sum(map(len, frames))
        self._serve()

    def pause_writing(self) -> None:
        self._is_congested = True
        self._account()

    def resume_writing(self) -> None:
        self._is_congested = False
        self._account()
        self._serve()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        self._is_congested = False
        for item in self._queue:
            if isinstance(item, Exchange):
                item.abandon(is_final=self._is_final)
        self._queue.clear()
        self._bytes = 0
        self._stop_receiving()
        self._budget.forget(self)
        self.client.mute = None  # or it and the connection would keep each other in memory
        self._owner.left(self)

    # -- calls of the listener --------------------------------------------------------------------------------------
    def drain(self) -> None:
        """Begin nothing more; close when what is under way has been answered."""
        self._is_draining = self._is_final = True
        self._drop_backlog()
        self.regulate()
        for item in list(self._queue):  # answers leave it meanwhile
            if isinstance(item, Exchange):
                item.complete_now()
        if not self._queue:
            self._close()

    def abort(self) -> None:
        self._is_closing = True
        self._stop_receiving()
        self._transport.abort()

    def turn_away(self, seconds: float) -> None:
        """Begin none of its requests, and close it after a while: sooner, the client would only reconnect."""
        self._mutes += 1
        self._owner.loop.call_later(seconds, self.abort)

    @property
    def unread_bytes(self) -> int:
        size: int = self._transport.get_write_buffer_size()
        return size

    def check(self, now: float, *, is_memory_short: bool) -> None:
        """Close the connection if it has stalled."""
        unread = self.unread_bytes
        progress = Progress(
            received=self._received,
            frames=self._frames,
            sent=self._written - unread,
            is_mid_frame=self._reader.pending > 0 and self._is_reading,
            is_unread=unread > 0,
            is_busy=bool(self._queue or self._mutes),
            is_in_way=self._budget.is_in_way(self),
            promised=self._reader.promised,
            unread=unread,
        )
        self._account()
        reason = self._watch.verdict(progress, now, is_memory_short=is_memory_short)
        if reason is not None:
            log.info("closing a connection", extra={"client": self.client.connection_id, "reason": reason})
            self.abort()

    # -- requests and answers ----------------------------------------------------------------------------------------
    def _serve(self) -> None:
        """Begin what the limits allow, send what is ready."""
        if self._is_serving or self._is_turn_due or self._is_closing:
            return
        self._is_serving = True
        queue, backlog = self._queue, self._backlog
        ready: list[Any] = []
        size = 0
        turn = Slice() if len(backlog) > 1 else None
        is_cut_short = True
        for number in range(REQUESTS_A_TURN):
            if number and turn is not None and turn.is_over:
                break
            if not backlog or not self._may_begin():
                is_cut_short = False
                break
            frame = backlog.popleft()
            self._backlog_bytes -= len(frame)
            answer = self._dispatch(self.client, frame)
            if queue or answer.__class__ is not list:
                self._enqueue(answer)
                continue
            ready += answer
            size += sum(map(len, answer))
            if size >= self._max_unread:
                self._write(ready, size)  # shows whether the client reads, before more is begun
                ready, size = [], 0
        self._is_serving = False
        self._send(ready, size)
        self.regulate()
        if backlog and self._has_room() and (is_cut_short or self._order.lets_begin(_key(backlog[0]))):
            self._serve_soon()  # after the others

    def _may_begin(self) -> bool:
        """Whether there is room for the next request, and it passes none that it must not pass."""
        return self._has_room() and (not self._order.count or self._may_pass())

    def _may_pass(self) -> bool:
        if self._order.lets_begin(_key(self._backlog[0])):
            return True
        newest = self._queue[-1]
        has_more_than_polls = any(_key(frame) not in LONG_POLL_KEYS for frame in self._backlog)
        if has_more_than_polls and isinstance(newest, Exchange) and newest.api.key in LONG_POLL_KEYS:
            newest.complete_now()  # or the others would wait until its time is up
        return not self._order.count

    def _has_room(self) -> bool:
        """Whether there is room for one more request under way. The budget does not matter: the request is received already."""
        return not (
            self._mutes
            or self._bytes >= self._max_bytes
            or len(self._queue) >= self._max_requests
            or (self._is_congested and self.unread_bytes >= self._max_unread)
        )

    def _enqueue(self, answer: Answer | Exchange) -> None:
        self._queue.append(answer)
        if isinstance(answer, Exchange):
            self._bytes += answer.size
            if not answer.is_done:
                answer.add_done_callback(self._exchange_done)
                self._order.begun(answer.api.key, has_taken_place=answer.has_taken_place)
        elif answer is None:
            self._is_draining = True
            self._drop_backlog()

    def _exchange_done(self, exchange: Any) -> None:
        self._order.answered()
        if self._is_serving:
            return
        if self._is_send_due or self._queue[0] is exchange:
            if not self._order.count:
                self._send_ready()
            elif not self._is_send_due:
                # A commit ends many requests at once, and each write costs as much as a request.
                self._is_send_due = True
                self._owner.loop.call_soon(self._send_rest)
        elif answer := exchange.result():
            # It waits for those before it, and its answer takes room meanwhile.
            extra = sum(map(len, answer))
            exchange.size += extra
            self._bytes += extra
            self._account()

    def _send_rest(self) -> None:
        if self._is_send_due:
            self._send_ready()

    def _send_ready(self) -> None:
        self._is_send_due = False
        self._send([], 0)
        if self._backlog or not self._is_reading:
            self._serve()

    def _send(self, ready: list[Any], size: int) -> None:
        """Send `ready` and the completed responses at the head of the queue."""
        queue = self._queue
        is_last = False
        freed = 0
        while queue:
            answer = queue[0]
            if isinstance(answer, Exchange):
                if not answer.is_done:
                    break
                freed += answer.size
                answer = answer.result()
            queue.popleft()
            if answer is None:
                is_last = True
                break
            ready += answer
            size += sum(map(len, answer))
        self._bytes -= freed
        if ready:
            self._write(ready, size)
        self._account()
        if is_last or (self._is_draining and not queue):
            self._close()

    def _write(self, buffers: list[Any], size: int) -> None:
        if self._is_closing:
            return
        self._written += size
        try:
            self._transport.writelines(buffers)
        except (OSError, RuntimeError, TypeError, ValueError):
            # The client would take the next response for this one.
            log.exception("an answer could not be written, closing the connection", extra=self.facts())
            self.abort()

    # -- memory ------------------------------------------------------------------------------------------------------
    def _account(self) -> None:
        """Update the budget by what the connection holds now."""
        unread = self.unread_bytes if self._is_congested else 0
        if unread != self._unread:
            self._owner.unread += unread - self._unread
            self._unread = unread
        if self._lacking:
            self._count_arrived()
        held = self._reader.room + self._backlog_bytes + self._bytes + unread
        if held > self._held:
            more, self._held = held - self._held, held
            self._budget.take(more)
        elif held < self._held:
            less, self._held = self._held - held, held
            self._budget.give_back(less)

    def _count_arrived(self) -> None:
        """Count the bytes of a long request that have arrived, as far as it was admitted."""
        lacking = self._reader.lacking
        arrived = min(self._expected, self._lacking - lacking) if lacking else self._expected
        self._lacking = lacking
        self._expected -= arrived
        self._budget.arrived(arrived)

    def regulate(self) -> None:
        """Read if, and only if, there is room for what would come."""
        should_read = not (self._is_draining or self._is_closing) and self._may_read()
        if should_read is not self._is_reading:
            self._is_reading = should_read
            if should_read:
                self._transport.resume_reading()
            elif not self._is_closing:
                self._transport.pause_reading()

    def _may_read(self) -> bool:
        if not self._has_room() or len(self._backlog) + len(self._queue) >= self._max_requests:
            return False
        reader = self._reader
        if reader.room and reader.promised > LONG_REQUEST:
            return self._expected > 0 or self._may_come(reader.lacking)
        if self._budget.is_spent and not reader.pending:
            self._budget.wait(self, self._serve_soon)
            return False
        return True

    def _may_come(self, size: int) -> bool:
        """Whether more of a long request may arrive, of which `size` bytes are missing."""
        part = min(size, ADMITTED_AT_ONCE)
        if self._budget.expect(self, part, self._serve_soon, is_begun=self._lacking > 0):
            self._expected, self._lacking = part, size
        return self._expected > 0

    def _drop_backlog(self) -> None:
        self._backlog.clear()
        self._backlog_bytes = 0

    def _stop_receiving(self) -> None:
        """Give back, at once, what is held of requests that will not be begun."""
        self._drop_backlog()
        self._reader.close()
        self._account()

    def _mute(self, seconds: float) -> None:
        """Its client has used up its quota."""
        self._mutes += 1
        self._owner.loop.call_later(seconds, self._unmute)

    def _unmute(self) -> None:
        self._mutes -= 1
        self._serve()

    def _serve_soon(self) -> None:
        if not self._is_turn_due:
            self._is_turn_due = True
            self._owner.loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._is_turn_due = False
        self._serve()

    def _refuse(self, reason: str) -> None:
        log.warning("not the Kafka protocol, closing the connection", extra=self.facts() | {"reason": reason})
        self._enqueue(None)
        self._send([], 0)
        self.regulate()

    def _close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._stop_receiving()
            self._transport.close()

    def facts(self) -> dict[str, object]:
        return {"client": self.client.connection_id}


def _key(frame: memoryview) -> int:
    """Of the API, as requests begin with it."""
    return int.from_bytes(frame[:2], "big")
