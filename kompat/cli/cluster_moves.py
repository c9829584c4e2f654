"""`kompat cluster drain`, `forget`, `reassign` and `elect`: move replicas and leaders between brokers."""

from __future__ import annotations

import argparse
import contextlib
import time
from functools import partial
from typing import Any, Final

from kompat.cli import configs
from kompat.cli.arguments import brokers, count
from kompat.cli.command import CommandError, Parsers, UsageError, add_json, add_kafka, declare, runs
from kompat.cli.kafka_client import Kafka, check, connect
from kompat.cli.output import Column, output_of
from kompat.cli.progress import Progress
from kompat.cli.reassigning import NoPlan, Replicas, changed, chosen, round_robin, unmovable

DRAIN: Final = "kompat.drain"
LOOK_EVERY: Final = 0.5  # seconds
ELECTION_NOT_NEEDED: Final = 84
METADATA = "__cluster_metadata"  # its replicas can be named, though it is not a topic
TIMEOUT_MS: Final = 30_000
MOVES: Final = (
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("REPLICAS", "replicas"),
    Column("ADDING", "adding"),
    Column("REMOVING", "removing"),
)
ELECTED: Final = (Column("TOPIC", "topic"), Column("PARTITION", "partition"), Column("OUTCOME", "outcome"))


def add(inner: Parsers) -> None:
    drain = _command(
        inner,
        "drain",
        "move all replicas of a broker to other brokers (kompat only)",
        _drain,
        "kompat cluster drain 3 --wait",
        "kompat cluster drain 3 --undo",
    )
    drain.add_argument("broker", type=int)
    drain.add_argument("--undo", action="store_true", help="end the drain: the broker may get replicas again")
    _add_wait(drain)
    forget = _command(
        inner, "unregister", "unregister a broker that is permanently gone", _forget, "kompat cluster unregister 3"
    )
    forget.add_argument("broker", type=int)
    _add_reassign(inner)
    elect = _command(
        inner,
        "elect",
        "elect the preferred replicas as leaders",
        _elect,
        "kompat cluster elect                 # everything",
        "kompat cluster elect orders returns/3",
        "kompat cluster elect --unclean __cluster_metadata orders/0",
    )
    elect.add_argument("places", nargs="*", metavar="TOPIC[/PARTITION]", help="partitions (default: all)")
    elect.add_argument(
        "--unclean",
        action="store_true",
        help="for partitions that wait because a data directory was lost: elect a leader among the remaining replicas, and lose records that only unavailable brokers have",
    )


def _add_reassign(inner: Parsers) -> None:
    parser = _command(
        inner,
        "reassign",
        "reassign replicas to other brokers, or change their number",
        _reassign,
        "kompat cluster reassign orders --to 1,2,3              # spread over these brokers",
        "kompat cluster reassign orders --to 1,2,3 --replicas 2",
        "kompat cluster reassign orders/2 --to 3,1 --wait",
        "kompat cluster reassign --list",
        "kompat cluster reassign orders --cancel",
    )
    parser.add_argument("places", nargs="*", metavar="TOPIC[/PARTITION]")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--to",
        type=brokers,
        metavar="N,…",
        help="target broker ids; for a single partition the first is the preferred leader",
    )
    what.add_argument("--cancel", action="store_true", help="cancel the reassignment")
    what.add_argument("--list", action="store_true", help="list reassignments in progress")
    parser.add_argument("--replicas", type=count, metavar="N", help="replication factor (unchanged)")
    parser.add_argument("--dry-run", action="store_true", help="show the plan and change nothing")
    _add_wait(parser)


def _command(inner: Parsers, name: str, summary: str, work: Any, *examples: str) -> argparse.ArgumentParser:
    parser = declare(inner, name, summary, examples=examples)
    add_json(parser)
    add_kafka(parser)
    runs(parser, work)
    return parser


