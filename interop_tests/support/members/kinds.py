"""Every kind of group member: a client, its protocol, its assignor."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from interop_tests.support.members.host import Host
from interop_tests.support.members.kcat import KcatHost
from interop_tests.support.worker import go_command, java_command, old_java_command

COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
KEEP_METADATA_MS = 500

AnyHost = Host | KcatHost


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How soon a classic group misses a member; a consumer group's pace is the broker's affair."""

    session_ms: int
    heartbeat_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """`command` starts the process that hosts such members; kcat is one itself."""

    name: str
    command: Callable[[], list[str]] | None
    protocol: Literal["classic", "consumer"] = "classic"
    config: dict[str, Any] = field(default_factory=dict)
    # kcat commits the record that it holds when it is told to stop, and never prints it.
    drops_when_stopped: bool = False

    def settings(self, pace: Pace, **more: Any) -> dict[str, Any]:
        """The client's configuration; a setting's dots are written as underscores."""
        times = {"session.timeout.ms": pace.session_ms, "heartbeat.interval.ms": pace.heartbeat_ms}
        whole = {**self.config, **(times if self.protocol == "classic" else {})}
        whole |= {name.replace("_", "."): value for name, value in more.items()}
        return {name: str(value) for name, value in whole.items()} if self._is_textual else whole

    @property
    def _is_textual(self) -> bool:
        return self.name.startswith(("franz", "sarama"))

    @property
    def jvm(self) -> str | None:
        """Members of kinds with the same name here may share a process: one that starts slowly."""
        if not self.name.startswith("java"):
            return None
        return "java-3.9" if self.name == "java-3.9" else "java"

    def host(self, log: Path) -> AnyHost:
        return KcatHost() if self.command is None else Host(self.command(), log)


def _python(module: str) -> Callable[[], list[str]]:
    # Warnings are other people's: the clients' own.
    return lambda: [sys.executable, "-W", "ignore", "-m", f"interop_tests.support.members.{module}"]


def _java() -> list[str]:
    return java_command("kompat.interop.Members")


def _old_java() -> list[str]:
    return old_java_command("kompat.interop.Members")


_ALL = (
    Kind(
        name="confluent-range",
        command=_python("confluent"),
        config={"topic.metadata.refresh.interval.ms": KEEP_METADATA_MS, "partition.assignment.strategy": "range"},
    ),
    Kind(
        name="confluent-cooperative",
        command=_python("confluent"),
        config={
            "topic.metadata.refresh.interval.ms": KEEP_METADATA_MS,
            "partition.assignment.strategy": "cooperative-sticky",
        },
    ),
    Kind(
        name="confluent-consumer",
        command=_python("confluent"),
        protocol="consumer",
        config={"topic.metadata.refresh.interval.ms": KEEP_METADATA_MS, "group.protocol": "consumer"},
    ),
    Kind(name="kafka-python", command=_python("kafka_python"), config={"metadata.max.age.ms": KEEP_METADATA_MS}),
    Kind(
        name="kafka-python-cooperative",
        command=_python("kafka_python"),
        config={"metadata.max.age.ms": KEEP_METADATA_MS, "partition.assignment.strategy": "cooperative-sticky"},
    ),
    Kind(name="aiokafka", command=_python("aio"), config={"metadata.max.age.ms": KEEP_METADATA_MS}),
    Kind(name="java-classic", command=_java, config={"metadata.max.age.ms": KEEP_METADATA_MS}),
    Kind(
        name="java-cooperative",
        command=_java,
        config={"metadata.max.age.ms": KEEP_METADATA_MS, "partition.assignment.strategy": COOPERATIVE},
    ),
    Kind(
        name="java-consumer",
        command=_java,
        protocol="consumer",
        config={"metadata.max.age.ms": KEEP_METADATA_MS, "group.protocol": "consumer"},
    ),
    Kind(name="java-3.9", command=_old_java, config={"metadata.max.age.ms": KEEP_METADATA_MS}),
    Kind(name="kcat", command=None, drops_when_stopped=True),
    Kind(name="franz", command=lambda: go_command("members", "franz")),
    Kind(
        name="franz-consumer",
        command=lambda: go_command("members", "franz"),
        protocol="consumer",
        config={"group.protocol": "consumer"},
    ),
    Kind(name="sarama", command=lambda: go_command("members", "sarama")),
)
KINDS = {kind.name: kind for kind in _ALL}


@dataclass(frozen=True, slots=True, kw_only=True)
class CopierKind:
    """Processes that host copiers, and the kinds of member that they can be."""

    command: Callable[[], list[str]]
    kinds: tuple[str, ...]


COPIERS = {
    "confluent": CopierKind(command=_python("copier"), kinds=("range", "consumer")),
    "java": CopierKind(command=lambda: java_command("kompat.interop.Copiers"), kinds=("classic", "consumer")),
}
