"""The interface of a connection to its listener."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from kompat.server.dispatch import Dispatcher
from kompat.server.limits import Budget, Limits

if TYPE_CHECKING:
    from kompat.server.connection import Connection


class Owner(Protocol):
    """The listener, which keeps the connections."""

    limits: Limits
    budget: Budget
    dispatcher: Dispatcher
    loop: asyncio.AbstractEventLoop
    unread: int  # bytes of answers to clients that are slow to read

    def joined(self, connection: Connection) -> bool:
        """False: there is no room for it."""
        ...

    def left(self, connection: Connection) -> None: ...
