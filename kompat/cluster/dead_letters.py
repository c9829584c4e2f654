"""Rules for the dead-letter topic of a group (`errors.deadletterqueue.topic.name`): pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kompat.cluster import names
from kompat.errors import ErrorCode, KafkaError

SETTING = "errors.deadletterqueue.topic.name"
PREFIX = "dlq."
SOURCE = "<topic>"  # stands for the topic that the records come from


def topic_for(setting: str, source: str) -> str | None:
    """The dead-letter topic for records of a topic. Records of a dead-letter topic have none: that would never end."""
    name = setting.replace(SOURCE, source)
    return None if not name or name == source or source.startswith(PREFIX) else name


def impossible(name: str) -> str | None:
    """Why a topic of this name cannot be a dead-letter topic; None: it can."""
    if names.is_internal(name):
        return f"{name} is an internal topic"
    return names.invalid_name(name)


def check(wanted: Mapping[str, str], changed: Collection[str]) -> None:
    """INVALID_CONFIG if no topic can have the name: rejected records would wait for it for ever."""
    name = wanted.get(SETTING, "")
    wrong = impossible(name.replace(SOURCE, "t")) if name and SETTING in changed else None
    if wrong is not None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{SETTING}={name}: {wrong}")
