"""AlterConfigs."""

from __future__ import annotations

import pytest

from kompat.errors import ErrorCode
from tests.handlers.configs import LOGGER, TOPIC, value
from tests.handlers.conftest import Asker


@pytest.mark.parametrize("version", range(3))
def test_all_settings_are_replaced(ask: Asker, version: int) -> None:
    name = ask.new_topic(retention_ms="1", segment_ms="50000")
    resource = {"resource_type": TOPIC, "resource_name": name, "configs": [{"name": "retention.ms", "value": "2"}]}

    [response] = ask("AlterConfigs", version, resources=[resource]).responses

    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    assert value(ask, TOPIC, name, "retention.ms") == ("2", 1)
    assert value(ask, TOPIC, name, "segment.ms") == ("604800000", 5)


def test_loggers_are_no_matter_of_alter_configs(ask: Asker) -> None:
    resource = {"resource_type": LOGGER, "resource_name": "1", "configs": [{"name": "root", "value": "INFO"}]}

    [response] = ask("AlterConfigs", 2, resources=[resource]).responses

    assert (response.error_code, response.error_message) == (ErrorCode.INVALID_REQUEST, "Unknown resource type 8")
