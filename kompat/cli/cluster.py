"""`kompat cluster`: run brokers on this machine, and manage the brokers of a cluster."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any, Final

from kompat.cli import cluster_moves, cluster_start
from kompat.cli.command import FAILED, CommandError, Parsers, add_http, add_json, add_kafka, declare, runs, subcommands
from kompat.cli.http_client import http_client
from kompat.cli.kafka_client import Kafka, check, connect
from kompat.cli.output import Column, output_of, size_text

NONE: Final = -1
HTTP_SECONDS: Final = 5.0  # for the replicas in doubt; the rest of the status does not wait for them
BROKERS: Final = (
    Column("BROKER", "id"),
    Column("ADDRESS", "address"),
    Column("RACK", "rack"),
    Column("CONTROLLER", "isController"),
    Column("FENCED", "isFenced"),
    Column("LEADS", "leads"),
    Column("REPLICAS", "replicas"),
    Column("SIZE", "bytes", size_text),
)
VOTERS: Final = (
    Column("BROKER", "id"),
    Column("ROLE", "role"),
    Column("END", "endOffset"),
    Column("LAG", "lag"),
    Column("CAUGHT UP", "caughtUpMs", lambda ms: "-" if ms is None else f"{ms} ms ago"),
)
PARTITIONS: Final = (
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("TERM", "term"),
    Column("ROLE", "role"),
    Column("LEADER", "leader"),
    Column("COMMIT", "commitIndex"),
    Column("APPLIED", "appliedIndex"),
    Column("LAST", "lastIndex"),
    Column(
        "PEERS", "peers", lambda peers: " ".join(f"{each['id']}:{each.get('lag', '?')}" for each in peers or []) or "-"
    ),
)


def add(commands: Parsers, summary: str) -> None:
    parser = declare(
        commands,
        "cluster",
        summary,
        examples=[
            "kompat cluster start --brokers 3",
            "kompat cluster status",
            "kompat cluster brokers",
            "kompat cluster drain 3 --wait",
            "kompat cluster reassign orders --to 1,2,3",
            "kompat cluster elect orders",
            "kompat cluster raft",
        ],
    )
    inner = subcommands(parser)
    cluster_start.add(inner)
    status = _command(
        inner,
        "status",
        "show whether all partitions have leaders and in-sync replicas",
        _status,
        "kompat cluster status --check",
    )
    status.add_argument(
        "--check", action="store_true", help="exit with 1 if a partition is offline or under-replicated"
    )
    add_http(status, with_secrets=False)
    _command(inner, "brokers", "list brokers", _brokers, "kompat cluster brokers --json")
    cluster_moves.add(inner)
    _add_raft(inner)


def _command(inner: Parsers, name: str, summary: str, work: Any, *examples: str) -> argparse.ArgumentParser:
    parser = declare(inner, name, summary, examples=examples)
    add_json(parser)
    add_kafka(parser)
    runs(parser, work)
    return parser


# -- status and brokers ------------------------------------------------------------------------------------------------
def health(kafka: Kafka) -> dict[str, Any]:
    """The state of a cluster, from its metadata."""
    cluster, topics = kafka.cluster(), kafka.topics()
    partitions = [(topic["name"], each) for topic in topics for each in topic["partitions"]]
    return {
        "clusterId": cluster["cluster_id"],
        "controller": cluster["controller_id"],
        "brokers": len(cluster["brokers"]),
        "topics": len(topics),
        "partitions": len(partitions),
        "offline": [f"{name}/{each['partition_index']}" for name, each in partitions if each["leader_id"] < 0],
        "underReplicated": [
            f"{name}/{each['partition_index']}"
            for name, each in partitions
            if len(each["isr_nodes"]) < len(each["replica_nodes"])
        ],
        "notPreferred": sum(
            bool(each["replica_nodes"]) and each["leader_id"] not in (NONE, each["replica_nodes"][0])
            for _, each in partitions
        ),
        "reassigning": len(cluster_moves.under_way(kafka)),
    }


def _status(given: argparse.Namespace) -> int:
    output = output_of(given)
    with connect(given) as kafka:
        found = health(kafka) | {"draining": cluster_moves.draining(kafka)}
    found["inDoubt"] = _in_doubt(given, str(found["clusterId"]))
    is_fine = not found["offline"] and not found["underReplicated"] and found["controller"] != NONE
    if output.is_json:
        output.json({**found, "healthy": is_fine})
    else:
        output.pairs(
            [
                ("cluster", str(found["clusterId"])),
                ("controller", str(found["controller"]) if found["controller"] != NONE else "none"),
                ("brokers", str(found["brokers"])),
                ("topics", f"{found['topics']} with {found['partitions']} partitions"),
                ("offline", _some(found["offline"])),
                ("under-replicated", _some(found["underReplicated"])),
                ("replicas in doubt", _in_doubt_text(found["inDoubt"])),
                ("not led by the preferred replica", str(found["notPreferred"])),
                ("moving", str(found["reassigning"])),
                ("draining", "; ".join(map(_drain_text, found["draining"])) or "none"),
                ("healthy", "yes" if is_fine else "no"),
            ]
        )
    return FAILED if given.check and not is_fine else 0


def _in_doubt(given: argparse.Namespace, cluster_id: str) -> list[dict[str, int]] | None:
    """By broker, the replicas that do not vote or count as in sync. Only kompat's HTTP port has them; None: it does not respond."""
    try:
        cluster = http_client(given).get("/v1/cluster", seconds=HTTP_SECONDS)
    except CommandError:
        return None
    if cluster["clusterId"] != cluster_id:
        return None
    return [{"broker": each["id"], "replicas": each["inDoubt"]} for each in cluster["brokers"] if each["inDoubt"]]


