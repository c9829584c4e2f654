"""The cluster: brokers, who leads what, Raft's numbers, moving replicas, taking brokers out."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from kompat.admin.problems import check
from kompat.admin.raft import RaftGroup, raft_of
from kompat.admin.route import Call, Route
from kompat.admin.routes.topics import described
from kompat.admin.shapes import MOST_ITEMS, Answer, Body, Page, PageQuery, page
from kompat.admin.spread import brokers, together, unmovable
from kompat.cluster.names import CLUSTER_METADATA
from kompat.cluster.state import DRAIN, ResourceType
from kompat.errors import ErrorCode, KafkaError
from kompat.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    DescribeClusterRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest,
    MetadataRequest,
    UnregisterBrokerRequest,
)
from kompat.security.acls import Kind, Operation
from kompat.types import LogId, NodeId

SET, DELETE = 0, 1
PREFERRED, UNCLEAN = 0, 1
PATIENCE_MS = 30_000

TopicName = Annotated[str, Meta(max_length=249)]
Index = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class BrokerSummary(Answer):
    id: int
    host: str
    port: int
    rack: str | None
    state: Literal["up", "down", "draining"]
    is_alive: bool
    is_controller: bool
    leads: int  # partitions
    replicas: int
    unmovable: int  # replicas of one that is being drained which no other broker can take
    http: str | None  # host:port of its HTTP door; null where it has none, or cannot be asked
    version: str | None


class ClusterSummary(Answer):
    cluster_id: str
    controller: int | None
    version: str
    broker: int  # the one that answers
    under_replicated: int  # partitions of which a replica is behind, or gone
    leaderless: int
    brokers: list[BrokerSummary]


class Drained(Answer):
    broker: int
    draining: bool
    replicas: int  # that are left on it
    unmovable: int  # of these: those that no other broker can take


class RaftQuery(PageQuery):
    topic: TopicName | None = None
    partition: Index | None = None
    internal: bool = True


class Assignment(Body):
    topic: TopicName
    partition: Index
    replicas: Annotated[list[Index], Meta(min_length=1, max_length=1000)] | None  # null: stay, or go back


class Reassign(Body):
    assignments: Annotated[list[Assignment], Meta(min_length=1, max_length=MOST_ITEMS * 10)]


class Outcome(Answer):
    topic: str
    partition: int
    ok: bool
    error: str | UnsetType = UNSET  # Kafka's name of it
    reason: str | UnsetType = UNSET


class Outcomes(Answer):
    results: list[Outcome]


class Reassignment(Answer):
    topic: str
    partition: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]


class Place(Body):
    topic: TopicName
    partition: Index


class Election(Body):
    partitions: Annotated[list[Place], Meta(min_length=1, max_length=MOST_ITEMS * 10)] | None = None
    unclean: bool = False


# -- brokers -----------------------------------------------------------------------------------------------------------
async def get_cluster(call: Call) -> ClusterSummary:
    told = await call.send(DescribeClusterRequest(endpoint_type=1, include_fenced_brokers=True))
    check(told.error_code, told.error_message)
    alive = set(brokers(call))
    found = await together(_broker(call, each, told.controller_id, alive) for each in told.brokers)
    under_replicated, leaderless = _unwell(call)
    return ClusterSummary(
        cluster_id=told.cluster_id,
        controller=told.controller_id if told.controller_id >= 0 else None,
        version=call.services.version,
        broker=call.services.node_id,
        under_replicated=under_replicated,
        leaderless=leaderless,
        brokers=sorted(found, key=lambda broker: broker.id),
    )


async def _broker(call: Call, told: Any, controller: int, alive: set[NodeId]) -> BrokerSummary:
    node = NodeId(told.broker_id)
    is_alive = node == call.services.node_id or (node in alive and not told.is_fenced)
    itself = await _itself(call, node) if is_alive else {}
    is_leaving = node in call.services.cluster.image.leaving
    leads, replicas = _counts(call, node)
    return BrokerSummary(
        id=node,
        host=told.host,
        port=told.port,
        rack=told.rack,
        state="down" if not is_alive else "draining" if is_leaving else "up",
        is_alive=is_alive,
        is_controller=node == controller,
        leads=leads,
        replicas=replicas,
        unmovable=unmovable(call, node) if is_leaving else 0,
        http=itself.get("http") or None,
        version=itself.get("version"),
    )


async def _itself(call: Call, node: NodeId) -> dict[str, Any]:
    try:
        found: dict[str, Any] = await call.telling.ask(node, "broker")
    except KafkaError:  # it went away just now
        return {}
    return found


def _counts(call: Call, node: NodeId) -> tuple[int, int]:
    cluster = call.services.cluster
    leads = replicas = 0
    for topic in cluster.topics():
        for partition in topic.partitions:
            replicas += node in partition.replicas
            if cluster.member is None:
                leads += 1
            else:
                led = cluster.member.leaders.of(LogId(topic.id, partition.index))
                leads += led is not None and led.leader == node
    return leads, replicas


def _unwell(call: Call) -> tuple[int, int]:
    """How many partitions have fewer replicas in sync than they should have, and how many nobody leads."""
    cluster = call.services.cluster
    if cluster.member is None:
        return 0, 0
    member, under_replicated, leaderless = cluster.member, 0, 0
    for topic in cluster.topics():
        for partition in topic.partitions:
            led = member.leaders.of(LogId(topic.id, partition.index))
            in_sync = () if led is None else [node for node in led.in_sync if member.network.is_up(node)]
            under_replicated += len(in_sync) < len(partition.replicas)
            leaderless += led is None or led.leader is None
    return under_replicated, leaderless


async def get_broker(call: Call) -> BrokerSummary:
    cluster = await get_cluster(call)
    for broker in cluster.brokers:
        if broker.id == call.path["broker"]:
            return broker
    raise _unknown(call.path["broker"])


def _unknown(broker: int) -> KafkaError:
    return KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"There is no broker {broker}.")


async def drain(call: Call) -> Drained:
    return await _drain(call, is_wanted=True)


async def undrain(call: Call) -> Drained:
    return await _drain(call, is_wanted=False)


async def _drain(call: Call, *, is_wanted: bool) -> Drained:
    broker = NodeId(call.path["broker"])
    if broker not in call.services.cluster.brokers:
        raise _unknown(broker)
    if is_wanted and call.services.cluster.member is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "This broker is alone: nobody could take what it has.")
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    change = resource.AlterableConfig(
        name=DRAIN, config_operation=SET if is_wanted else DELETE, value="true" if is_wanted else None
    )
    wanted = resource(resource_type=ResourceType.BROKER, resource_name=str(broker), configs=[change])
    response = await call.send(IncrementalAlterConfigsRequest(resources=[wanted]))
    check(response.responses[0].error_code, response.responses[0].error_message)
    left, stuck = _counts(call, broker)[1], unmovable(call, broker) if is_wanted else 0
    return Drained(broker=broker, draining=is_wanted, replicas=left, unmovable=stuck)


async def unregister(call: Call) -> None:
    broker = call.path["broker"]
    if broker not in call.services.cluster.brokers:
        raise _unknown(broker)
    response = await call.send(UnregisterBrokerRequest(broker_id=broker))
    check(response.error_code, response.error_message)


# -- Raft --------------------------------------------------------------------------------------------------------------
async def raft(call: Call) -> Page[RaftGroup]:
    call.require(Operation.DESCRIBE, Kind.CLUSTER)
    query = call.query
    chosen = page(await _groups(call), lambda place: f"{place[0]}/{place[1]:010}", query.limit, query.cursor)
    return Page(items=await raft_of(call, chosen.items), next_cursor=chosen.next_cursor)


async def _groups(call: Call) -> list[tuple[str, int]]:
    query = call.query
    if query.topic == CLUSTER_METADATA:
        return [(CLUSTER_METADATA, 0)]
    if query.topic is not None:
        topics = [await described(call, query.topic)]
    else:
        response = await call.send(MetadataRequest(topics=None, allow_auto_topic_creation=False))
        check(response.error_code)
        topics = [topic for topic in response.topics if query.internal or not topic.is_internal]
    found = [(t.name, p.partition_index) for t in topics for p in t.partitions]
    if query.topic is None and query.internal:
        found.append((CLUSTER_METADATA, 0))
    if query.partition is None:
        return found
    chosen = [place for place in found if place[1] == query.partition]
    if not chosen:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {query.partition} of it.")
    return chosen


# -- replicas and leaders ----------------------------------------------------------------------------------------------
async def reassign(call: Call) -> Outcomes:
    kind = AlterPartitionReassignmentsRequest.ReassignableTopic
    topics: dict[str, list[Any]] = {}
    for each in call.body.assignments:
        part = kind.ReassignablePartition(partition_index=each.partition, replicas=each.replicas)
        topics.setdefault(each.topic, []).append(part)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=PATIENCE_MS, topics=[kind(name=name, partitions=parts) for name, parts in topics.items()]
    )
    response = await call.send(request)
    check(response.error_code, response.error_message)
    return Outcomes(
        results=[
            _outcome(topic.name, each.partition_index, each.error_code, each.error_message)
            for topic in response.responses
            for each in topic.partitions
        ]
    )


def _outcome(topic: str, partition: int, code: int, message: str | None) -> Outcome:
    if code == ErrorCode.NONE:
        return Outcome(topic=topic, partition=partition, ok=True)
    return Outcome(topic=topic, partition=partition, ok=False, error=ErrorCode(code).name, reason=message or UNSET)


async def reassignments(call: Call) -> Page[Reassignment]:
    response = await call.send(ListPartitionReassignmentsRequest(timeout_ms=PATIENCE_MS, topics=None))
    check(response.error_code, response.error_message)
    found = [
        Reassignment(
            topic=topic.name,
            partition=each.partition_index,
            replicas=list(each.replicas),
            adding=list(each.adding_replicas),
            removing=list(each.removing_replicas),
        )
        for topic in response.topics
        for each in topic.partitions
    ]
    return page(found, lambda each: f"{each.topic}/{each.partition:010}", call.query.limit, call.query.cursor)


async def elect(call: Call) -> Outcomes:
    body: Election = call.body or Election()
    wanted: list[Any] | None = None
    if body.partitions is not None:
        by_topic: dict[str, list[int]] = {}
        for place in body.partitions:
            by_topic.setdefault(place.topic, []).append(place.partition)
        kind = ElectLeadersRequest.TopicPartitions
        wanted = [kind(topic=topic, partitions=indexes) for topic, indexes in by_topic.items()]
    election = UNCLEAN if body.unclean else PREFERRED
    request = ElectLeadersRequest(election_type=election, topic_partitions=wanted, timeout_ms=PATIENCE_MS)
    response = await call.send(request)
    check(response.error_code)
    return Outcomes(
        results=[
            _outcome(topic.topic, each.partition_id, each.error_code, each.error_message)
            for topic in response.replica_election_results
            for each in topic.partition_result
        ]
    )


BROKER = "/v1/cluster/brokers/{broker}"
ROUTES = [
    Route(
        method="GET", path="/v1/cluster", handle=get_cluster, summary="The cluster and its brokers", tag="cluster",
        answer=ClusterSummary,
    ),
    Route(method="GET", path=BROKER, handle=get_broker, summary="A broker", tag="cluster", answer=BrokerSummary),
    Route(
        method="DELETE", path=BROKER, handle=unregister, summary="Forget a broker that was taken out", tag="cluster",
        description="Drain it first: what it has replicas of keeps them, out of reach.", problems=(409,),
    ),
    Route(
        method="POST", path=f"{BROKER}/drain", handle=drain, summary="Move all that a broker has to others", tag="cluster",
        answer=Drained, description="`replicas` tells how many are left; GET the broker to see it go down to 0. `unmovable` of them stay until there is another broker, or they have fewer replicas.",
    ),
    Route(
        method="DELETE", path=f"{BROKER}/drain", handle=undrain, summary="Let a broker have replicas again", tag="cluster",
        answer=Drained,
    ),
    Route(
        method="GET", path="/v1/cluster/raft", handle=raft, summary="Raft's numbers of partitions, as their leaders tell them",
        tag="cluster", query=RaftQuery, answer=Page[RaftGroup], problems=(404,),
    ),
    Route(
        method="POST", path="/v1/cluster/reassignments", handle=reassign, summary="Move partitions to other brokers",
        tag="cluster", body=Reassign, answer=Outcomes, description="`replicas` null cancels a move.",
    ),
    Route(
        method="GET", path="/v1/cluster/reassignments", handle=reassignments, summary="Partitions that are being moved",
        tag="cluster", query=PageQuery, answer=Page[Reassignment],
    ),
    Route(
        method="POST", path="/v1/cluster/elect-leaders", handle=elect, summary="Give partitions back to their preferred leader",
        tag="cluster", body=Election, is_body_optional=True, answer=Outcomes,
        description="Of the partitions named, or of all; then only those that needed it are answered.",
    ),
]  # fmt: skip
