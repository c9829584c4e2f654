"""Two brokers that are asked the same, and what their answers differ in."""

from collections.abc import Callable, Iterator
from typing import Any

from interop_tests.support.topics import Topics, fresh_name
from interop_tests.support.wire import Wire

# What differs between any two brokers, and the words in which they say a thing.
UNLIKE = {
    "topic_id",
    "batch_index_error_message",
    "throttle_time_ms",
    "error_message",
    "host",
    "port",
    "cluster_id",
    "log_dir",
    "total_bytes",
    "usable_bytes",
    "session_id",
    "documentation",
}
# Kafka's controller sets this one by itself for its eligible leader replicas.
ELSEWHERE = {"min.insync.replicas"}


def is_unlike(name: object) -> bool:
    """Whether an entry of that name is one broker's own."""
    return name in ELSEWHERE or str(name).startswith("kompat.")


def plain(value: Any) -> Any:
    """An answer without what differs by nature, in an order of its own."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if key not in UNLIKE}
    if isinstance(value, list):
        items = [plain(item) for item in value if not (isinstance(item, dict) and is_unlike(item.get("name")))]
        return sorted(items, key=repr) if items and isinstance(items[0], dict) else items
    return value


def differences(ours: Any, theirs: Any, path: str) -> Iterator[str]:
    """Where two answers part ways, one line each."""
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() == theirs.keys():
        for key in ours:
            yield from differences(ours[key], theirs[key], f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (left, right) in enumerate(zip(ours, theirs, strict=True)):
            name = left.get("name", index) if isinstance(left, dict) else index
            yield from differences(left, right, f"{path}[{name}]")
    elif ours != theirs:
        yield f"{path}: kompat {ours!r}, Kafka {theirs!r}"


class Pair:
    """A connection to each of the two brokers, topics of the same names on both, and what was found different."""

    def __init__(self, ours: str, theirs: str) -> None:
        self.wires = {"kompat": Wire(ours), "kafka": Wire(theirs)}
        self._topics = [Topics(ours), Topics(theirs)]
        self.found: list[str] = []

    def topic(self, partitions: int = 1, **configs: str) -> str:
        name = fresh_name("diff")
        for topics in self._topics:
            topics.create_named(name, partitions, {key.replace("_", "."): value for key, value in configs.items()})
            topics.wait(name, partitions)
        return name

    def answers(self, request: Callable[[Wire], Any], version: int) -> tuple[Any, Any]:
        ours, theirs = (plain(wire.ask(request(wire), version).to_dict()) for wire in self.wires.values())
        return ours, theirs

    def ask(self, title: str, request: Callable[[Wire], Any], *versions: int) -> None:
        """Ask both, in each of the versions, and remember what differs."""
        for version in versions:
            self.found += differences(*self.answers(request, version), f"{title}, version {version}: ")

    def agree(self) -> None:
        found, self.found = self.found, []
        assert found == [], "\n".join(found)
