"""Writes the state of one share partition that is in use.

Where this broker is its coordinator, a change is written in the turn in which it is decided. Where another broker is, changes
are sent to it one after the other; those made while one is being sent go together with the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from kompat.common.promise import Promise
from kompat.errors import KafkaError, kafka_error
from kompat.rpc.messages import PASSING
from kompat.share.coordinator import ShareCoordinator, StateShard
from kompat.share.machine.messages import Update, merged
from kompat.share.machine.state import Fence, Writing
from kompat.share.persister import Persister
from kompat.share.records import ShareKey

logger = logging.getLogger(__name__)

Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


class StateWriter:
    def __init__(
        self,
        key: ShareKey,
        fence: Fence,
        writer: str,
        *,
        coordinator: ShareCoordinator,
        persister: Persister,
        spawn: Spawn,
    ) -> None:
        """`writer`: identifies this user to the coordinator. `coordinator`: that of this broker."""
        self.fence = fence
        self._coordinator = coordinator
        self._persister = persister
        self._key = key
        self._writer = writer
        self._spawn = spawn
        self._number = 0  # of writes
        self._shard = coordinator.shard_of(key)
        self._waiting: list[Update] = []
        self._next: Promise[None] | None = None  # the promise of those that wait
        self._sent: Promise[None] | None = None  # the promise of those being sent

    @property
    def shard(self) -> StateShard | None:
        """The shard with the state, if it is on this broker; None: changes have to be sent."""
        if self._sent is not None:
            return None  # keep the order: what is being sent may have to be sent again
        shard = self._shard
        if shard is None or not shard.is_leading or shard.partition.is_dropped:
            shard = self._shard = self._coordinator.shard_of(self._key)
        return shard

    def may_send(self, error: KafkaError) -> bool:
        """Whether this broker refused a change for a temporary reason: then it is sent, and retried until it is accepted."""
        return error.code in PASSING

    def send(self, update: Update | None) -> Promise[None]:
        """The promise that everything sent so far, with this update, is written. It fails with a FENCED code after a takeover."""
        if update is None:
            return self._next or self._sent or Promise.resolved(None)
        self._waiting.append(update)
        if self._next is None:
            self._next = Promise()
        promise = self._next
        if self._sent is None:
            self._sent = Promise()  # from here on, until the task has looked
            self._spawn(self._send_all())
        return promise

    async def _send_all(self) -> None:
        error: KafkaError | None = None
        while self._next is not None:
            updates, self._waiting = self._waiting, []
            promise = self._sent = self._next
            self._next = None
            if error is None:
                error = await self._write(merged(updates))
            if self._next is None:
                self._sent = None
            promise.end(error)

    async def _write(self, update: Update) -> KafkaError | None:
        self._number += 1
        try:
            writing = Writing(self._writer, self._number)
            await self._persister.write(self._key, update, self.fence, writing)
        except KafkaError as error:
            return error
        except Exception as bug:  # those that wait behind it must fail, too
            logger.exception("the state of %s could not be sent", self._key)
            return kafka_error(bug)
        return None
