"""Settings of topics, brokers and groups, by Kafka's APIs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Final

from kompat.cli.arguments import setting
from kompat.cli.command import UsageError
from kompat.cli.kafka_client import Kafka, check

KINDS: Final = {"topic": 2, "broker": 4, "client-metrics": 16, "group": 32}
SOURCES: Final = {
    1: "topic",
    2: "broker",
    3: "all brokers",
    4: "file",
    5: "default",
    6: "logger",
    7: "client metrics",
    8: "group",
}
OWN: Final = {"topic": (1,), "broker": (2,), "client-metrics": (7,), "group": (8,)}
OWN_OF_ALL_BROKERS: Final = (3,)
DEFAULT: Final = 5
SET: Final = 0
DELETE: Final = 1


def describe(kafka: Kafka, kind: str, name: str) -> list[dict[str, Any]]:
    """All settings of a resource, with their sources, and whether each is set on the resource itself."""
    from kafka.protocol.admin import DescribeConfigsRequest

    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=KINDS[kind], resource_name=name, configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=False, include_documentation=False)
    [found] = kafka.ask(request, _node(kind, name)).results
    check(found.error_code, found.error_message, f"{kind} {name}")
    own = OWN[kind] if name or kind != "broker" else OWN_OF_ALL_BROKERS
    return sorted(
        (
            {
                "name": each.name,
                "value": None if each.is_sensitive else each.value,
                "source": SOURCES.get(each.config_source, str(each.config_source)),
                "isDefault": each.config_source == DEFAULT,
                "isOwn": each.config_source in own,
                "isReadOnly": each.read_only,
                "isSensitive": each.is_sensitive,
            }
            for each in found.configs
        ),
        key=lambda each: each["name"],
    )


def change(kafka: Kafka, kind: str, name: str, to_set: Sequence[tuple[str, str]], to_unset: Sequence[str]) -> None:
    from kafka.protocol.admin import IncrementalAlterConfigsRequest

    if not to_set and not to_unset:
        raise UsageError("nothing to change: give --set NAME=VALUE or --unset NAME")
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    changes = [resource.AlterableConfig(name=key, config_operation=SET, value=value) for key, value in to_set]
    changes += [resource.AlterableConfig(name=key, config_operation=DELETE, value=None) for key in to_unset]
    altered = resource(resource_type=KINDS[kind], resource_name=name, configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[altered], validate_only=False)
    [answered] = kafka.ask(request, _node(kind, name)).responses
    check(answered.error_code, answered.error_message, f"{kind} {name}" if name else f"all {kind}s")


def _node(kind: str, name: str) -> int | None:
    """The broker to send the request to: a broker's settings are read from itself."""
    return int(name) if kind == "broker" and name.isdecimal() else None


def add_changes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set", type=setting, metavar="NAME=VALUE", action="append", default=[], help="set a configuration property"
    )
    parser.add_argument(
        "--unset", metavar="NAME", action="append", default=[], help="reset a configuration property to its default"
    )
