"""Which names a topic may have."""

import re
from collections.abc import Iterable

MAX_LENGTH = 249  # with a suffix of our own it still fits into a file name
CLUSTER_METADATA = "__cluster_metadata"
CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
KOMPAT_TRACE = "__kompat_trace"  # what happened to traced records
INTERNAL = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE, KOMPAT_TRACE})

RESERVED = "__kompat"  # of topics that the broker makes for itself, now or some day

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def invalid_name(name: str) -> str | None:
    """Why a topic may not have this name; None: it may."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > MAX_LENGTH:
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {MAX_LENGTH}"
    if not _LEGAL.fullmatch(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters "
            "other than ASCII alphanumerics, '.', '_' and '-'"
        )
    if name.startswith(RESERVED) and name not in INTERNAL:
        return f"Topic name is invalid: names that begin with '{RESERVED}' are the broker's own"
    return None


def folded(name: str) -> str | None:
    """What the names that collide with this one have in common: in metrics `.` becomes `_`. None: none can."""
    return name.replace(".", "_") if "." in name or "_" in name else None


def is_internal(name: str) -> bool:
    """Is the name one of the broker's own topics? Nobody else makes such a topic or writes to it."""
    return name in INTERNAL or name == CLUSTER_METADATA or name.startswith(RESERVED)


def collision(name: str, others: Iterable[str]) -> str:
    return f"Topic '{name}' collides with existing topic: {', '.join(sorted(others))}"
