"""The place of one share partition's state, as the one who uses it sees it.

Where this broker keeps the state itself, a change is written in the turn in which it is decided. Where another one does,
changes are sent to it one after the other; those that are made while one is on its way go together with the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from kompat.errors import ErrorCode, KafkaError
from kompat.log.commit import Pending, settle
from kompat.share.homes import PASSING, Homes, Keeper
from kompat.share.machine.messages import Update, merged
from kompat.share.machine.state import Fence, Writing
from kompat.share.records import ShareKey

logger = logging.getLogger(__name__)

Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


class Home:
    def __init__(self, homes: Homes, place: int, key: ShareKey, fence: Fence, writer: str, spawn: Spawn) -> None:
        """`writer`: whom the home knows to be using the share partition."""
        self.fence = fence
        self._homes = homes
        self._place = place
        self._key = key
        self._writer = writer
        self._spawn = spawn
        self._number = 0  # of writes
        self._keeper: Keeper | None = homes.here(place)
        self._waiting: list[Update] = []
        self._next: Pending | None = None  # the promise of those that wait
        self._sent: Pending | None = None  # the promise of those on their way

    @property
    def keeper(self) -> Keeper | None:
        """Who keeps the state, where that is this broker; None: it has to be sent."""
        if self._sent is not None:
            return None  # first things first: what is on its way may have to be sent again
        keeper = self._keeper
        if keeper is None or not keeper.is_leading or keeper.partition.is_dropped:
            keeper = self._keeper = self._homes.here(self._place)
        return keeper

    def may_send(self, error: KafkaError) -> bool:
        """Was a change refused by this broker for a reason that passes? Then it can be sent, and is tried until it is taken."""
        return self._homes.elsewhere is not None and error.code in PASSING

    def send(self, update: Update | None) -> Pending:
        """The promise that all that was sent is written, this update too. It may have been refused, with FENCED codes."""
        if update is None:
            return self._next or self._sent or Pending.done()
        self._waiting.append(update)
        if self._next is None:
            self._next = Pending()
        promise = self._next
        if self._sent is None:
            self._sent = Pending()  # from here on, until the task has looked
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
            settle(promise, error)

    async def _write(self, update: Update) -> KafkaError | None:
        self._number += 1
        try:
            writing = Writing(self._writer, self._number)
            await self._homes.write(self._place, self._key, update, self.fence, writing)
        except KafkaError as error:
            return error
        except Exception as bug:  # those that wait behind it must hear of it, too
            logger.exception("the state of %s could not be sent", self._key)
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{type(bug).__name__}: {bug}")
        return None
