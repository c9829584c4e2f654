"""What a pure state machine answers to a command."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Decision(Generic[R, T]):
    """Records that make the command true, and the reply that is due once they are committed."""

    records: Sequence[R]
    reply: T
