"""Configs of a resource, described and altered by request."""

from __future__ import annotations

from typing import Any

from tests.handlers.conftest import Asker

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def describe(ask: Asker, kind: int, name: str, keys: list[str] | None = None, version: int = 4, **more: Any) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    [result] = ask("DescribeConfigs", version, resources=[resource], **more).results
    return result


def value(ask: Asker, kind: int, name: str, key: str) -> tuple[str | None, int]:
    [entry] = describe(ask, kind, name, [key]).configs
    return entry.value, entry.config_source


def change(
    ask: Asker, kind: int, name: str, *changes: tuple[str, int, str | None], **more: Any
) -> tuple[int, str | None]:
    configs = [{"name": n, "config_operation": op, "value": v} for n, op, v in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    [response] = ask("IncrementalAlterConfigs", 1, resources=[resource], **more).responses
    assert (response.resource_type, response.resource_name) == (kind, name)
    return response.error_code, response.error_message
