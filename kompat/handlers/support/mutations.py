"""Partitions that a request creates or deletes, by its client's quota (`controller_mutation_rate`).

Clients of newer versions get THROTTLING_QUOTA_EXCEEDED, and retry; for older ones the request is done, and they are throttled.
"""

from __future__ import annotations

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context


class Mutations:
    def __init__(self, ctx: Context, first_strict_version: int) -> None:
        self._ctx = ctx
        self._is_strict = ctx.api_version >= first_strict_version
        self.is_counted = ctx.services.quotas.is_enabled
        self.throttle_ms = 0  # that the client has to wait

    def charge(self, partitions: int) -> KafkaError | None:
        """The error that the client gets where its quota is exceeded."""
        if not self.is_counted:
            return None
        ctx = self._ctx
        waits = ctx.services.quotas.mutated(ctx.principal, ctx.client_id, partitions, is_strict=self._is_strict)
        self.throttle_ms = max(self.throttle_ms, waits)
        return KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED) if waits and self._is_strict else None
