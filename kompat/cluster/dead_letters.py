"""Rules for the topic that a group's dead letters go to (`errors.deadletterqueue.topic.name`): pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kompat.cluster import names
from kompat.errors import ErrorCode, KafkaError

SETTING = "errors.deadletterqueue.topic.name"
PREFIX = "dlq."
SOURCE = "<topic>"  # stands for the topic that the records come from


def topic_for(setting: str, source: str) -> str | None:
    """Where dead letters of records from a topic go. Those of dead letters would have no end."""
    name = setting.replace(SOURCE, source)
    return None if not name or name == source or source.startswith(PREFIX) else name


def impossible(name: str) -> str | None:
    """Why dead letters can never go to a topic of this name; None: they can."""
    if names.is_internal(name):
        return f"{name} is an internal topic"
    return names.invalid_name(name)


def check(wanted: Mapping[str, str], changed: Collection[str]) -> None:
    """INVALID_CONFIG where no topic can have the name: records that the group gives up would wait for one for ever."""
    name = wanted.get(SETTING, "")
    wrong = impossible(name.replace(SOURCE, "t")) if name and SETTING in changed else None
    if wrong is not None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{SETTING}={name}: {wrong}")
