"""Topics for tests: fresh names, and waiting until every client may use them."""

import itertools
import uuid

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, NewTopic, OffsetSpec, ResourceType

from interop_tests.support.wait import until

_numbers = itertools.count()
_run = uuid.uuid4().hex[:8]


def fresh_name(hint: str = "t") -> str:
    """A topic name that no other test and no earlier run has used."""
    return f"{hint}-{_run}-{next(_numbers)}"


class Topics:
    """Creates topics on one broker."""

    def __init__(self, bootstrap: str) -> None:
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def create(self, hint: str = "t", partitions: int = 1, **configs: object) -> str:
        """Create a topic; a config's dots are written as underscores: `segment_bytes=1048576`."""
        name = fresh_name(hint)
        settings = {key.replace("_", "."): str(value) for key, value in configs.items()}
        self.create_named(name, partitions, settings)
        self.wait(name, partitions)
        return name

    def create_named(self, name: str, partitions: int = 1, settings: dict[str, str] | None = None) -> None:
        self.admin.create_topics([NewTopic(name, partitions, 1, config=settings or {})])[name].result(30)

    def names(self) -> set[str]:
        return set(self.admin.list_topics(timeout=10).topics)

    def configs(self, name: str) -> dict[str, str]:
        """What was set on the topic itself."""
        [future] = self.admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]).values()
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return {entry.name: entry.value for entry in future.result(20).values() if entry.source == own}

    def broker_configs(self) -> dict[str, str]:
        [node] = self.admin.list_topics(timeout=10).brokers
        [future] = self.admin.describe_configs([ConfigResource(ResourceType.BROKER, str(node))]).values()
        return {entry.name: entry.value for entry in future.result(20).values()}

    def delete_records(self, name: str, partition: int, *, before: int) -> int:
        """The log start offset afterwards."""
        [future] = self.admin.delete_records([TopicPartition(name, partition, before)]).values()
        return int(future.result(20).low_watermark)

    def wait(self, name: str, partitions: int) -> None:
        """Kafka answers a creation before all of its parts know of the topic, and tells of leaders before they lead."""
        until(lambda: self._led(name) == partitions, f"{name} has {partitions} partitions with leaders")
        until(lambda: self._answer(name, partitions), f"all leaders of {name} answer")

    def _led(self, name: str) -> int:
        # All topics are asked for: asking for one would create it where the broker does that.
        topic = self.admin.list_topics(timeout=10).topics.get(name)
        return (
            0 if topic is None or topic.error else sum(partition.leader >= 0 for partition in topic.partitions.values())
        )

    def _answer(self, name: str, partitions: int) -> bool:
        wanted = {TopicPartition(name, index): OffsetSpec.latest() for index in range(partitions)}
        try:
            for future in self.admin.list_offsets(wanted).values():
                future.result(10)
        except KafkaException:
            return False
        return True
