"""Ctrl-C ends a command, whatever the command is doing.

Python raises KeyboardInterrupt between any two instructions of the main thread. A client may take it for an error of its own and
continue, or it may leave a lock held that the client's own thread waits for: closing the client then never returns. So the exception
comes first, which lets the command commit, leave its group and release what it holds. If it has not ended soon after that, the
process is ended.
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
GRACE: Final = 2.0  # seconds for a command to clean up


@contextmanager
def ended_by_interrupt() -> Iterator[None]:
    """Within the block the first SIGINT raises KeyboardInterrupt and gives the process `GRACE`; the second ends it at once.

    The block then raises KeyboardInterrupt, also if other code has caught it.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread handles signals
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
        _thread.start_new_thread(_end_later, ())  # `threading` takes locks, which the interrupted code may hold
        raise KeyboardInterrupt


def _end_later() -> None:
    time.sleep(GRACE)
    os._exit(INTERRUPTED)
