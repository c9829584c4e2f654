"""`kompat topics`: list, describe and change topics on any broker of Kafka's protocol."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Final

from kompat.cli import configs
from kompat.cli.arguments import brokers, count, setting
from kompat.cli.command import (
    CommandError,
    Parsers,
    UsageError,
    add_json,
    add_kafka,
    add_yes,
    confirm,
    declare,
    runs,
    subcommands,
)
from kompat.cli.kafka_client import Kafka, check, connect
from kompat.cli.output import Column, output_of, size_text

TIMEOUT_MS: Final = 30_000
TOPICS: Final = (
    Column("TOPIC", "name"),
    Column("PARTITIONS", "partitions"),
    Column("REPLICAS", "replicationFactor"),
    Column("UNDER-REPLICATED", "underReplicated"),
    Column("INTERNAL", "internal"),
)
PARTITIONS: Final = (
    Column("PARTITION", "partition"),
    Column("LEADER", "leader"),
    Column("REPLICAS", "replicas"),
    Column("IN SYNC", "inSync"),
    Column("START", "startOffset"),
    Column("END", "endOffset"),
    Column("SIZE", "bytes", size_text),
)


def add(commands: Parsers, summary: str) -> None:
    parser = declare(
        commands,
        "topics",
        summary,
        examples=[
            "kompat topics list",
            "kompat topics create orders --partitions 6 --replication-factor 3 --config retention.ms=86400000",
            "kompat topics describe orders",
            "kompat topics configure orders --set cleanup.policy=compact --unset retention.ms",
            "kompat topics grow orders --partitions 12",
            "kompat topics delete orders",
        ],
    )
    inner = subcommands(parser)
    _add_list(inner)
    _add_create(inner)
    _add_describe(inner)
    _add_configure(inner)
    _add_grow(inner)
    _add_delete(inner)


def _command(inner: Parsers, name: str, summary: str, work: Any, *examples: str) -> argparse.ArgumentParser:
    parser = declare(inner, name, summary, examples=examples)
    add_json(parser)
    add_kafka(parser)
    runs(parser, work)
    return parser


# -- list and describe -------------------------------------------------------------------------------------------------
def _add_list(inner: Parsers) -> None:
    parser = _command(
        inner, "list", "list topics", _list, "kompat topics list", "kompat topics list --search ord --json"
    )
    parser.add_argument("--search", metavar="TEXT", default="", help="only names that contain this text")
    parser.add_argument("--internal", action="store_true", help="also list internal topics")


def _list(given: argparse.Namespace) -> None:
    with connect(given) as kafka:
        found = [summary_of(topic) for topic in kafka.topics() if given.search in topic["name"]]
    shown = [topic for topic in found if given.internal or not topic["internal"]]
    output_of(given).rows(TOPICS, shown, empty="There are no topics yet: kompat topics create NAME")


def summary_of(topic: dict[str, Any]) -> dict[str, Any]:
    partitions = topic["partitions"]
    return {
        "name": topic["name"],
        "partitions": len(partitions),
        "replicationFactor": max((len(each["replica_nodes"]) for each in partitions), default=0),
        "underReplicated": sum(len(each["isr_nodes"]) < len(each["replica_nodes"]) for each in partitions),
        "internal": bool(topic["is_internal"]),
    }


def _add_describe(inner: Parsers) -> None:
    parser = _command(
        inner,
        "describe",
        "show partitions, offsets, sizes and configuration",
        _describe,
        "kompat topics describe orders",
        "kompat topics describe orders --json",
    )
    parser.add_argument("topic", nargs="+")


def _describe(given: argparse.Namespace) -> None:
    output = output_of(given)
    with connect(given) as kafka:
        found = [_described(kafka, topic) for topic in kafka.topics(given.topic)]
    if output.is_json:
        output.json(found if len(found) > 1 else found[0])
        return
    for at, topic in enumerate(found):
        if at:
            output.line()
        settings = ", ".join(f"{name}={value}" for name, value in topic["configs"].items())
        pairs = [("topic", topic["name"]), ("id", topic["topicId"]), ("settings", settings or "all defaults")]
        output.pairs(pairs)
        output.rows(PARTITIONS, topic["partitions"])


def _described(kafka: Kafka, topic: dict[str, Any]) -> dict[str, Any]:
    name = topic["name"]
    led = [(name, each["partition_index"]) for each in topic["partitions"] if each["leader_id"] >= 0]
    ends, sizes = kafka.ends(led), _sizes(kafka, name)
    partitions = []
    for each in sorted(topic["partitions"], key=lambda each: each["partition_index"]):
        start, end = ends.get((name, each["partition_index"]), (None, None))
        partitions.append(
            {
                "partition": each["partition_index"],
                "leader": each["leader_id"] if each["leader_id"] >= 0 else None,
                "leaderEpoch": each.get("leader_epoch", -1),
                "replicas": list(each["replica_nodes"]),
                "inSync": list(each["isr_nodes"]),
                "startOffset": start,
                "endOffset": end,
                "bytes": sizes.get((each["partition_index"], each["leader_id"])),
            }
        )
    own = {each["name"]: each["value"] for each in configs.describe(kafka, "topic", name) if each["isOwn"]}
    return {
        "name": name,
        "topicId": str(topic.get("topic_id") or ""),
        "internal": bool(topic["is_internal"]),
        "configs": own,
        "partitions": partitions,
    }


def _sizes(kafka: Kafka, topic: str) -> dict[tuple[int, int], int]:
    """Bytes by partition and broker."""
    from kafka.errors import KafkaError

    try:
        log_dirs = kafka.admin.describe_log_dirs([topic])
    except KafkaError:  # the user may not be authorized
        return {}
    return {
        (partition["partition_index"], broker["broker"]): partition["partition_size"]
        for broker in log_dirs
        for log_dir in broker["log_dirs"]
        for each in log_dir["topics"]
        for partition in each["partitions"]
        if not partition["is_future_key"]
    }


# -- changes -----------------------------------------------------------------------------------------------------------
def _add_create(inner: Parsers) -> None:
    parser = _command(
        inner,
        "create",
        "create topics",
        _create,
        "kompat topics create orders --partitions 6 --config cleanup.policy=compact",
        "kompat topics create placed --replicas 1,2 --replicas 2,3      # a list of brokers for each partition",
        "kompat topics create work --config kompat.queue.source=orders",
    )
    parser.add_argument("topic", nargs="+")
    parser.add_argument("--partitions", type=count, metavar="N", help="number of partitions (the broker's default)")
    parser.add_argument(
        "--replication-factor", type=count, metavar="N", help="replication factor (the broker's default)"
    )
    parser.add_argument(
        "--replicas",
        type=brokers,
        metavar="N,…",
        action="append",
        help="broker ids of a partition; repeat it for each partition",
    )
    parser.add_argument(
        "--config", type=setting, metavar="NAME=VALUE", action="append", default=[], help="set a configuration property"
    )
    parser.add_argument("--if-not-exists", action="store_true", help="succeed if the topic exists already")


def _create(given: argparse.Namespace) -> None:
    from kafka.protocol.admin import CreateTopicsRequest

    if given.replicas and (given.partitions or given.replication_factor):
        raise UsageError("--replicas does not go with --partitions or --replication-factor")
    topic = CreateTopicsRequest.CreatableTopic
    topics = [
        topic(
            name=name,
            num_partitions=given.partitions or -1,
            replication_factor=given.replication_factor or -1,
            assignments=[
                topic.CreatableReplicaAssignment(partition_index=at, broker_ids=each)
                for at, each in enumerate(given.replicas or [])
            ],
            configs=[topic.CreatableTopicConfig(name=key, value=value) for key, value in given.config],
        )
        for name in given.topic
    ]
    with connect(given) as kafka:
        request = CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS, validate_only=False)
        answered = kafka.ask_controller(request).topics
        made = [each.name for each in answered if each.error_code == 0]
        _check_all(answered, "topic", is_fine=lambda code: given.if_not_exists and code == TOPIC_ALREADY_EXISTS)
        kafka.admin.wait_for_topics(made)
    there = [f"{name} exists already" for name in given.topic if name not in made]
    output_of(given).done("\n".join([*(f"created {name}" for name in made), *there]), {"created": made})


TOPIC_ALREADY_EXISTS: Final = 36


def _check_all(answers: Sequence[Any], kind: str, is_fine: Any = lambda _: False) -> None:
    """Raise all errors in one line."""
    failures = []
    for each in answers:
        if each.error_code and not is_fine(each.error_code):
            try:
                check(each.error_code, each.error_message, f"{kind} {each.name}")
            except CommandError as error:
                failures.append(str(error))
    if failures:
        raise CommandError("; ".join(failures))


def _add_configure(inner: Parsers) -> None:
    parser = _command(
        inner,
        "configure",
        "change the configuration of a topic",
        _configure,
        "kompat topics configure orders --set retention.ms=3600000",
        "kompat topics configure orders --unset retention.ms        # as the broker has it",
    )
    parser.add_argument("topic")
    configs.add_changes(parser)


def _configure(given: argparse.Namespace) -> None:
    with connect(given) as kafka:
        configs.change(kafka, "topic", given.topic, given.set, given.unset)
    output_of(given).done(f"configured {given.topic}", {"configured": given.topic})


def _add_grow(inner: Parsers) -> None:
    parser = _command(inner, "grow", "add partitions to a topic", _grow, "kompat topics grow orders --partitions 12")
    parser.add_argument("topic")
    parser.add_argument("--partitions", type=count, metavar="N", required=True, help="new number of partitions")


def _grow(given: argparse.Namespace) -> None:
    from kafka.protocol.admin import CreatePartitionsRequest

    topic = CreatePartitionsRequest.CreatePartitionsTopic(name=given.topic, count=given.partitions, assignments=None)
    with connect(given) as kafka:
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=False)
        _check_all(kafka.ask_controller(request).results, "topic")
    done = {"topic": given.topic, "partitions": given.partitions}
    output_of(given).done(f"{given.topic} has {given.partitions} partitions", done)


def _add_delete(inner: Parsers) -> None:
    parser = _command(
        inner, "delete", "delete topics and their records", _delete, "kompat topics delete orders returns"
    )
    parser.add_argument("topic", nargs="+")
    add_yes(parser)


def _delete(given: argparse.Namespace) -> None:
    from kafka.protocol.admin import DeleteTopicsRequest

    confirm(given, f"delete {', '.join(given.topic)} and all records in {'it' if len(given.topic) == 1 else 'them'}")
    state = DeleteTopicsRequest.DeleteTopicState
    request = DeleteTopicsRequest(topics=[state(name=name) for name in given.topic], timeout_ms=TIMEOUT_MS)
    with connect(given) as kafka:
        answered = kafka.ask_controller(request).responses
    _check_all(answered, "topic")
    output_of(given).done("\n".join(f"deleted {name}" for name in given.topic), {"deleted": given.topic})