def _add_wait(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--wait", action="store_true", help="wait until the reassignment is complete")
    parser.add_argument("--timeout", type=count, metavar="SECONDS", default=3600, help="maximum time for --wait (3600)")


# -- drain and forget --------------------------------------------------------------------------------------------------
def _drain(given: argparse.Namespace) -> None:
    with connect(given) as kafka:
        if given.broker not in {each["broker_id"] for each in kafka.cluster()["brokers"]}:
            raise CommandError(f"broker {given.broker} does not exist")
        if given.undo:
            configs.change(kafka, "broker", str(given.broker), [], [DRAIN])
        else:
            configs.change(kafka, "broker", str(given.broker), [(DRAIN, "true")], [])
        stuck = [] if given.undo else _stuck(kafka, given.broker)
        if given.wait and not given.undo and not stuck:
            _wait(lambda: len(_replicas_of(kafka, given.broker)), "draining", given.timeout)
        left = len(_replicas_of(kafka, given.broker))
    done = {"broker": given.broker, "draining": not given.undo, "replicas": left, "unmovable": len(stuck)}
    message = f"broker {given.broker} is drained" if left == 0 else f"broker {given.broker} has {left} replicas"
    output_of(given).done(f"broker {given.broker} may get replicas again" if given.undo else message, done)
    if stuck:
        raise CommandError(why_stuck(given.broker, stuck))


def draining(kafka: Kafka) -> list[dict[str, Any]]:
    """The brokers that are being drained, with the replicas that are left and those that cannot be moved. Only kompat drains brokers."""
    return [
        {"broker": each, "replicas": len(_replicas_of(kafka, each)), "unmovable": len(_stuck(kafka, each))}
        for each in sorted(_leaving(kafka))
    ]


def _stuck(kafka: Kafka, broker: int) -> list[Replicas]:
    """The replicas that cannot be moved off the broker. A partition under reassignment has additional replicas: a second look excludes it."""
    leaving = _leaving(kafka)
    able = [each for each in _alive(kafka) if each != broker and each not in leaving]
    found = _unmovable(kafka, broker, able)
    if found:
        time.sleep(LOOK_EVERY)
        again = _unmovable(kafka, broker, able)
        found = [each for each in found if each in again]
    return found


def _unmovable(kafka: Kafka, broker: int, able: list[int]) -> list[Replicas]:
    on_their_way = {(each["topic"], each["partition"]) for each in under_way(kafka) if broker in each["removing"]}
    have = [each for each in _replicas_of(kafka, broker) if (each.topic, each.partition) not in on_their_way]
    return unmovable(have, broker, able)


def why_stuck(broker: int, stuck: list[Replicas]) -> str:
    first = stuck[0]
    fewer = ",".join(str(each) for each in first.brokers if each != broker) or "N"
    advice = f"kompat cluster reassign {first.topic} --to {fewer} --replicas {max(1, len(first.brokers) - 1)}"
    return (
        f"broker {broker} cannot be drained: {len(stuck)} of its replicas, such as {first.topic}/{first.partition}, have no other "
        f"broker to move to. Add a broker or reduce the replication factor ({advice}) and the drain continues; --undo ends it"
    )


def _alive(kafka: Kafka) -> list[int]:
    return [each["broker_id"] for each in kafka.cluster()["brokers"] if not each.get("is_fenced", False)]


def _leaving(kafka: Kafka) -> set[int]:
    """The brokers that are being drained, from the setting of each that is up. Only kompat has this setting."""
    from kafka.errors import KafkaError
    from kafka.protocol.admin import DescribeConfigsRequest

    found = set()
    for broker in _alive(kafka):
        resource = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=configs.KINDS["broker"], resource_name=str(broker), configuration_keys=[DRAIN]
        )
        request = DescribeConfigsRequest(resources=[resource], include_synonyms=False, include_documentation=False)
        with contextlib.suppress(KafkaError):
            answer = kafka.run(partial(kafka.send, request, broker))
            settings = [each for result in answer.results for each in result.configs if each.name == DRAIN]
            if any(str(each.value).strip().lower() == "true" for each in settings):
                found.add(broker)
    return found


def _replicas_of(kafka: Kafka, broker: int) -> list[Replicas]:
    return [each for each in there(kafka) if broker in each.brokers]


def _forget(given: argparse.Namespace) -> None:
    from kompat.cli.own_messages import UnregisterBrokerRequest

    with connect(given) as kafka:
        left = len(_replicas_of(kafka, given.broker))
        if left:
            raise CommandError(f"broker {given.broker} has {left} replicas: drain it or reassign them first")
        answer = kafka.ask(UnregisterBrokerRequest(broker_id=given.broker))
    check(answer.error_code, answer.error_message, f"broker {given.broker}")
    output_of(given).done(f"broker {given.broker} is unregistered", {"unregistered": given.broker})


# -- reassign ----------------------------------------------------------------------------------------------------------
def there(kafka: Kafka) -> list[Replicas]:
    return [
        Replicas(topic=topic["name"], partition=each["partition_index"], brokers=tuple(each["replica_nodes"]))
        for topic in kafka.topics()
        for each in topic["partitions"]
    ]


