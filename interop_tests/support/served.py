"""A broker in a process of its own whose services a test can call: a line of JSON in, one out.

For what has no door on the wire. `{"service": "dead_letters", "call": "redrive", "arguments": ["dlq.orders"]}` calls
`services.dead_letters.redrive("dlq.orders")` in the broker's event loop; the answer is what it returned, as text.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from pathlib import Path
from typing import IO, Any

from interop_tests.support.broker import READY, Broker

COMMAND = ["-m", "interop_tests.support.served"]
ROOT = Path(__file__).parents[2]


class ServedBroker(Broker):
    """As Broker, with `call`."""

    def command(self) -> list[str]:
        place = {"host": "127.0.0.1", "port": str(self.port), "http-port": self.http_flag, "data": self.data}
        settings = {**place, **self.settings}
        return [sys.executable, *COMMAND, json.dumps(settings), str(self._calls)]

    @property
    def _calls(self) -> Path:
        return self.home / "calls"

    def start(self, *, seconds: float = 30.0) -> float:
        self._calls.mkdir(exist_ok=True)
        for leftover in self._calls.iterdir():
            leftover.unlink()
        self.environment = {**self.environment, "PYTHONPATH": str(ROOT)}
        self._number = 0
        return super().start(seconds=seconds)

    def call(self, service: str, method: str, *arguments: Any, **named: Any) -> str:
        """What it returned, as Python shows it."""
        from interop_tests.support.wait import until

        self._number += 1
        answer = self._calls / f"{self._number}.answer"
        question = {"service": service, "call": method, "arguments": arguments, "named": named}
        draft = self._calls / "draft"
        draft.write_text(json.dumps(question))
        draft.rename(self._calls / f"{self._number}.call")
        until(answer.exists, f"{service}.{method} is answered", seconds=30)
        found = answer.read_text()
        assert not found.startswith("error: "), found
        return found


async def _answer(services: Any, question: dict[str, Any]) -> str:
    method = getattr(getattr(services, question["service"]), question["call"])
    try:
        found = method(*question["arguments"], **question["named"])
        if inspect.isawaitable(found):
            found = await found
    except Exception as error:  # noqa: BLE001 - it is the test's to judge
        return f"error: {error!r}"
    return repr(found)


async def _serve_calls(services: Any, calls: Path) -> None:
    number = 1
    while True:
        question = calls / f"{number}.call"
        if not question.exists():
            await asyncio.sleep(0.01)
            continue
        text = await _answer(services, json.loads(question.read_text()))
        draft = calls / "answering"
        draft.write_text(text)
        draft.rename(calls / f"{number}.answer")
        number += 1


async def _main(settings: dict[str, str], calls: Path, out: IO[str]) -> None:
    from kompat import broker as composition
    from kompat.config.load import load

    class Exposed(composition.Broker):
        async def _build_services(self) -> Any:
            self.services = await super()._build_services()
            return self.services

    running = Exposed(load(settings, environ={}))
    await running.start()
    out.write(f"kompat{READY}{running.address}\n")
    out.flush()
    await _serve_calls(running.services, calls)


if __name__ == "__main__":
    asyncio.run(_main(json.loads(sys.argv[1]), Path(sys.argv[2]), sys.stdout))