def _in_doubt_text(found: list[dict[str, int]] | None) -> str:
    if found is None:
        return "unknown: no broker of the cluster responds at --http"
    rows = [f"{each['replicas']} of broker {each['broker']}" for each in found]
    return f"{', '.join(rows)}; they do not vote or count as in sync until they have caught up" if rows else "0"


def _drain_text(each: dict[str, Any]) -> str:
    stuck = f", of which {each['unmovable']} cannot be moved to another broker" if each["unmovable"] else ""
    return f"broker {each['broker']}, {each['replicas']} replicas left{stuck}"


def _some(places: list[str], most: int = 5) -> str:
    more = f" and {len(places) - most} more" if len(places) > most else ""
    return f"{len(places)}: {', '.join(places[:most])}{more}" if places else "0"


def _brokers(given: argparse.Namespace) -> None:
    with connect(given) as kafka:
        cluster, topics = kafka.cluster(), kafka.topics()
        sizes = _sizes(kafka)
    partitions = [each for topic in topics for each in topic["partitions"]]
    leads = Counter(each["leader_id"] for each in partitions)
    replicas = Counter(node for each in partitions for node in each["replica_nodes"])
    rows = [
        {
            "id": each["broker_id"],
            "address": f"{each['host']}:{each['port']}",
            "rack": each["rack"],
            "isController": each["broker_id"] == cluster["controller_id"],
            "isFenced": bool(each.get("is_fenced", False)),
            "leads": leads[each["broker_id"]],
            "replicas": replicas[each["broker_id"]],
            "bytes": sizes.get(each["broker_id"]),
        }
        for each in sorted(cluster["brokers"], key=lambda each: each["broker_id"])
    ]
    output_of(given).rows(BROKERS, rows)


def _sizes(kafka: Kafka) -> dict[int, int]:
    from kafka.errors import KafkaError

    try:
        log_dirs = kafka.admin.describe_log_dirs()
    except KafkaError:  # the user may not be authorized, or a broker may be down
        return {}
    return {
        broker["broker"]: sum(
            partition["partition_size"]
            for log_dir in broker["log_dirs"]
            for topic in log_dir["topics"]
            for partition in topic["partitions"]
        )
        for broker in log_dirs
    }


# -- raft --------------------------------------------------------------------------------------------------------------
def _add_raft(inner: Parsers) -> None:
    parser = _command(
        inner,
        "raft",
        "show the Raft state of the cluster metadata or of a topic's partitions",
        _raft,
        "kompat cluster raft",
        "kompat cluster raft --topic orders             # by kompat's HTTP port",
        "kompat cluster raft --topic orders --partition 2 --json",
    )
    parser.add_argument("--topic", help="show this topic's partitions instead of the metadata")
    parser.add_argument("--partition", type=int, metavar="N", help="show only this partition of the topic")
    add_http(parser, with_secrets=False)


def _raft(given: argparse.Namespace) -> None:
    output = output_of(given)
    if given.topic:
        found = list(http_client(given).items("/v1/cluster/raft", topic=given.topic, partition=given.partition))
        output.rows(PARTITIONS, found, empty="This broker has no replicated partition of the topic.")
        return
    with connect(given) as kafka:
        quorum = quorum_of(kafka)
    if output.is_json:
        output.json(quorum)
        return
    names = ("leader", "leaderEpoch", "highWatermark")
    output.pairs([(name, str(quorum[name])) for name in names])
    output.rows(VOTERS, quorum["replicas"])


def quorum_of(kafka: Kafka) -> dict[str, Any]:
    """The quorum of the cluster metadata."""
    [topic] = kafka.patiently(kafka.admin.describe_metadata_quorum)["topics"]
    [quorum] = topic["partitions"]
    check(0 if quorum["error"] is None else NONE, quorum["error"], "metadata")
    ends = [each["log_end_offset"] for each in (*quorum["current_voters"], *quorum["observers"])]
    end = max(ends, default=0)
    replicas = [
        {
            "id": each["replica_id"],
            "role": "leader" if each["replica_id"] == quorum["leader_id"] else role,
            "endOffset": each["log_end_offset"] if each["log_end_offset"] >= 0 else None,
            "lag": max(0, end - each["log_end_offset"]) if each["log_end_offset"] >= 0 else None,
            "caughtUpMs": _since(each),
        }
        for role, those in (("voter", quorum["current_voters"]), ("observer", quorum["observers"]))
        for each in those
    ]
    return {
        "leader": quorum["leader_id"],
        "leaderEpoch": quorum["leader_epoch"],
        "highWatermark": quorum["high_watermark"],
        "replicas": replicas,
    }


def _since(replica: dict[str, Any]) -> int | None:
    fetched, caught_up = replica.get("last_fetch_timestamp", NONE), replica.get("last_caught_up_timestamp", NONE)
    return max(0, fetched - caught_up) if fetched >= 0 and caught_up >= 0 else None
