"""ListGroups: groups of every type, by state and type."""

from __future__ import annotations

from typing import Any

import pytest

import kompat.testing
from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.members import (
    a_consumer,
    an_empty_group,
    commit,
    new_group,
    only_member,
)
from tests.handlers.share import beat
from tests.handlers.share_groups import ask, group, topic

__all__ = ["ask", "group", "topic"]


@pytest.fixture
def groups(prompt: Asker) -> dict[str, str]:
    """One group of every kind, by what it is."""
    topic = prompt.new_topic()
    consumer, simple, connect = a_consumer(prompt), new_group(), new_group()
    consumer.join(topic)
    commit(prompt, simple, topic)
    only_member(prompt, connect, protocol_type="connect")
    return {"consumer": consumer.group, "empty": an_empty_group(prompt), "simple": simple, "connect": connect}


def listed(ask: Asker, groups: dict[str, str], version: int = 5, **filters: list[str]) -> dict[str, Any]:
    """Those of the groups that are listed, by what they are."""
    found = {each.group_id: each for each in ask("ListGroups", version, **filters).groups}
    return {kind: found[group] for kind, group in groups.items() if group in found}


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_in_every_version(prompt: Asker, groups: dict[str, str], version: int) -> None:
    found = listed(prompt, groups, version)

    assert {kind: each.protocol_type for kind, each in found.items()} == {
        "consumer": "consumer",
        "empty": "consumer",
        "simple": "",
        "connect": "connect",
    }
    assert version < 4 or {kind: each.group_state for kind, each in found.items()} == {
        "consumer": "Stable",
        "empty": "Empty",
        "simple": "Empty",
        "connect": "Stable",
    }
    assert version < 5 or {kind: each.group_type for kind, each in found.items()} == {
        "consumer": "consumer",
        "empty": "classic",
        "simple": "classic",
        "connect": "classic",
    }


@pytest.mark.parametrize(
    ("filters", "kinds"),
    [
        ({"states_filter": ["Stable"]}, {"consumer", "connect"}),
        ({"states_filter": ["stable", "EMPTY"]}, {"consumer", "connect", "empty", "simple"}),
        ({"states_filter": ["PreparingRebalance"]}, set()),
        ({"states_filter": ["no such state"]}, set()),
        ({"types_filter": ["Consumer"]}, {"consumer"}),
        ({"types_filter": ["classic", "consumer"]}, {"consumer", "connect", "empty", "simple"}),
        ({"types_filter": ["no such type"]}, set()),
        ({"types_filter": ["classic"], "states_filter": ["Stable"]}, {"connect"}),
    ],
)
def test_groups_are_listed_by_state_and_type(
    prompt: Asker, groups: dict[str, str], filters: dict[str, Any], kinds: set[str]
) -> None:
    assert listed(prompt, groups, **filters).keys() == kinds


def test_a_broker_without_groups_lists_none() -> None:
    with kompat.testing.broker() as fresh:
        answer = Asker(fresh)("ListGroups", 5)

    assert (answer.error_code, answer.groups) == (ErrorCode.NONE, [])


def test_groups_are_listed_by_their_type(ask: Asker, group: str, topic: str) -> None:
    beat(ask, group, "m1", 0, topic)

    listed = ask("ListGroups", 5, types_filter=["share"], states_filter=["stable"]).groups

    assert (group, "share", "Stable", "share") in [
        (each.group_id, each.protocol_type, each.group_state, each.group_type) for each in listed
    ]
