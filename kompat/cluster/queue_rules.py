"""Rules for queue topics (`kompat.queue.source`): pure, like those for other settings."""

from __future__ import annotations

from collections.abc import Mapping

from kompat.cluster import names
from kompat.cluster.state import ClusterState
from kompat.errors import ErrorCode, KafkaError

SOURCE = "kompat.queue.source"
ORDER = "kompat.delivery.order"
# A record in a queue topic's log is not needed any more when it is acknowledged: the log start moves on, whatever the age,
# and small segments free the space.
_DEFAULTS = {"retention.ms": "-1", "segment.bytes": str(16 << 20)}


def with_defaults(configs: Mapping[str, str]) -> dict[str, str]:
    """The default configs of a new topic."""
    return {**_DEFAULTS, **configs} if configs.get(SOURCE) else dict(configs)


def check_new(state: ClusterState, name: str, configs: Mapping[str, str]) -> None:
    """INVALID_CONFIG if a topic cannot be a queue with these configs."""
    source = configs.get(SOURCE)
    if not source:
        return
    if source == name:
        raise _invalid(f"{name} cannot be a queue of itself")
    found = state.topics.get(source)
    if found is None:
        raise _invalid(f"there is no topic {source}")
    if names.is_internal(source):
        raise _invalid(f"{source} is the broker's own")
    if found.configs.get(SOURCE):
        raise _invalid(f"{source} is a queue topic itself")
    _check_log(configs)


def check_change(name: str, before: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """A topic cannot become a queue, or stop being one: its log would be misread."""
    if before.get(SOURCE, "") != wanted.get(SOURCE, ""):
        raise _invalid(f"{name} was created {'as' if before.get(SOURCE) else 'not as'} a queue topic, and stays so")
    if wanted.get(SOURCE):
        _check_log(wanted)


def _check_log(configs: Mapping[str, str]) -> None:
    if configs.get("cleanup.policy", "delete") != "delete":
        raise _invalid("the cleanup.policy of a queue topic is delete")
    if configs.get(ORDER, "offset") != "offset":
        raise _invalid(f"{ORDER} is for the source of a queue topic, not for itself")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, f"{SOURCE}: {message}.")
