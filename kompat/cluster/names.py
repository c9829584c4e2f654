"""Valid names of topics."""

import re
from collections.abc import Iterable

MAX_LENGTH = 249  # with a suffix of our own it still fits into a file name
CLUSTER_METADATA = "__cluster_metadata"
CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
KOMPAT_TRACE = "__kompat_trace"  # the events of traced records
INTERNAL = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE, KOMPAT_TRACE})

RESERVED = "__kompat"  # of internal topics, now or in later versions

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def invalid_name(name: str) -> str | None:
    """Why the name is not valid for a topic; None: it is."""
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
    """The key that colliding names share: in metrics `.` becomes `_`. None: the name cannot collide."""
    return name.replace(".", "_") if "." in name or "_" in name else None


def is_internal(name: str) -> bool:
    """Whether the name is that of an internal topic. Clients cannot create such a topic or write to it."""
    return name in INTERNAL or name == CLUSTER_METADATA or name.startswith(RESERVED)


def collision(name: str, others: Iterable[str]) -> str:
    return f"Topic '{name}' collides with existing topic: {', '.join(sorted(others))}"
