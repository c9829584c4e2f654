"""ShareFetch: acquire records for a member of a share group.

The session has the partitions that the member fetches; a request has changes of them, and acknowledgements of records that were
acquired before. Epoch 0 begins a session, -1 ends it and releases what the member holds. v2 may limit the records to
`max_records` (KIP-1206), and may renew locks, which fetches nothing: the response must not wait (KIP-1222). A broker that does
not lead returns the current leader.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kompat.common.promise import Promise, all_of
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support import leadership
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.descriptions import describe
from kompat.handlers.support.share_requests import (
    Member,
    acknowledge,
    acknowledgement_batches,
    check_member,
    leader_of,
    unknown,
)
from kompat.log.long_poll import LongPoll
from kompat.protocol.messages import ShareFetchRequest
from kompat.protocol.share_fetch import PartitionData, ShareFetchResponse, TopicData, encode_share_fetch_response
from kompat.share.fetching import DelayedShareFetch
from kompat.share.machine.messages import AcquireMode
from kompat.share.requests import FetchedPartition, FetchRequest
from kompat.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, ShareSession
from kompat.types import ZERO_UUID, LogId

if TYPE_CHECKING:
    from kompat.handlers.support.share_requests import Batches


def handle(ctx: Context, req: ShareFetchRequest) -> Promise[ShareFetchResponse] | ShareFetchResponse:
    member = check_member(ctx, req)
    _check_renewal(req)
    mode = _mode(req.share_acquire_mode)
    acknowledged = acknowledgement_batches(req)
    try:
        session = _session(ctx, req, member, has_acknowledgements=bool(acknowledged))
    except KafkaError as error:
        if error.code is not ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            raise
        return _Refusal(error, req.max_wait_ms).start()  # so that the client does not retry at once
    return _ShareFetch(ctx, req, member, session, acknowledged, mode).start()


def _check_renewal(req: ShareFetchRequest) -> None:
    if req.is_renew_ack and (req.max_bytes or req.min_bytes or req.max_records or req.max_wait_ms):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "A request that renews locks must have 0 for all limits: it fetches nothing."
        )


def _session(ctx: Context, req: ShareFetchRequest, member: Member, *, has_acknowledgements: bool) -> ShareSession:
    sessions = ctx.services.shares.sessions
    wanted = _partitions((topic.topic_id, [p.partition_index for p in topic.partitions]) for topic in req.topics)
    if req.share_session_epoch == INITIAL_EPOCH:
        if has_acknowledgements:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        return sessions.open(*member, ctx.connection_id, wanted)
    session = sessions.find(*member)
    if req.share_session_epoch != FINAL_EPOCH:
        session.advance(req.share_session_epoch)
        forgotten = _partitions((topic.topic_id, topic.partitions) for topic in req.forgotten_topics_data)
        session.update(wanted, forgotten)
    return session


def _partitions(topics: Iterable[tuple[UUID | None, Sequence[int]]]) -> list[LogId]:
    return [LogId(topic_id or ZERO_UUID, index) for topic_id, indices in topics for index in indices]


class _Refusal(LongPoll[ShareFetchResponse]):
    """An error that is returned after `max_wait_ms`."""

    __slots__ = ("_refusal",)

    def __init__(self, error: KafkaError, max_wait_ms: int) -> None:
        super().__init__(max_wait_ms)
        self._refusal = error

    def try_complete(self) -> None:
        if self.is_expired:
            self.fail(self._refusal)


class _ShareFetch(Promise[ShareFetchResponse]):
    """One request: its acknowledgements and its fetch go side by side, the answer waits for both."""

    __slots__ = ("_acknowledged", "_ctx", "_errors", "_fetching", "_is_final", "_is_incremental", "_session")

    def __init__(
        self,
        ctx: Context,
        req: ShareFetchRequest,
        member: Member,
        session: ShareSession,
        acknowledged: dict[LogId, Batches],
        mode: AcquireMode,
    ) -> None:
        super().__init__()
        self._ctx = ctx
        self._session = session
        self._is_final = req.share_session_epoch == FINAL_EPOCH
        self._is_incremental = not self._is_final and req.share_session_epoch != INITIAL_EPOCH
        self._errors: list[FetchedPartition] = []
        # First of all: what it frees can be fetched.
        self._acknowledged = acknowledge(ctx, member, acknowledged, renew=req.is_renew_ack)
        self._fetching: DelayedShareFetch | None = None
        if not self._is_final and not req.is_renew_ack:
            self._fetching = self._fetch(req, member, mode)

    def _fetch(self, req: ShareFetchRequest, member: Member, mode: AcquireMode) -> DelayedShareFetch:
        wanted = []
        for partition in self._session.partitions:
            error = unknown(self._ctx, partition)
            if error is None:
                wanted.append(partition)
            else:
                self._errors.append(FetchedPartition(partition, error=error))
        first = req.share_session_epoch % len(wanted) if wanted else 0
        return self._ctx.services.shares.fetch(
            FetchRequest(
                group_id=member.group_id,
                member_id=member.member_id,
                partitions=wanted[first:] + wanted[:first],
                max_records=req.max_records,
                batch_size=req.batch_size,
                max_bytes=min(req.max_bytes, self._ctx.services.fetch_max_bytes),
                min_bytes=req.min_bytes,
                max_wait_ms=0 if self._errors else req.max_wait_ms,
                mode=mode,
            )
        )

    def start(self) -> Promise[ShareFetchResponse] | ShareFetchResponse:
        awaited: list[Promise[Any]] = [self._acknowledged]
        if self._fetching is not None:
            awaited.append(self._fetching)
        both = all_of(awaited)
        if both.is_done:
            return self._response()
        both.add_done_callback(self._answer)
        return self

    def _answer(self, _: object) -> None:
        try:
            response = self._response()
        except Exception as error:  # noqa: BLE001 - the dispatcher answers whatever it is, and logs it
            self.fail(error)
        else:
            self.resolve(response)

    def cancel(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()

    def complete_now(self) -> None:
        if self._fetching is not None:
            self._fetching.complete_now()

    # -- answering -------------------------------------------------------------------------------------------------
    def _response(self) -> ShareFetchResponse:
        shares, session = self._ctx.services.shares, self._session
        if self._is_final:
            shares.close_session(session.group_id, session.member_id)
        response = ShareFetchResponse()
        response.acquisition_lock_timeout_ms = shares.settings_of(session.group_id).lock_ms
        partitions: dict[LogId, PartitionData] = {}
        found = self._fetching.result() if self._fetching is not None else []
        for fetched in (*found, *self._errors):
            is_included = session.must_report(
                fetched.partition, has_records=bool(fetched.acquired), has_failed=fetched.error is not None
            )
            if is_included or not self._is_incremental:
                partitions[fetched.partition] = _answer(fetched)
        for partition, error in self._acknowledged.result().items():
            data = partitions.setdefault(partition, PartitionData(partition.partition))
            if error is not None:
                data.acknowledge_error_code = error.code
                data.acknowledge_error_message = describe(error)
        for partition, data in partitions.items():
            data.current_leader = leader_of(self._ctx, partition, data.error_code, data.acknowledge_error_code)
        leaders = [data.current_leader for data in partitions.values() if data.current_leader is not None]
        response.node_endpoints = leadership.endpoints(self._ctx, leaders)
        _fill(response, partitions)
        return response


def _mode(mode: int) -> AcquireMode:
    try:
        return AcquireMode(mode)
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"share acquire mode {mode} does not exist") from None


def _answer(fetched: FetchedPartition) -> PartitionData:
    data = PartitionData(fetched.partition.partition)
    if fetched.error is not None:
        data.error_code = fetched.error.code
        data.error_message = describe(fetched.error)
    data.records = fetched.buffers
    data.acquired_records = fetched.acquired
    return data


def _fill(response: ShareFetchResponse, partitions: dict[LogId, PartitionData]) -> None:
    topics: dict[object, TopicData] = {}
    for partition, data in partitions.items():
        topic = topics.get(partition.topic_id)
        if topic is None:
            topic = topics[partition.topic_id] = TopicData(partition.topic_id)
            response.responses.append(topic)
        topic.partitions.append(data)


def failure(_: ShareFetchRequest, error: KafkaError) -> ShareFetchResponse:
    return ShareFetchResponse(error.code, describe(error))


HANDLER = Handler(
    ShareFetchRequest,
    ShareFetchResponse,
    handle,
    failure,
    encode=encode_share_fetch_response,
)
