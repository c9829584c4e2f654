"""GoQueue's acknowledgements by receipt, in its own JSON."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kompat.admin import queueing
from kompat.admin.messages import Duration, duration
from kompat.admin.problems import invalid
from kompat.admin.queueing import MOST_LOCK_MS, AcknowledgementResult, Receipt, Receipts
from kompat.admin.route import Call, Route
from kompat.admin.routes.goqueue import TAG, Given, GoQueueAnswer
from kompat.share import receipts


class AckRequest(Given):
    """One receipt, or several. The reason is kept only in a dead-letter record."""

    receipt_handle: Receipt | None = None
    receipt: Receipt | None = None
    receipts: Receipts | None = None
    reason: queueing.Reason | None = None


class NackRequest(AckRequest):
    delay: Duration | None = None


class VisibilityRequest(AckRequest):
    extension_seconds: Annotated[int, Meta(ge=1, le=MOST_LOCK_MS // 1000)] | None = None
    lock_ms: Annotated[int, Meta(ge=1, le=MOST_LOCK_MS)] | None = msgspec.field(default=None, name="lockMs")


class Outcome(GoQueueAnswer):
    """The position of a single record, or the results of several."""

    success: bool
    topic: str | UnsetType = UNSET
    partition: int | UnsetType = UNSET
    offset: int | UnsetType = UNSET
    results: list[AcknowledgementResult] | UnsetType = UNSET


async def ack(call: Call) -> Outcome:
    return await _acknowledge(call, call.services.queues.accept)


async def nack(call: Call) -> Outcome:
    delay = None if call.body.delay is None else duration(call.body.delay, "delay")
    if delay is not None and delay > MOST_LOCK_MS:
        raise invalid("The redelivery delay is one day at most.")
    return await _acknowledge(call, partial(call.services.queues.release, delay_ms=delay))


async def reject(call: Call) -> Outcome:
    return await _acknowledge(call, partial(call.services.queues.reject, reason=call.body.reason))


async def extend(call: Call) -> Outcome:
    body: VisibilityRequest = call.body
    lock_ms = body.lock_ms if body.extension_seconds is None else 1000 * body.extension_seconds
    return await _acknowledge(call, partial(call.services.queues.extend, lock_ms=lock_ms))


async def _acknowledge(call: Call, action: queueing.Acknowledge) -> Outcome:
    body: AckRequest = call.body
    single = body.receipt_handle or body.receipt
    if (single is None) == (body.receipts is None) or (body.receipt_handle is not None and body.receipt is not None):
        raise invalid("Give exactly one of `receipt_handle`, `receipt` and `receipts`.")
    given = [single] if single is not None else body.receipts or []
    outcomes = await queueing.acknowledge(call, given, action)
    if single is None:
        found = queueing.results(given, outcomes).results
        return Outcome(success=all(each.ok for each in found), results=found)
    if outcomes[0] is not None:
        raise outcomes[0]
    receipt = receipts.decode(single)
    topic = call.services.cluster.topic_by_id(receipt.partition.topic_id)
    return Outcome(
        success=True,
        topic=UNSET if topic is None else topic.name,
        partition=receipt.partition.partition,
        offset=receipt.offset,
    )


ROUTES = [
    *(
        Route(
            method="POST",
            path=f"/v1/messages/{name}",
            handle=handle,
            summary=summary,
            tag=TAG,
            body=body,
            answer=Outcome,
            problems=(404, 409, 507),
        )
        for name, handle, summary, body in (
            ("ack", ack, "Acknowledge a record", AckRequest),
            ("nack", nack, "Release a record for redelivery, at once or after a delay", NackRequest),
            ("reject", reject, "Reject a record: send it to the dead-letter topic", AckRequest),
            ("visibility", extend, "Renew the acquisition lock of a record", VisibilityRequest),
        )
    ),
]
