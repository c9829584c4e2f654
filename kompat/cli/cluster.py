"""`kompat cluster`: run brokers on this machine, and look after the brokers of a cluster."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any, Final

from kompat.cli import cluster_moves, cluster_start
from kompat.cli.command import FAILED, Parsers, add_http, add_json, add_kafka, declare, runs, subcommands
from kompat.cli.http_client import door
from kompat.cli.kafka_client import Kafka, check, connect
from kompat.cli.output import Column, output_of, size_text

NONE: Final = -1
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
    status = _command(inner, "status", "is everything led and replicated?", _status, "kompat cluster status --check")
    status.add_argument("--check", action="store_true", help="end with 1 where something is missing")
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
    """What a cluster's metadata tells of it."""
    cluster, topics = kafka.cluster(), kafka.topics()
    partitions = [(topic["name"], each) for topic in topics for each in topic["partitions"]]
    return {
        "clusterId": cluster["cluster_id"],
        "controller": cluster["controller_id"],
        "brokers": len(cluster["brokers"]),
        "topics": len(topics),
        "partitions": len(partitions),
        "leaderless": [f"{name}/{each['partition_index']}" for name, each in partitions if each["leader_id"] < 0],
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
    is_fine = not found["leaderless"] and not found["underReplicated"] and found["controller"] != NONE
    if output.is_json:
        output.json({**found, "healthy": is_fine})
    else:
        output.pairs(
            [
                ("cluster", str(found["clusterId"])),
                ("controller", str(found["controller"]) if found["controller"] != NONE else "none"),
                ("brokers", str(found["brokers"])),
                ("topics", f"{found['topics']} with {found['partitions']} partitions"),
                ("without leader", _some(found["leaderless"])),
                ("under-replicated", _some(found["underReplicated"])),
                ("not led by the preferred broker", str(found["notPreferred"])),
                ("moving", str(found["reassigning"])),
                ("draining", "; ".join(map(_drain_text, found["draining"])) or "none"),
                ("healthy", "yes" if is_fine else "no"),
            ]
        )
    return FAILED if given.check and not is_fine else 0


def _drain_text(each: dict[str, Any]) -> str:
    stuck = f", of which {each['unmovable']} have no other broker to go to" if each["unmovable"] else ""
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
        told = kafka.admin.describe_log_dirs()
    except KafkaError:  # not everybody may ask that, and a broker may be gone
        return {}
    return {
        broker["broker"]: sum(
            partition["partition_size"]
            for log_dir in broker["log_dirs"]
            for topic in log_dir["topics"]
            for partition in topic["partitions"]
        )
        for broker in told
    }


# -- raft --------------------------------------------------------------------------------------------------------------
def _add_raft(inner: Parsers) -> None:
    parser = _command(
        inner,
        "raft",
        "how far the replicas of the metadata, or of a topic's partitions, have come",
        _raft,
        "kompat cluster raft",
        "kompat cluster raft --topic orders             # by kompat's HTTP door",
        "kompat cluster raft --topic orders --partition 2 --json",
    )
    parser.add_argument("--topic", help="of this topic's partitions, not of the metadata")
    parser.add_argument("--partition", type=int, metavar="N", help="only this one of the topic")
    add_http(parser, with_secrets=False)


def _raft(given: argparse.Namespace) -> None:
    output = output_of(given)
    if given.topic:
        found = list(door(given).items("/v1/cluster/raft", topic=given.topic, partition=given.partition))
        output.rows(PARTITIONS, found, empty="This broker has no replica of it that has others.")
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
    """Who keeps the cluster's metadata."""
    [topic] = kafka.patiently(kafka.admin.describe_metadata_quorum)["topics"]
    [told] = topic["partitions"]
    check(0 if told["error"] is None else NONE, told["error"], "metadata")
    ends = [each["log_end_offset"] for each in (*told["current_voters"], *told["observers"])]
    end = max(ends, default=0)
    replicas = [
        {
            "id": each["replica_id"],
            "role": "leader" if each["replica_id"] == told["leader_id"] else role,
            "endOffset": each["log_end_offset"] if each["log_end_offset"] >= 0 else None,
            "lag": max(0, end - each["log_end_offset"]) if each["log_end_offset"] >= 0 else None,
            "caughtUpMs": _since(each),
        }
        for role, those in (("voter", told["current_voters"]), ("observer", told["observers"]))
        for each in those
    ]
    return {
        "leader": told["leader_id"],
        "leaderEpoch": told["leader_epoch"],
        "highWatermark": told["high_watermark"],
        "replicas": replicas,
    }


def _since(replica: dict[str, Any]) -> int | None:
    fetched, caught_up = replica.get("last_fetch_timestamp", NONE), replica.get("last_caught_up_timestamp", NONE)
    return max(0, fetched - caught_up) if fetched >= 0 and caught_up >= 0 else None
