"""ShareFetch (key 78, v1-2): records for a member of a share group, which holds them from then on.

What the member fetches is its session's; a request carries changes of it, and acknowledgements of what it was given
before. Epoch 0 begins a session, -1 ends it and lets go of what the member holds. v2 may ask for no more than
`max_records` (KIP-1206), and may renew locks, which fetches nothing: the answer must not wait (KIP-1222). Who came to the
wrong broker is told the right one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers import leadership
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.descriptions import describe
from kompat.handlers.later import Later
from kompat.handlers.share_requests import Acknowledging, check_member, leader_of, said, unknown
from kompat.protocol.messages import ShareFetchRequest
from kompat.protocol.share_fetch import PartitionData, ShareFetchResponse, TopicData, encode_share_fetch_response
from kompat.share.fetching import Fetching
from kompat.share.machine.messages import AcquireMode
from kompat.share.requests import FetchedPartition, FetchRequest, TopicIdPartition
from kompat.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, ShareSession
from kompat.types import ZERO_UUID


def handle(ctx: Context, req: ShareFetchRequest) -> Later[ShareFetchResponse] | ShareFetchResponse:
    check_member(ctx, req.group_id, req.member_id)
    _check_renewal(req)
    mode = _mode(req.share_acquire_mode)
    acknowledged = said(req.topics)
    try:
        session = _session(ctx, req, has_acknowledgements=bool(acknowledged))
    except KafkaError as error:
        if error.code is not ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            raise
        return _Refusal(error, req.max_wait_ms)  # so that the client does not ask again at once
    return _ShareFetch(ctx, req, session, acknowledged, mode).start()


def _check_renewal(req: ShareFetchRequest) -> None:
    if req.is_renew_ack and (req.max_bytes or req.min_bytes or req.max_records or req.max_wait_ms):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "A request that renews locks must have 0 for all limits: it fetches nothing."
        )


def _session(ctx: Context, req: ShareFetchRequest, *, has_acknowledgements: bool) -> ShareSession:
    sessions = ctx.services.shares.sessions
    wanted = _partitions((topic.topic_id, [p.partition_index for p in topic.partitions]) for topic in req.topics)
    if req.share_session_epoch == INITIAL_EPOCH:
        if has_acknowledgements:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        return sessions.open(req.group_id, req.member_id, ctx.connection_id, wanted)
    session = sessions.find(req.group_id, req.member_id)
    if req.share_session_epoch != FINAL_EPOCH:
        session.advance(req.share_session_epoch)
        forgotten = _partitions((topic.topic_id, topic.partitions) for topic in req.forgotten_topics_data)
        session.update(wanted, forgotten)
    return session


def _partitions(topics: Iterable[tuple[Any, Sequence[int]]]) -> list[TopicIdPartition]:
    return [TopicIdPartition(topic_id or ZERO_UUID, index) for topic_id, indices in topics for index in indices]


class _Refusal(Later[ShareFetchResponse]):
    """An error that is told when the client's time is up."""

    __slots__ = ("_refusal", "_timer")

    def __init__(self, error: KafkaError, wait_ms: int) -> None:
        super().__init__()
        self._refusal = error
        self._timer = asyncio.get_running_loop().call_later(max(0, wait_ms) / 1000, self.hurry)

    def cancel(self) -> None:
        self._timer.cancel()

    def hurry(self) -> None:
        self._timer.cancel()
        self.set_exception(self._refusal)


class _ShareFetch(Later[ShareFetchResponse]):
    """One request: its acknowledgements and its fetch go side by side, the answer waits for both."""

    __slots__ = ("_acknowledging", "_ctx", "_errors", "_fetching", "_is_final", "_is_incremental", "_session")

    def __init__(
        self,
        ctx: Context,
        req: ShareFetchRequest,
        session: ShareSession,
        acknowledged: dict[TopicIdPartition, Sequence[Any]],
        mode: AcquireMode,
    ) -> None:
        super().__init__()
        self._ctx = ctx
        self._session = session
        self._is_final = req.share_session_epoch == FINAL_EPOCH
        self._is_incremental = not self._is_final and req.share_session_epoch != INITIAL_EPOCH
        self._errors: list[FetchedPartition] = []
        # First of all: what it frees can be fetched.
        self._acknowledging = Acknowledging(ctx, req.group_id, req.member_id, acknowledged, renew=req.is_renew_ack)
        self._fetching: Fetching | None = None
        if not self._is_final and not req.is_renew_ack:
            self._fetching = self._fetch(req, mode)

    def _fetch(self, req: ShareFetchRequest, mode: AcquireMode) -> Fetching:
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
                group_id=req.group_id,
                member_id=req.member_id,
                partitions=wanted[first:] + wanted[:first],
                max_records=req.max_records,
                batch_size=req.batch_size,
                max_bytes=min(req.max_bytes, self._ctx.services.fetch_max_bytes),
                min_bytes=req.min_bytes,
                max_wait_ms=0 if self._errors else req.max_wait_ms,
                mode=mode,
            )
        )

    def start(self) -> Later[ShareFetchResponse] | ShareFetchResponse:
        if self._is_ready():
            return self._response()
        self._acknowledging.when_done(self._one_ended)
        if self._fetching is not None:
            self._fetching.add_done_callback(self._one_ended)
        return self

    def _is_ready(self) -> bool:
        return self._acknowledging.is_done and (self._fetching is None or self._fetching.is_done)

    def _one_ended(self, _: object = None) -> None:
        if self._is_ready() and not self.is_done:
            self.set_result(self._response())

    def cancel(self) -> None:
        """The client is gone."""
        if self._fetching is not None:
            self._fetching.cancel()

    def hurry(self) -> None:
        """The broker is about to stop: answer now what would be answered later."""
        if self._fetching is not None and not self._fetching.is_done:
            self._fetching.hurry()

    # -- answering -------------------------------------------------------------------------------------------------
    def _response(self) -> ShareFetchResponse:
        shares, session = self._ctx.services.shares, self._session
        if self._is_final:
            shares.close_session(session.group_id, session.member_id)
        response = ShareFetchResponse()
        response.acquisition_lock_timeout_ms = shares.settings_of(session.group_id).lock_ms
        partitions: dict[TopicIdPartition, PartitionData] = {}
        found = self._fetching.result if self._fetching is not None else []
        for fetched in (*found, *self._errors):
            is_told = session.must_tell(
                fetched.partition, has_records=bool(fetched.acquired), has_failed=fetched.error is not None
            )
            if is_told or not self._is_incremental:
                partitions[fetched.partition] = _answer(fetched)
        for partition, error in self._acknowledging.errors.items():
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


def _fill(response: ShareFetchResponse, partitions: dict[TopicIdPartition, PartitionData]) -> None:
    topics: dict[object, TopicData] = {}
    for partition, data in partitions.items():
        topic = topics.get(partition.topic_id)
        if topic is None:
            topic = topics[partition.topic_id] = TopicData(partition.topic_id)
            response.responses.append(topic)
        topic.partitions.append(data)


def failure(_: ShareFetchRequest, error: KafkaError) -> ShareFetchResponse:
    return ShareFetchResponse(error.code, describe(error))


API = Api(
    key=78,
    name="ShareFetch",
    versions=Versions(1, 2),
    request=ShareFetchRequest,
    response=ShareFetchResponse,
    handle=handle,
    failure=failure,
    encode=encode_share_fetch_response,
)
