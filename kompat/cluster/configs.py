"""Rules for changing configs, pure: they compute the configs that a resource will have of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kompat._native import NamePattern
from kompat.cluster import dead_letters, internal, names, queue_rules
from kompat.cluster.requests import ConfigChange, ConfigOp, ConfigReplacement
from kompat.cluster.state import ClusterState, Resource, ResourceType
from kompat.config import values
from kompat.config.broker import BrokerConfig, definition
from kompat.config.definitions import Definition, Update
from kompat.config.groups import CLIENT_METRICS, GROUP, check_group_limits, group_value
from kompat.config.topics import DEFINITIONS as TOPIC
from kompat.config.topics import topic_value, validate_topic_config
from kompat.config.values import ConfigType
from kompat.errors import ConfigError, ErrorCode, KafkaError
from kompat.types import NodeId

Overrides = Mapping[str, str]

_INTERVAL = (100, 3_600_000)
_MATCH_KEYS = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


def plan_change(state: ClusterState, change: ConfigChange, config: BrokerConfig) -> dict[str, str]:
    """IncrementalAlterConfigs: the resource's own configs afterwards."""
    resource = change.resource
    _check_resource(state, resource, config)
    _check_keys([(name, value) for name, op, value in change.changes if op != ConfigOp.DELETE], change.changes)
    wanted = dict(overrides(state, resource))
    for name, op, value in change.changes:
        if op == ConfigOp.DELETE:
            wanted.pop(name, None)
        elif op == ConfigOp.SET:
            wanted[name] = value or ""
        elif op in (ConfigOp.APPEND, ConfigOp.SUBTRACT):
            wanted[name] = _edit_list(resource, name, ConfigOp(op), value or "", wanted, config)
        else:
            raise _request(f"There is no operation {op} on settings.")
    changed = {name for name, op, _ in change.changes if op != ConfigOp.DELETE}
    _check(state, resource, wanted, changed, config)
    return wanted


def plan_replacement(state: ClusterState, replacement: ConfigReplacement, config: BrokerConfig) -> dict[str, str]:
    """AlterConfigs: the resource's own configs afterwards."""
    _check_resource(state, replacement.resource, config)
    _check_keys(replacement.configs, [(name, ConfigOp.SET, value) for name, value in replacement.configs])
    wanted = {name: value or "" for name, value in replacement.configs}
    before = overrides(state, replacement.resource)
    changed = {name for name, value in wanted.items() if before.get(name) != value}
    _check(state, replacement.resource, wanted, changed, config)
    return wanted


def overrides(state: ClusterState, resource: Resource) -> Overrides:
    """The resource's own configs."""
    if resource.type is ResourceType.TOPIC:
        return state.topics[resource.name].configs
    return state.configs.get(resource, {})


def _check_resource(state: ClusterState, resource: Resource, config: BrokerConfig) -> None:
    if resource.type is ResourceType.TOPIC:
        _check_topic(state, resource.name)
    elif resource.type is ResourceType.BROKER:
        _check_broker_name(state, resource.name, config)
    elif resource.type is ResourceType.GROUP and not resource.name:
        raise _request("Default group resources are not allowed.")
    elif resource.type is ResourceType.CLIENT_METRICS and not resource.name:
        raise _request("Subscription name can't be empty")
    elif resource.type is ResourceType.BROKER_LOGGER:
        raise _request("Levels of loggers cannot be changed while the broker runs.")


def _check_topic(state: ClusterState, name: str) -> None:
    if not name:
        raise _request("Default topic resources are not allowed.")
    wrong = names.invalid_name(name)
    if wrong is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, wrong)
    if name not in state.topics:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def _check_broker_name(state: ClusterState, name: str, config: BrokerConfig) -> None:
    if not name:
        return
    if not (name.isascii() and name.isdigit()):
        raise _request(f"Node id must be an integer, but it is: {name}")
    if int(name) != config.node_id and NodeId(int(name)) not in state.brokers:
        raise _request(f"Unexpected broker id, expected {config.node_id}, but received {name}")


def _check_keys(given: Sequence[tuple[str, str | None]], changes: Sequence[tuple[str, int, str | None]]) -> None:
    if len({name for name, _, _ in changes}) != len(changes):
        raise _request("Error due to duplicate config keys")
    missing = sorted(name for name, value in given if value is None)
    if missing:
        raise _request(f"Null value not supported for : {','.join(missing)}")


