"""PRODUCER_FENCED is younger than transactions: older clients know it as INVALID_PRODUCER_EPOCH."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context


@contextmanager
def fenced_as(ctx: Context, first_version: int) -> Iterator[None]:
    """Returns the old error code to a client below `first_version` of its API."""
    try:
        yield
    except KafkaError as error:
        if error.code is ErrorCode.PRODUCER_FENCED and ctx.api_version < first_version:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH) from error
        raise
