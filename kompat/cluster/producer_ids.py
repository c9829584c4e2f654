"""Producer ids: the controller allocates them to brokers in blocks, so that few producers have to wait for it."""

from __future__ import annotations

import asyncio

from kompat.cluster.messages import AllocateProducerIds
from kompat.errors import ErrorCode, KafkaError
from kompat.rpc.messages import CONTROLLER
from kompat.rpc.router import Router
from kompat.types import ProducerId


class ProducerIds:
    def __init__(self, rpc: Router) -> None:
        self._rpc = rpc
        self._block = iter(range(0))
        self._allocating: asyncio.Task[None] | None = None

    async def next(self) -> ProducerId:
        """An unused producer id."""
        while (found := next(self._block, None)) is None:
            if self._allocating is None:
                self._allocating = asyncio.ensure_future(self._take_block())
                self._allocating.add_done_callback(lambda done: None if done.cancelled() else done.exception())
            await asyncio.shield(self._allocating)
        return ProducerId(found)

    async def _take_block(self) -> None:
        """Resets itself in its last step: a caller between that and a callback would wait for a finished task in a busy loop."""
        try:
            self._block = iter(range(*await self._rpc.call(CONTROLLER, AllocateProducerIds())))
        except KafkaError as error:
            if error.code is not ErrorCode.NOT_CONTROLLER:
                raise
            # Producers of all versions retry on this error; they do not know controllers.
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, error.message) from error
        finally:
            self._allocating = None
