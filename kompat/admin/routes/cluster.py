"""The cluster: brokers, leaders, Raft state, reassignments, draining and unregistering brokers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from kompat.admin.broker_info import BrokerDescription, DescribeBroker, RaftGroup
from kompat.admin.fan_out import SHARE_SECONDS, brokers, together, unmovable
from kompat.admin.problems import check
from kompat.admin.raft import raft_of
from kompat.admin.route import Call, Route
from kompat.admin.routes.topics import described
from kompat.admin.shapes import MOST_ITEMS, Answer, Body, Page, PageQuery, page
from kompat.cluster.names import CLUSTER_METADATA
from kompat.cluster.state import DRAIN, PartitionState, ResourceType
from kompat.common.slices import sliced
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
    unmovable: int  # replicas on a draining broker that no other broker can take
    in_doubt: int | None  # replicas that do not vote or count as in sync until they have caught up; null: unknown
    http: str | None  # host:port of its HTTP port; null if it has none, or cannot be reached
    version: str | None


class ClusterSummary(Answer):
    cluster_id: str
    controller: int | None
    version: str
    broker: int  # that has sent this response
    under_replicated: int  # partitions with a replica that is not in sync
    offline: int
    in_doubt: int  # replicas of all brokers: their data directory was emptied or restored to an older state
    brokers: list[BrokerSummary]


class Drained(Answer):
    broker: int
    draining: bool
    replicas: int  # left on the broker
    unmovable: int  # those of them that no other broker can take


class RaftQuery(PageQuery):
    topic: TopicName | None = None
    partition: Index | None = None
    internal: bool = True


class Assignment(Body):
    topic: TopicName
    partition: Index
    replicas: Annotated[list[Index], Meta(min_length=1, max_length=1000)] | None  # null: cancel the reassignment


class Reassign(Body):
    assignments: Annotated[list[Assignment], Meta(min_length=1, max_length=MOST_ITEMS * 10)]


class Outcome(Answer):
    topic: str
    partition: int
    ok: bool
    error: str | UnsetType = UNSET  # Kafka's name of the error
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
    described = await call.send(DescribeClusterRequest(endpoint_type=1, include_fenced_brokers=True))
    check(described.error_code, described.error_message)
    alive = set(brokers(call))
    found = await together(_broker(call, each, described.controller_id, alive) for each in described.brokers)
    under_replicated, offline = await _unhealthy(call)
    return ClusterSummary(
        cluster_id=described.cluster_id,
        controller=described.controller_id if described.controller_id >= 0 else None,
        version=call.services.version,
        broker=call.services.node_id,
        under_replicated=under_replicated,
        offline=offline,
        in_doubt=sum(each.in_doubt or 0 for each in found),
        brokers=sorted(found, key=lambda broker: broker.id),
    )


async def _broker(call: Call, described: Any, controller: int, alive: set[NodeId]) -> BrokerSummary:
    node = NodeId(described.broker_id)
    is_alive = node == call.services.node_id or (node in alive and not described.is_fenced)
    itself = await _itself(call, node) if is_alive else BrokerDescription()
    is_leaving = node in call.services.cluster.image.leaving
    leads, replicas = await _counts(call, node)
    return BrokerSummary(
        id=node,
        host=described.host,
        port=described.port,
        rack=described.rack,
        state="down" if not is_alive else "draining" if is_leaving else "up",
        is_alive=is_alive,
        is_controller=node == controller,
        leads=leads,
        replicas=replicas,
        unmovable=unmovable(call, node) if is_leaving else 0,
        in_doubt=itself.in_doubt,
        http=itself.http or None,
        version=itself.version,
    )


async def _itself(call: Call, node: NodeId) -> BrokerDescription:
    try:
        return await call.services.cluster.rpc.call(node, DescribeBroker())
    except KafkaError:  # it has just stopped
        return BrokerDescription()


async def _counts(call: Call, node: NodeId) -> tuple[int, int]:
    """How many partitions a broker leads, and of how many it has a replica. It is called for many brokers in the same turn."""
    cluster = call.services.cluster
    leads = replicas = 0
    async for log_id, partition in sliced(_all_partitions(call), SHARE_SECONDS):
        replicas += node in partition.replicas
        leads += cluster.local.leader(log_id) == node
    return leads, replicas


def _all_partitions(call: Call) -> Iterator[tuple[LogId, PartitionState]]:
    topics = list(call.services.cluster.topics())
    return ((LogId(topic.id, each.index), each) for topic in topics for each in topic.partitions)


async def _unhealthy(call: Call) -> tuple[int, int]:
    """The number of under-replicated partitions, and of those without a leader."""
    local, under_replicated, offline = call.services.cluster.local, 0, 0
    async for log_id, partition in sliced(_all_partitions(call)):
        led = local.leaders.of(log_id)
        in_sync = () if led is None else [node for node in led.in_sync if local.network.is_up(node)]
        under_replicated += len(in_sync) < len(partition.replicas)
        offline += led is None or led.leader is None
    return under_replicated, offline


async def get_broker(call: Call) -> BrokerSummary:
    cluster = await get_cluster(call)
    for broker in cluster.brokers:
        if broker.id == call.path["broker"]:
            return broker
    raise _unknown(call.path["broker"])


def _unknown(broker: int) -> KafkaError:
    return KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker {broker} does not exist.")


async def drain(call: Call) -> Drained:
    return await _drain(call, is_wanted=True)


async def undrain(call: Call) -> Drained:
    return await _drain(call, is_wanted=False)


async def _drain(call: Call, *, is_wanted: bool) -> Drained:
    broker = NodeId(call.path["broker"])
    if broker not in call.services.cluster.brokers:
        raise _unknown(broker)
    if is_wanted and not call.services.cluster.local.has_peers:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "The cluster has only this broker: no other broker can take its replicas."
        )
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    change = resource.AlterableConfig(
        name=DRAIN, config_operation=SET if is_wanted else DELETE, value="true" if is_wanted else None
    )
    wanted = resource(resource_type=ResourceType.BROKER, resource_name=str(broker), configs=[change])
    response = await call.send(IncrementalAlterConfigsRequest(resources=[wanted]))
    check(response.responses[0].error_code, response.responses[0].error_message)
    left, stuck = (await _counts(call, broker))[1], unmovable(call, broker) if is_wanted else 0
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
    chosen = await page(await _groups(call), lambda place: f"{place[0]}/{place[1]:010}", query.limit, query.cursor)
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
    found = [(t.name, p.partition_index) async for t, p in sliced((t, p) for t in topics for p in t.partitions)]
    if query.topic is None and query.internal:
        found.append((CLUSTER_METADATA, 0))
    if query.partition is None:
        return found
    chosen = [place for place in found if place[1] == query.partition]
    if not chosen:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Partition {query.partition} of the topic does not exist."
        )
    return chosen


# -- replicas and leaders ----------------------------------------------------------------------------------------------
async def reassign(call: Call) -> Outcomes:
    kind = AlterPartitionReassignmentsRequest.ReassignableTopic
    topics: dict[str, list[Any]] = {}
    async for each in sliced(call.body.assignments):
        part = kind.ReassignablePartition(partition_index=each.partition, replicas=each.replicas)
        topics.setdefault(each.topic, []).append(part)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=PATIENCE_MS, topics=[kind(name=name, partitions=parts) for name, parts in topics.items()]
    )
    response = await call.send(request)
    check(response.error_code, response.error_message)
    outcomes = ((topic.name, each) for topic in response.responses for each in topic.partitions)
    return Outcomes(
        results=[
            _outcome(name, each.partition_index, each.error_code, each.error_message)
            async for name, each in sliced(outcomes)
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
        async for topic, each in sliced((topic, each) for topic in response.topics for each in topic.partitions)
    ]
    return await page(found, lambda each: f"{each.topic}/{each.partition:010}", call.query.limit, call.query.cursor)


async def elect(call: Call) -> Outcomes:
    body: Election = call.body or Election()
    wanted: list[Any] | None = None
    if body.partitions is not None:
        by_topic: dict[str, list[int]] = {}
        async for place in sliced(body.partitions):
            by_topic.setdefault(place.topic, []).append(place.partition)
        kind = ElectLeadersRequest.TopicPartitions
        wanted = [kind(topic=topic, partitions=indexes) for topic, indexes in by_topic.items()]
    election = UNCLEAN if body.unclean else PREFERRED
    request = ElectLeadersRequest(election_type=election, topic_partitions=wanted, timeout_ms=PATIENCE_MS)
    response = await call.send(request)
    check(response.error_code)
    outcomes = ((topic.topic, each) for topic in response.replica_election_results for each in topic.partition_result)
    return Outcomes(
        results=[
            _outcome(name, each.partition_id, each.error_code, each.error_message)
            async for name, each in sliced(outcomes)
        ]
    )


BROKER = "/v1/cluster/brokers/{broker}"
ROUTES = [
    Route(
        method="GET", path="/v1/cluster", handle=get_cluster, summary="Describe the cluster and its brokers", tag="cluster",
        answer=ClusterSummary,
    ),
    Route(method="GET", path=BROKER, handle=get_broker, summary="Describe a broker", tag="cluster", answer=BrokerSummary),
    Route(
        method="DELETE", path=BROKER, handle=unregister, summary="Unregister a broker that was removed", tag="cluster",
        description="Drain the broker first: partitions keep the replicas that are assigned to it, and these stay offline.", problems=(409,),
    ),
    Route(
        method="POST", path=f"{BROKER}/drain", handle=drain, summary="Drain a broker: move all of its replicas to other brokers", tag="cluster",
        answer=Drained, description="`replicas` is the number of replicas that are left; GET the broker to see it go down to 0. `unmovable` of them stay until another broker joins or the replication factor is reduced.",
    ),
    Route(
        method="DELETE", path=f"{BROKER}/drain", handle=undrain, summary="End the drain of a broker: it may get replicas again", tag="cluster",
        answer=Drained,
    ),
    Route(
        method="GET", path="/v1/cluster/raft", handle=raft, summary="Show the Raft state of partitions, as their leaders report it",
        tag="cluster", query=RaftQuery, answer=Page[RaftGroup], problems=(404,),
    ),
    Route(
        method="POST", path="/v1/cluster/reassignments", handle=reassign, summary="Reassign partitions to other brokers",
        tag="cluster", body=Reassign, answer=Outcomes, description="`replicas` null cancels a reassignment.",
    ),
    Route(
        method="GET", path="/v1/cluster/reassignments", handle=reassignments, summary="List reassignments in progress",
        tag="cluster", query=PageQuery, answer=Page[Reassignment],
    ),
    Route(
        method="POST", path="/v1/cluster/elect-leaders", handle=elect, summary="Elect the preferred leaders of partitions",
        tag="cluster", body=Election, is_body_optional=True, answer=Outcomes,
        description="Without `partitions`, all partitions are considered, and the response has only those whose leader changed.",
    ),
]  # fmt: skip
