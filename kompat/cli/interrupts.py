"""Ctrl-C ends a command, whatever the command is doing.

Python raises KeyboardInterrupt between any two instructions of the main thread. Inside a client that is a gamble: the client may take
it for an error of its own and go on, or it may leave a lock taken, and the client's own thread waits for that lock for ever, and
whoever closes the client waits for that thread. So the exception is only the polite way: it lets the command commit, leave its group
and give back what it holds. What has not ended soon after that is ended without being asked.
"""

from __future__ import annotations

import _thread
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

INTERRUPTED: Final = 130
GRACE: Final = 2.0  # seconds for a command to tidy up


@contextmanager
def ended_by_interrupt() -> Iterator[None]:
    """Within the block the first SIGINT raises KeyboardInterrupt and gives the process `GRACE`; the second ends it at once.

    The block ends by KeyboardInterrupt then, also where somebody took it for something else.
    """
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's business
        yield
        return
    handler = _Handler()
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    except Exception as error:
        if handler.has_come:
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, before)
    if handler.has_come:
        raise KeyboardInterrupt


class _Handler:
    def __init__(self) -> None:
        self.has_come = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.has_come:
            os._exit(INTERRUPTED)
        self.has_come = True
        _thread.start_new_thread(_end_later, ())  # `threading` takes locks, which the interrupted code may have
        raise KeyboardInterrupt


def _end_later() -> None:
    time.sleep(GRACE)
    os._exit(INTERRUPTED)
