import asyncio
from collections.abc import Callable

import uvloop


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Links hold on both event loops: where there is no uvloop, asyncio's own is used."""
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}
