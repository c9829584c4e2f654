"""Kafka's own Admin client, through the Java worker."""

from typing import Any

from interop_tests.support.worker import Worker


class Admin:
    """The Java Admin client on one broker."""

    def __init__(self, worker: Worker, bootstrap: str) -> None:
        self._worker = worker
        self._bootstrap = bootstrap

    def call(self, verb: str, **arguments: Any) -> Any:
        return self._worker.call(verb, self._bootstrap, **arguments)

    def create(self, name: str, *, validate_only: bool = False, **wanted: Any) -> Any:
        [answer] = self.call("create_topics", topics=[{"name": name, **wanted}], validate_only=validate_only).values()
        return answer

    def describe(self, name: str) -> Any:
        return self.call("describe_topics", names=[name])[name]

    def partitions(self, name: str) -> int:
        described = self.describe(name)
        return 0 if "error" in described else len(described["partitions"])

    def configs(self, name: str, kind: str = "TOPIC") -> Any:
        return self.call("describe_configs", type=kind, name=name)

    def alter(
        self, name: str, *ops: tuple[str, str, str | None], kind: str = "TOPIC", validate_only: bool = False
    ) -> Any:
        [answer] = self.call("alter_configs", type=kind, name=name, ops=ops, validate_only=validate_only).values()
        return answer

    def value(self, name: str, config: str) -> Any:
        return self.configs(name)[config]["value"]

    def node(self) -> int:
        return int(self.call("describe_cluster")["controller"])


def code(answer: Any) -> int:
    """The error of one answer, 0 for none."""
    return answer["error"]["code"] if isinstance(answer, dict) and "error" in answer else 0
