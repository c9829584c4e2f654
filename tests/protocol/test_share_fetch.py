"""The hand-written answer to ShareFetch says what the schema's codec says."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kompat.protocol.codec import encode_response, frame_response
from kompat.protocol.messages import ShareFetchResponse as Message
from kompat.protocol.produce import CurrentLeader, NodeEndpoint
from kompat.protocol.share_fetch import PartitionData, ShareFetchResponse, TopicData, encode_share_fetch_response

SHORT, LONG = st.integers(-(2**15), 2**15 - 1), st.integers(-(2**63), 2**63 - 1)
TEXT = st.none() | st.text(max_size=200)
LEADER = st.none() | st.builds(CurrentLeader, st.integers(0, 2**31 - 1), st.integers(-1, 2**31 - 1))
ENDPOINTS = st.lists(
    st.builds(
        NodeEndpoint,
        st.integers(0, 2**31 - 1),
        st.text(max_size=20),
        st.integers(0, 2**16 - 1),
        st.none() | st.text(max_size=20),
    ),
    max_size=2,
)
ACQUIRED = st.lists(st.tuples(LONG, LONG, SHORT), max_size=3)


@st.composite
def partitions(draw: st.DrawFn) -> PartitionData:
    data = PartitionData(draw(st.integers(0, 2**31 - 1)))
    data.error_code, data.error_message = draw(SHORT), draw(TEXT)
    data.acknowledge_error_code, data.acknowledge_error_message = draw(SHORT), draw(TEXT)
    data.current_leader = draw(LEADER)
    data.records = draw(st.lists(st.binary(min_size=1, max_size=200), max_size=3))
    data.acquired_records = draw(ACQUIRED)
    return data


@st.composite
def responses(draw: st.DrawFn) -> ShareFetchResponse:
    response = ShareFetchResponse(draw(SHORT), draw(TEXT))
    response.acquisition_lock_timeout_ms = draw(st.integers(0, 2**31 - 1))
    response.node_endpoints = draw(ENDPOINTS)
    for number in range(draw(st.integers(0, 2))):
        topic = TopicData(UUID(int=number + 1))
        topic.partitions = draw(st.lists(partitions(), max_size=3))
        response.responses.append(topic)
    return response


def by_schema(response: ShareFetchResponse) -> Message:
    topic_class = Message.ShareFetchableTopicResponse
    partition_class = topic_class.PartitionData
    return Message(
        throttle_time_ms=0,
        error_code=response.error_code,
        error_message=response.error_message,
        acquisition_lock_timeout_ms=response.acquisition_lock_timeout_ms,
        responses=[
            topic_class(
                topic_id=topic.topic_id,
                partitions=[
                    partition_class(
                        partition_index=p.partition_index,
                        error_code=p.error_code,
                        error_message=p.error_message,
                        acknowledge_error_code=p.acknowledge_error_code,
                        acknowledge_error_message=p.acknowledge_error_message,
                        current_leader=partition_class.LeaderIdAndEpoch(
                            leader_id=0 if p.current_leader is None else p.current_leader.leader_id,
                            leader_epoch=0 if p.current_leader is None else p.current_leader.leader_epoch,
                        ),
                        records=b"".join(p.records),
                        acquired_records=[
                            partition_class.AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
                            for first, last, count in p.acquired_records
                        ],
                    )
                    for p in topic.partitions
                ],
            )
            for topic in response.responses
        ],
        node_endpoints=[
            Message.NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in response.node_endpoints
        ],
    )


@pytest.mark.parametrize("version", [1, 2])
@given(response=responses())
def test_both_codecs_write_the_same(version: int, response: ShareFetchResponse) -> None:
    by_hand = frame_response(7, 78, version, encode_share_fetch_response(version, response))
    assert b"".join(by_hand) == b"".join(encode_response(7, Message, version, by_schema(response)))
