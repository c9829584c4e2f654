"""Topics: list, create, describe, grow, delete, cut off."""

from __future__ import annotations

from kompat.admin.problems import check
from kompat.admin.route import Call, Route
from kompat.admin.shapes import Answer, Page, PageQuery, page
from kompat.protocol.messages import MetadataRequest, MetadataResponse


class TopicsQuery(PageQuery):
    search: str = ""
    internal: bool = False


class TopicSummary(Answer):
    name: str
    topic_id: str
    partitions: int
    replication_factor: int
    internal: bool
    under_replicated: int


async def list_topics(call: Call) -> Page[TopicSummary]:
    query = call.query
    response = await call.send(MetadataRequest(topics=None, allow_auto_topic_creation=False))
    check(response.error_code)
    found = [
        topic for topic in response.topics if query.search in topic.name and (query.internal or not topic.is_internal)
    ]
    chosen = page(found, lambda topic: str(topic.name), query.limit, query.cursor)
    return Page(items=[_summary(topic) for topic in chosen.items], next_cursor=chosen.next_cursor)


def _summary(topic: MetadataResponse.MetadataResponseTopic) -> TopicSummary:
    return TopicSummary(
        name=topic.name,
        topic_id=str(topic.topic_id),
        partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replica_nodes),
        internal=topic.is_internal,
        under_replicated=sum(len(p.isr_nodes) < len(p.replica_nodes) for p in topic.partitions),
    )


ROUTES = [
    Route(
        method="GET", path="/v1/topics", handle=list_topics, summary="List topics", tag="topics",
        query=TopicsQuery, answer=Page[TopicSummary],
    ),
]  # fmt: skip
