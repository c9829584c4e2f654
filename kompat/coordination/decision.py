"""The result of a command to a pure state machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Decision(Generic[R, T]):
    """The records with the effect of a command, and the reply that is due once they are committed."""

    records: Sequence[R]
    reply: T