def _edit_list(resource: Resource, name: str, op: ConfigOp, value: str, wanted: Overrides, config: BrokerConfig) -> str:
    known = _definition(resource, name)
    if known is not None and known.type is not ConfigType.LIST:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Can't {op.name} to key {name} because its type is not LIST.")
    current = list(_current(resource, name, wanted, config)) if known is not None else []
    for each in filter(None, (part.strip() for part in value.split(","))):
        if op is ConfigOp.APPEND and each not in current:
            current.append(each)
        elif op is ConfigOp.SUBTRACT and each in current:
            current.remove(each)
    return ",".join(current)


def _definition(resource: Resource, name: str) -> Definition | None:
    if resource.type is ResourceType.TOPIC:
        return TOPIC.get(name)
    if resource.type is ResourceType.BROKER:
        return definition(name)
    return (GROUP if resource.type is ResourceType.GROUP else CLIENT_METRICS).get(name)


def _current(resource: Resource, name: str, wanted: Overrides, config: BrokerConfig) -> tuple[str, ...]:
    if resource.type is ResourceType.TOPIC:
        value = topic_value(name, wanted, config)
    elif resource.type is ResourceType.BROKER:
        value = values.parse(ConfigType.LIST, wanted[name]) if name in wanted else config[name]
    elif resource.type is ResourceType.GROUP:
        value = group_value(name, wanted, config)
    else:
        value = CLIENT_METRICS[name].parse(wanted[name]) if name in wanted else ()
    return value if isinstance(value, tuple) else ()


# -- is the outcome allowed? -------------------------------------------------------------------------------------------
def _check(state: ClusterState, resource: Resource, wanted: Overrides, changed: set[str], config: BrokerConfig) -> None:
    if resource.type is ResourceType.TOPIC:
        validate_topic_config(wanted, config)
        queue_rules.check_change(resource.name, overrides(state, resource), wanted)
        internal.check_configs(resource.name, wanted, state.topics[resource.name].replication_factor)
    elif resource.type is ResourceType.GROUP:
        check_group_limits(wanted, config)
        dead_letters.check(wanted, changed)
    elif resource.type is ResourceType.CLIENT_METRICS:
        _check_metrics(wanted)
    else:
        _check_broker(state, resource, wanted, changed, config)


def _check_broker(
    state: ClusterState, resource: Resource, wanted: Overrides, changed: set[str], config: BrokerConfig
) -> None:
    _refuse(changed, lambda known: known is None, "Unknown broker configs: [{}]")
    _refuse(
        changed,
        lambda known: known is not None and known.update is Update.READ_ONLY,
        "Cannot update these configs dynamically: [{}]",
    )
    if not resource.name:
        _refuse(
            changed,
            lambda known: known is not None and known.update is Update.PER_BROKER,
            "Cannot update these configs at default cluster level, broker id must be specified: [{}]",
        )
    cluster = wanted if not resource.name else overrides(state, Resource(ResourceType.BROKER, ""))
    own = Resource(ResourceType.BROKER, resource.name or str(config.node_id))
    broker = wanted if resource.name else overrides(state, own)
    try:
        config.with_changes(cluster=cluster, broker=broker)
    except (ConfigError, KafkaError) as wrong:
        raise _request(str(wrong)) from None


def _refuse(changed: set[str], wrong: Callable[[Definition | None], bool], message: str) -> None:
    found = sorted(name for name in changed if wrong(definition(name)))
    if found:
        raise _request(message.format(", ".join(found)))


def _check_metrics(wanted: Overrides) -> None:
    for name, text in wanted.items():
        if name not in CLIENT_METRICS:
            raise _request(f"Unknown client metrics configuration: {name}")
        value = CLIENT_METRICS[name].parse(text)
        if isinstance(value, int) and not _INTERVAL[0] <= value <= _INTERVAL[1]:
            raise _request(f"Invalid value {value} for {name}, it must be between {_INTERVAL[0]} and {_INTERVAL[1]}")
        for pattern in value if name == "match" and isinstance(value, tuple) else ():
            key, equals, expression = pattern.partition("=")
            if key.strip() not in _MATCH_KEYS or not equals or not _is_expression(expression):
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {pattern}")


def _is_expression(text: str) -> bool:
    try:
        NamePattern(text.strip())
    except ValueError:
        return False
    return True


def _request(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
