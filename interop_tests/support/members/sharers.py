"""Processes with members of share groups in them."""

import sys
from contextlib import suppress
from pathlib import Path

from interop_tests.support.members.host import Host
from interop_tests.support.worker import java_command

COMMANDS = {
    "java": lambda: java_command("kompat.interop.Sharers"),
    "confluent": lambda: [sys.executable, "-W", "ignore", "-m", "interop_tests.support.members.sharer"],
}
EXPLICIT = {"share.acknowledgement.mode": "explicit"}


class Hosts:
    """Processes with members in them: one of each kind for all who behave, more for those that are killed."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._all: list[Host] = []

    def start(self, kind: str) -> Host:
        self._all.append(Host(COMMANDS[kind](), self._home / f"{kind}-{len(self._all)}"))
        return self._all[-1]

    def close(self) -> None:
        for host in self._all:
            with suppress(ValueError):
                host.close()
