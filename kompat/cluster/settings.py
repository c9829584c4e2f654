"""The configs of topics, brokers and groups, from the cluster's metadata."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kompat.cluster import configs, describe, names
from kompat.cluster.describe import ConfigEntry
from kompat.cluster.state import ClusterState, Resource, ResourceType, Topic
from kompat.config.broker import BrokerConfig
from kompat.config.groups import group_value
from kompat.config.values import Value
from kompat.errors import ErrorCode, KafkaError


class SettingsView:
    """Reads the committed state."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self.image = ClusterState()  # what is committed
        self._default_entries: tuple[int, list[ConfigEntry]] = (-1, [])

    def topic(self, name: str) -> Topic | None:
        return self.image.topics.get(name)

    def describe_configs(self, resource: Resource) -> list[ConfigEntry]:
        """All configs of a resource in force, with their sources. KafkaError if there is no such resource."""
        if resource.type is ResourceType.TOPIC:
            return self.describe_topic_configs(resource.name)
        if resource.type is ResourceType.BROKER:
            return self._describe_broker(resource.name)
        if resource.type is ResourceType.GROUP:
            _need(resource.name, "Group name must not be empty")
            return describe.group_entries(configs.overrides(self.image, resource), self._config)
        if resource.type is ResourceType.CLIENT_METRICS:
            _need(resource.name, "Client metrics subscription name must not be empty")
            return describe.metrics_entries(configs.overrides(self.image, resource))
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Levels of loggers are not offered.")

    def describe_topic_configs(self, name: str) -> list[ConfigEntry]:
        wrong = names.invalid_name(name)
        if wrong is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, wrong)
        topic = self.topic(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self.describe_configs_of(topic)

    def describe_configs_of(self, topic: Topic) -> list[ConfigEntry]:
        """Also of a topic that does not exist, but was validated. Topics without configs of their own share one list."""
        if topic.configs:
            return describe.topic_entries(topic.configs, self._config)
        version, entries = self._default_entries
        if version != self._config.version:
            entries = describe.topic_entries({}, self._config)
            self._default_entries = (self._config.version, entries)
        return entries

    def _describe_broker(self, name: str) -> list[ConfigEntry]:
        if not name:
            return describe.cluster_entries(configs.overrides(self.image, Resource(ResourceType.BROKER, "")))
        if not (name.isascii() and name.isdigit()):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
        node_id = self._config.node_id
        if int(name) != node_id:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {node_id} or empty string, but received {name}",
            )
        return describe.broker_entries(self._config)

    def config_resources(self, types: Collection[ResourceType]) -> Iterator[Resource]:
        """The resources of these types that have configs; topics and brokers always do."""
        if ResourceType.TOPIC in types:
            yield from (Resource(ResourceType.TOPIC, name) for name in list(self.image.topics))
        if ResourceType.BROKER in types:
            yield from [Resource(ResourceType.BROKER, str(node)) for node in self.image.brokers]
        others = set(types) - {ResourceType.BROKER}
        yield from [each for each in self.image.configs if each.type in others]

    def groups_with_settings(self) -> list[str]:
        return [each.name for each in self.image.configs if each.type is ResourceType.GROUP]

    def group_setting(self, group_id: str, name: str) -> Value:
        """A group's config in force: its own, or the broker's default."""
        own = self.image.configs.get(Resource(ResourceType.GROUP, group_id), {})
        return group_value(name, own, self._config)

    def has_group_setting(self, group_id: str, name: str) -> bool:
        """Whether the group has a config of its own for it."""
        return name in self.image.configs.get(Resource(ResourceType.GROUP, group_id), {})


def _need(name: str, message: str) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
