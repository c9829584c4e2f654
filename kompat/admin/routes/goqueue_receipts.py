"""GoQueue's acknowledgements by receipt, in its own shapes."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kompat.admin import queueing
from kompat.admin.messages import Duration, duration
from kompat.admin.problems import invalid
from kompat.admin.queueing import MOST_LOCK_MS, Receipt, Receipts, Settled
from kompat.admin.route import Call, Route
from kompat.admin.routes.goqueue import TAG, Given, Told
from kompat.share import receipts


class Word(Given):
    """One receipt, or several. A dead letter tells the reason; else it is not kept."""

    receipt_handle: Receipt | None = None
    receipt: Receipt | None = None
    receipts: Receipts | None = None
    reason: queueing.Reason | None = None


class NackWord(Word):
    delay: Duration | None = None


class VisibilityWord(Word):
    extension_seconds: Annotated[int, Meta(ge=1, le=MOST_LOCK_MS // 1000)] | None = None
    lock_ms: Annotated[int, Meta(ge=1, le=MOST_LOCK_MS)] | None = msgspec.field(default=None, name="lockMs")


class Outcome(Told):
    """Where the one record is; or, of several, what became of each word."""

    success: bool
    topic: str | UnsetType = UNSET
    partition: int | UnsetType = UNSET
    offset: int | UnsetType = UNSET
    results: list[Settled] | UnsetType = UNSET


async def ack(call: Call) -> Outcome:
    return await _settle(call, call.services.queues.accept)


async def nack(call: Call) -> Outcome:
    delay = None if call.body.delay is None else duration(call.body.delay, "delay")
    if delay is not None and delay > MOST_LOCK_MS:
        raise invalid("A record can be held back for a day at most.")
    return await _settle(call, partial(call.services.queues.release, delay_ms=delay))


async def reject(call: Call) -> Outcome:
    return await _settle(call, partial(call.services.queues.reject, reason=call.body.reason))


async def extend(call: Call) -> Outcome:
    body: VisibilityWord = call.body
    lock_ms = body.lock_ms if body.extension_seconds is None else 1000 * body.extension_seconds
    return await _settle(call, partial(call.services.queues.extend, lock_ms=lock_ms))


async def _settle(call: Call, word: queueing.Settle) -> Outcome:
    body: Word = call.body
    single = body.receipt_handle or body.receipt
    if (single is None) == (body.receipts is None) or (body.receipt_handle is not None and body.receipt is not None):
        raise invalid("Give one of `receipt_handle`, `receipt` and `receipts`.")
    given = [single] if single is not None else body.receipts or []
    outcomes = await queueing.settle(call, given, word)
    if single is None:
        told = queueing.results(given, outcomes).results
        return Outcome(success=all(each.ok for each in told), results=told)
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
            ("ack", ack, "Say that a record is done with", Word),
            ("nack", nack, "Let others have a record, at once or later", NackWord),
            ("reject", reject, "Make a record a dead letter", Word),
            ("visibility", extend, "Keep a record for longer", VisibilityWord),
        )
    ),
]
