"""What `admin/connection.py` and `admin/serving.py` use of uvicorn is not public there: a release may change it.

Where a test fails here, read the release's `httptools_impl.py`, run tests/admin and interop_tests/test_rest_hostile.py with
it, mend the lists below, and only then let it in by pyproject.toml.
"""

from __future__ import annotations

import asyncio
import inspect
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from kompat.admin.connection import Connection

CHANGED = f"uvicorn {version('uvicorn')} has changed what the HTTP port is built on"
OVERRIDDEN = {
    "connection_made": ["transport"],
    "connection_lost": ["exc"],
    "data_received": ["data"],
    "on_message_begin": [],
    "on_url": ["url"],
    "on_header": ["name", "value"],
    "on_headers_complete": [],
    "on_message_complete": [],
    "on_response_complete": [],
    "send_400_response": ["msg"],
    "pause_writing": [],
    "resume_writing": [],
}
USED = {"app_state", "cycle", "flow", "headers", "loop", "pipeline", "transport"}
USED_BY_CYCLES = {"keep_alive", "response_started", "response_complete"}


def test_the_version_is_one_of_those_that_are_tested() -> None:
    written = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    [allowed] = [each for each in written["project"]["dependencies"] if each.startswith("uvicorn")]
    least, below = (tuple(map(int, bound.split("."))) for bound in allowed.removeprefix("uvicorn>=").split(",<"))
    found = tuple(map(int, version("uvicorn").split(".")[:2]))

    assert least <= found < below, f"uvicorn {version('uvicorn')} is installed, and {allowed} is tested"


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_a_method_that_is_extended_is_there_and_takes_the_same(name: str) -> None:
    method = getattr(HttpToolsProtocol, name, None)

    assert method is not None, f"{CHANGED}: {name} is gone"
    assert list(inspect.signature(method).parameters)[1:] == OVERRIDDEN[name], f"{CHANGED}: {name} takes others"


def test_nothing_else_is_extended() -> None:
    both = {name for name in vars(Connection) if hasattr(HttpToolsProtocol, name) and not name.startswith("__")}

    assert both == set(OVERRIDDEN), f"{CHANGED}: names of connection.py mean something there too"


async def test_what_is_read_of_a_connection_is_there() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None: ...

    config = uvicorn.Config(application, http=HttpToolsProtocol, ws="none", lifespan="off", log_config=None)
    made = HttpToolsProtocol(config, ServerState(), {}, asyncio.get_running_loop())

    assert vars(made).keys() >= USED, f"{CHANGED}: {USED - vars(made).keys()} is gone"
    assert vars(made.server_state).keys() >= {"connections", "tasks"}, f"{CHANGED}: ServerState"
    source = inspect.getsource(RequestResponseCycle.__init__)
    assert all(f"self.{name}" in source for name in USED_BY_CYCLES), f"{CHANGED}: RequestResponseCycle"
