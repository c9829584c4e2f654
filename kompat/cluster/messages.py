"""The requests of brokers to each other and to the controller, by `kompat.rpc`."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from kompat.cluster.leaders import Announcement
from kompat.cluster.scram_users import Deletion, ScramCredentialSet, Upsertion
from kompat.cluster.state import Address, Broker
from kompat.errors import KafkaError
from kompat.rpc.messages import BrokerRequest, ControllerRequest, LeaderRequest
from kompat.types import LogId, NodeId


# -- of the controller -------------------------------------------------------------------------------------------------
class RegisterBroker(ControllerRequest[None], frozen=True):
    is_idempotent: ClassVar[bool] = True
    broker: Broker


class FinishReassignment(ControllerRequest[None], frozen=True):
    """The partition's replicas are those of its target."""

    is_idempotent: ClassVar[bool] = True
    log_id: LogId
    replicas: tuple[NodeId, ...]


class CreateMissingTopics(ControllerRequest[dict[str, KafkaError]], frozen=True):
    """With the broker's defaults. The reply has the errors of those that cannot be created."""

    is_idempotent: ClassVar[bool] = True
    names: tuple[str, ...]


class AllocateProducerIds(ControllerRequest[tuple[int, int]], frozen=True):
    """The first id of the block, and the first after it. A block whose response is lost is never used."""

    is_idempotent: ClassVar[bool] = True


class ReadMetadataEnd(ControllerRequest[int], frozen=True):
    """The end of the metadata log."""

    is_idempotent: ClassVar[bool] = True


class AlterUsers(ControllerRequest[dict[str, KafkaError | None]], frozen=True):
    deletions: tuple[Deletion, ...]
    upsertions: tuple[Upsertion, ...]


class CreateFirstUsers(ControllerRequest[list[str]], frozen=True):
    """Create users that do not exist yet; the reply has their names."""

    is_idempotent: ClassVar[bool] = True
    credentials: tuple[ScramCredentialSet, ...]


# -- of a partition's leader -------------------------------------------------------------------------------------------
class TransferLeadership(LeaderRequest[None], frozen=True):
    to: NodeId


# -- of a broker -------------------------------------------------------------------------------------------------------
class NodeDescription(Struct, frozen=True):
    cluster_id: str
    has_metadata: bool
    controller: NodeId | None
    peers: dict[NodeId, Address]  # the brokers that it knows, with their addresses for other brokers


class DescribeNode(BrokerRequest[NodeDescription], frozen=True):
    """A broker's knowledge of the cluster, for a sender without a replica of the metadata log."""

    answered_within: ClassVar[float] = 2.0


class AnnounceLeaders(BrokerRequest[None], frozen=True):
    """The partitions that the sender leads."""

    answered_within: ClassVar[float] = 5.0
    sender: NodeId
    announcement: Announcement


class DescribeLeaders(BrokerRequest[Announcement | None], frozen=True):
    """The partitions led by a broker that the sender cannot reach. None: the receiver cannot reach it, either."""

    answered_within: ClassVar[float] = 1.0
    node: NodeId


class RecoverReplica(BrokerRequest[bool], frozen=True):
    """Whether the receiver's replica needs an unclean recovery. If an operator accepts the loss, it continues with its log."""

    answered_within: ClassVar[float] = 5.0
    log_id: LogId
    accepts_loss: bool
