"""UpdateFeatures."""

from __future__ import annotations

from typing import Any

import pytest

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker


def update(ask: Asker, version: int, *updates: tuple[str, int, int]) -> Any:
    fields = [
        {"feature": name, "max_version_level": level, **({"upgrade_type": kind} if version else {})}
        for name, level, kind in updates
    ]
    return ask("UpdateFeatures", version, feature_updates=fields)


@pytest.mark.parametrize("version", range(3))
def test_a_feature_may_be_set_to_the_level_it_has(ask: Asker, version: int) -> None:
    answer = update(ask, version, ("metadata.version", 30, 1))

    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)
    told = [("metadata.version", 0, "NONE")] if version < 2 else []
    assert [(r.feature, r.error_code, r.error_message) for r in answer.results] == told


@pytest.mark.parametrize(
    ("name", "level", "kind", "reason"),
    [
        ("nope", 1, 1, "Invalid update version 1 for feature nope. Local controller 1 does not support this feature."),
        ("metadata.version", -1, 1, "A feature version cannot be less than 0."),
        ("metadata.version", 31, 1, "Local controller 1 only supports versions 30-30"),
        ("metadata.version", 30, 7, "The controller does not support the given upgrade type."),
    ],
)
def test_one_impossible_update_refuses_all(ask: Asker, name: str, level: int, kind: int, reason: str) -> None:
    answer = update(ask, 1, ("metadata.version", 30, 1), (name, level, kind))

    assert (answer.error_code, answer.results) == (ErrorCode.INVALID_UPDATE_VERSION, [])
    assert answer.error_message.endswith(reason)
