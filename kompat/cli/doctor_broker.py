"""The doctor's look at a running broker, and the cluster that it belongs to."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import closing
from socket import create_connection
from typing import Any, Final

from kompat.cli import configs
from kompat.cli.cluster import health, quorum_of
from kompat.cli.command import CommandError
from kompat.cli.doctor_data import RESERVE, room
from kompat.cli.findings import Finding, fine, warning, wrong
from kompat.cli.http_client import Door, DoorError, door
from kompat.cli.kafka_client import Kafka, connect, error_name, told

DIAL_SECONDS: Final = 3.0
FAR_BEHIND: Final = 1000  # records of metadata
CLOCK_SECONDS: Final = 5.0
TOLD: Final = 5


def examine(given: argparse.Namespace) -> Iterator[Finding]:
    yield from _kafka(given)
    if not given.no_http:
        yield from _http(given)


# -- Kafka's protocol --------------------------------------------------------------------------------------------------
def _kafka(given: argparse.Namespace) -> Iterator[Finding]:
    from kafka.errors import KafkaError

    began = time.monotonic()
    try:
        kafka = connect(given)
    except CommandError as error:
        yield wrong(
            "broker", str(error), "is it running? `kompat start` says where it listens; check --bootstrap-server"
        )
        return
    with kafka:
        took = time.monotonic() - began
        yield fine("broker", f"{given.bootstrap_server} answers ({took * 1000:.0f} ms)")
        try:
            yield from _addresses(kafka)
            yield from _partitions(kafka)
            yield from _quorum(kafka)
            yield from _disks(kafka)
        except KafkaError as error:
            yield wrong("broker", told(error), "look into the broker's log")


def _addresses(kafka: Kafka) -> Iterator[Finding]:
    """Clients are sent to the addresses that brokers tell: they have to work from here, too."""
    for each in kafka.cluster()["brokers"]:
        address = f"{each['host']}:{each['port']}"
        try:
            with closing(create_connection((each["host"], each["port"]), timeout=DIAL_SECONDS)):
                yield fine("advertised address", f"broker {each['broker_id']} is reached at {address}")
        except OSError as error:
            yield wrong(
                "advertised address",
                f"broker {each['broker_id']} tells clients {address}, which cannot be reached from here: {error}",
                "start it, or set --advertised (advertised.listeners) to an address that clients can reach",
            )


def _partitions(kafka: Kafka) -> Iterator[Finding]:
    found = health(kafka)
    if found["controller"] < 0:
        yield wrong("controller", "there is none", "a majority of the brokers that keep the metadata has to run")
    if found["leaderless"]:
        yield wrong(
            "leaders", _some(found["leaderless"], "without a leader"), "start the brokers that have replicas of them"
        )
    else:
        yield fine("leaders", f"all of {found['partitions']} partitions have one")
    if found["underReplicated"]:
        yield warning(
            "replicas",
            _some(found["underReplicated"], "under-replicated"),
            "a broker is gone or behind: `kompat cluster brokers`; it is nothing while one restarts",
        )
    else:
        yield fine("replicas", "all are in sync")


def _some(places: list[str], what: str) -> str:
    more = ", …" if len(places) > TOLD else ""
    return f"{len(places)} partitions are {what}: {', '.join(places[:TOLD])}{more}"


def _quorum(kafka: Kafka) -> Iterator[Finding]:
    try:
        replicas: list[dict[str, Any]] = quorum_of(kafka)["replicas"]
    except CommandError as error:
        yield warning("metadata", str(error), "ask again: a leader is being elected")
        return
    behind = [each for each in replicas if each["lag"] is None or each["lag"] > FAR_BEHIND]
    if behind:
        names = ", ".join(str(each["id"]) for each in behind)
        yield warning("metadata", f"brokers {names} are far behind", "are they running? `kompat cluster raft`")
    else:
        yield fine("metadata", f"{len(replicas)} brokers have it")


def _disks(kafka: Kafka) -> Iterator[Finding]:
    from kafka.errors import KafkaError
    from kafka.protocol.admin import DescribeLogDirsRequest

    for broker in kafka.cluster()["brokers"]:
        number = broker["broker_id"]
        try:
            answer = kafka.ask(DescribeLogDirsRequest(topics=[]), number)
        except KafkaError:  # it is down, which is told already
            continue
        for each in answer.results:
            if each.error_code:
                told = f"broker {number} cannot use {each.log_dir}: {error_name(each.error_code)}"
                yield wrong("disk", told, "look into the broker's log")
            elif each.total_bytes > 0:  # brokers before 3.3 do not tell
                yield room(f"broker {number} has ", each.usable_bytes, each.total_bytes, _reserve(kafka, number))


def _reserve(kafka: Kafka, broker: int) -> int:
    try:
        told = {each["name"]: each["value"] for each in configs.describe(kafka, "broker", str(broker))}
    except CommandError:  # not everybody may ask that
        return RESERVE
    return int(told.get("kompat.disk.reserve.bytes") or RESERVE)


# -- the HTTP door -----------------------------------------------------------------------------------------------------
def _http(given: argparse.Namespace) -> Iterator[Finding]:
    at = door(given)
    try:
        at.get("/health/live")
        ready = at.get("/health/ready")
    except DoorError as error:
        yield wrong("HTTP door", f"{given.http}: {error}", "the broker says what it waits for; give it a moment")
        return
    except CommandError as error:
        yield warning(
            "HTTP door", str(error), "check --http (kompat.http.port); --no-http leaves it out, as for Apache Kafka"
        )
        return
    yield fine("HTTP door", f"{given.http} is {(ready or {}).get('status', 'ready')}")
    yield from _clock(at)


def _clock(at: Door) -> Iterator[Finding]:
    """Delays and retention go by the broker's clock, timestamps by the clients'."""
    try:
        told = at.get("/v1/statistics")["at"]
    except (CommandError, KeyError):  # not everybody may ask that
        return
    apart = abs(told / 1000 - time.time())
    if apart > CLOCK_SECONDS:
        yield warning("clocks", f"the broker's and this one are {apart:.0f} s apart", "let NTP set both of them")
    else:
        yield fine("clocks", "the broker's and this one agree")
