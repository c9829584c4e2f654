"""The answer to a Produce request: it waits for all of its appends."""

from __future__ import annotations

from kompat.common.promise import Promise, all_of, within
from kompat.errors import ErrorCode, KafkaError, ProtocolError, kafka_error
from kompat.handlers.support import leadership
from kompat.handlers.support.base import Context
from kompat.handlers.support.produce_order import refusal
from kompat.log.partition import Appended, Partition
from kompat.log.validation import InvalidRecordsError
from kompat.protocol.produce import (
    PartitionResponse,
    ProduceRequest,
    ProduceResponse,
    RecordError,
    TopicData,
)

ALL = -1
UNKNOWN_OFFSET = -1

# An append whose end the answer waits for, and its batch. No class: every Produce makes one.
_UnderWay = tuple[TopicData, PartitionResponse, Promise[None], Partition, memoryview]


class Reply(Promise[ProduceResponse | None]):
    """The answer to one request, due when every append under way has ended, or when time is up; with acks=0 there is none.

    That is waited for all the same: what comes behind it on the connection is to find its records.
    """

    __slots__ = ("_acks", "_ctx", "_is_replicated", "_seconds", "_under_way", "response")

    def __init__(self, ctx: Context, req: ProduceRequest) -> None:
        super().__init__()
        self.response = ProduceResponse([])
        self._ctx = ctx
        self._acks = req.acks
        self._seconds = req.timeout_ms / 1000
        self._under_way: list[_UnderWay] = []
        self._is_replicated = False  # it waits for other replicas, and so may have to wait until its timeout

    def started(
        self, topic: TopicData, partition: Partition, records: memoryview, appended: Appended
    ) -> PartitionResponse:
        response = PartitionResponse(
            partition.index,
            ErrorCode.NONE,
            appended.base_offset,
            appended.log_append_time,
            appended.log_start_offset,
        )
        commit = appended.written
        if self._acks == ALL and appended.pending is not commit:
            commit = appended.pending
            self._is_replicated = True
        self._under_way.append((topic, response, commit, partition, records))
        return response

    def refused(
        self, topic: TopicData, index: int, error: KafkaError, log_start_offset: int = UNKNOWN_OFFSET
    ) -> PartitionResponse:
        response = refused_partition(index, error, log_start_offset)
        if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self._point_out(topic, response)
        return response

    def _point_out(self, topic: TopicData, response: PartitionResponse) -> None:
        leader = leadership.current_leader(self._ctx, topic.name, topic.topic_id, response.index)
        if leader is not None:
            response.current_leader = leader
            known = {each.node_id for each in self.response.node_endpoints}
            if leader.leader_id not in known:
                found = leadership.endpoints(self._ctx, [leader])
                self.response.node_endpoints = [*self.response.node_endpoints, *found]

    def when_committed(self) -> Promise[ProduceResponse | None] | ProduceResponse | None:
        # Partitions with one replica share the turn's promise, so there is mostly one to wait for.
        commits = [commit for _, _, commit, _, _ in self._under_way if not commit.is_done]
        if not commits:
            return self._answer()
        committed = all_of(commits)
        if self._is_replicated:  # what is not committed in time may still be later, without a response
            committed = within(committed, self._seconds)
        committed.add_done_callback(self._committed)
        return self

    def _committed(self, _: object) -> None:
        try:
            response = self._answer()
        except ProtocolError as error:
            self.fail(error)
        else:
            self.resolve(response)

    def _answer(self) -> ProduceResponse | None:
        """Raises ProtocolError."""
        for topic, response, commit, partition, records in self._under_way:
            if not commit.is_done:
                response.refuse(ErrorCode.REQUEST_TIMED_OUT, "")
            elif commit.error is not None:
                error = kafka_error(commit.error)
                refusal(partition, records, error)  # so that those behind it come after it
                response.refuse(error.code, error.message)
                if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    self._point_out(topic, response)
        if self._acks == 0:
            _close_on_error(self.response)
            return None
        return self.response


def refused_partition(index: int, error: KafkaError, log_start_offset: int = UNKNOWN_OFFSET) -> PartitionResponse:
    response = PartitionResponse(index, error.code, UNKNOWN_OFFSET, UNKNOWN_OFFSET, UNKNOWN_OFFSET)
    response.error_message = error.message or None
    if isinstance(error, InvalidRecordsError):
        response.log_start_offset = log_start_offset
        response.record_errors = [RecordError(e.batch_index, e.message) for e in error.record_errors]
    return response


def _close_on_error(response: ProduceResponse) -> None:
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code != ErrorCode.NONE:
                raise ProtocolError(
                    f"produce with acks=0 to {topic.name}-{partition.index} failed: {ErrorCode(partition.error_code).name}"
                )