def under_way(kafka: Kafka) -> list[dict[str, Any]]:
    return [
        {
            "topic": place.topic,
            "partition": place.partition,
            "replicas": each["replicas"],
            "adding": each["adding_replicas"],
            "removing": each["removing_replicas"],
        }
        for place, each in sorted(kafka.patiently(kafka.admin.list_partition_reassignments).items())
    ]


def _reassign(given: argparse.Namespace) -> None:
    if given.list == bool(given.places):
        raise UsageError("give a TOPIC or TOPIC/PARTITION; only --list needs none")
    with connect(given) as kafka:
        if given.list:
            output_of(given).rows(MOVES, under_way(kafka), empty="There are no reassignments in progress.")
            return
        now = there(kafka)
        try:
            these = chosen(given.places, now)
            planned = None if given.cancel else changed(these, round_robin(these, given.to, given.replicas))
        except NoPlan as error:
            raise CommandError(str(error)) from None
        if not given.dry_run:
            _send(
                kafka, {(each.topic, each.partition): None for each in these} if planned is None else _wanted(planned)
            )
        if given.wait and not given.dry_run:
            _wait(lambda: len(under_way(kafka)), "moving", given.timeout)
    rows = [{"topic": each.topic, "partition": each.partition, "replicas": each.brokers} for each in planned or these]
    output_of(given).rows(
        MOVES[:3], rows if planned or given.cancel else [], empty="All replicas are on these brokers already."
    )


def _wanted(planned: list[Replicas]) -> dict[tuple[str, int], list[int] | None]:
    return {(each.topic, each.partition): list(each.brokers) for each in planned}


def _send(kafka: Kafka, wanted: dict[tuple[str, int], list[int] | None]) -> None:
    from kafka.protocol.admin import AlterPartitionReassignmentsRequest

    if not wanted:
        return
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    topics: dict[str, list[Any]] = {}
    for (name, index), replicas in wanted.items():
        topics.setdefault(name, []).append(topic.ReassignablePartition(partition_index=index, replicas=replicas))
    requested = [topic(name=name, partitions=partitions) for name, partitions in topics.items()]
    answer = kafka.ask_controller(AlterPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=requested))
    check(answer.error_code, answer.error_message, "reassignment")
    for each in answer.responses:
        for partition in each.partitions:
            check(partition.error_code, partition.error_message, f"{each.name}/{partition.partition_index}")


def _wait(left: Any, label: str, seconds: float) -> None:
    """Wait until nothing is left, twice in a row: at first the cluster may not have begun yet."""
    deadline = time.monotonic() + seconds
    most, calm = 0, 0
    with Progress(label) as progress:
        while calm < 2:  # polls in a row
            now = left()
            most = max(most, now)
            progress.to(most - now)
            calm = calm + 1 if now == 0 else 0
            if time.monotonic() > deadline:
                raise CommandError(
                    f"{now} partitions are not reassigned after {seconds} s; the reassignment continues, `--list` shows it"
                )
            time.sleep(LOOK_EVERY)


# -- elect -------------------------------------------------------------------------------------------------------------
def _elect(given: argparse.Namespace) -> None:
    from kafka.protocol.admin import ElectLeadersRequest

    with connect(given) as kafka:
        try:
            places = [place for place in given.places if place != METADATA]
            these = chosen(places, there(kafka)) if places or not given.places else []
        except NoPlan as error:
            raise CommandError(str(error)) from None
        topics: dict[str, list[int]] = {}
        for each in these:
            topics.setdefault(each.topic, []).append(each.partition)
        if METADATA in given.places:
            topics[METADATA] = [0]
        request = ElectLeadersRequest(
            election_type=1 if given.unclean else 0, topic_partitions=list(topics.items()), timeout_ms=TIMEOUT_MS
        )
        # A cluster that needs an unclean election may have no controller.
        answer = kafka.ask(request) if given.unclean else kafka.ask_controller(request)
    check(answer.error_code, None, "election")
    rows, failures = [], []
    for result in answer.replica_election_results:
        for each in result.partition_result:
            row = {"topic": result.topic, "partition": each.partition_id, "outcome": "elected"}
            if each.error_code == ELECTION_NOT_NEEDED:
                row["outcome"] = "already led by the preferred replica"
            elif each.error_code:
                row["outcome"] = each.error_message or f"error {each.error_code}"
                failures.append(f"{result.topic}/{each.partition_id}: {row['outcome']}")
            rows.append(row)
    output_of(given).rows(ELECTED, sorted(rows, key=lambda row: (row["topic"], row["partition"])))
    if failures:
        raise CommandError("; ".join(failures))
