"""The doctor's checks of a running broker and its cluster."""

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
from kompat.cli.http_client import HttpClient, HttpError, http_client
from kompat.cli.kafka_client import Kafka, connect, error_name, error_text

DIAL_SECONDS: Final = 3.0
MAX_METADATA_LAG: Final = 1000  # metadata records
CLOCK_SECONDS: Final = 5.0
MOST_NAMED: Final = 5


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
            "broker",
            str(error),
            "check that the broker runs and that --bootstrap-server is the address that `kompat start` printed",
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
            yield wrong("broker", error_text(error), "read the log of the broker")


def _addresses(kafka: Kafka) -> Iterator[Finding]:
    """Clients connect to the advertised addresses of brokers: they have to be reachable from here, too."""
    for each in kafka.cluster()["brokers"]:
        address = f"{each['host']}:{each['port']}"
        try:
            with closing(create_connection((each["host"], each["port"]), timeout=DIAL_SECONDS)):
                yield fine("advertised address", f"broker {each['broker_id']} is reachable at {address}")
        except OSError as error:
            yield wrong(
                "advertised address",
                f"broker {each['broker_id']} advertises {address}, which is not reachable from here: {error}",
                "start it, or set --advertised (advertised.listeners) to an address that clients can reach",
            )


def _partitions(kafka: Kafka) -> Iterator[Finding]:
    found = health(kafka)
    if found["controller"] < 0:
        yield wrong("controller", "there is no controller", "a majority of the controller quorum has to run")
    if found["offline"]:
        yield wrong(
            "leaders", _some(found["offline"], "without a leader"), "start the brokers that have replicas of them"
        )
    else:
        yield fine("leaders", f"all of {found['partitions']} partitions have one")
    if found["underReplicated"]:
        yield warning(
            "replicas",
            _some(found["underReplicated"], "under-replicated"),
            "a broker is down or behind (see `kompat cluster brokers`); this is normal while a broker restarts",
        )
    else:
        yield fine("replicas", "all are in sync")


def _some(places: list[str], what: str) -> str:
    more = ", …" if len(places) > MOST_NAMED else ""
    return f"{len(places)} partitions are {what}: {', '.join(places[:MOST_NAMED])}{more}"


def _quorum(kafka: Kafka) -> Iterator[Finding]:
    try:
        replicas: list[dict[str, Any]] = quorum_of(kafka)["replicas"]
    except CommandError as error:
        yield warning("metadata", str(error), "try again: a leader is being elected")
        return
    behind = [each for each in replicas if each["lag"] is None or each["lag"] > MAX_METADATA_LAG]
    if behind:
        names = ", ".join(str(each["id"]) for each in behind)
        yield warning("metadata", f"brokers {names} are far behind", "check that they run: `kompat cluster raft`")
    else:
        yield fine("metadata", f"{len(replicas)} brokers have a replica of it")


def _disks(kafka: Kafka) -> Iterator[Finding]:
    from kafka.errors import KafkaError
    from kafka.protocol.admin import DescribeLogDirsRequest

    for broker in kafka.cluster()["brokers"]:
        number = broker["broker_id"]
        try:
            answer = kafka.ask(DescribeLogDirsRequest(topics=[]), number)
        except KafkaError:  # it is down, which is reported already
            continue
        for each in answer.results:
            if each.error_code:
                problem = f"broker {number} cannot use {each.log_dir}: {error_name(each.error_code)}"
                yield wrong("disk", problem, "read the log of the broker")
            elif each.total_bytes > 0:  # brokers before 3.3 do not return it
                yield room(f"broker {number} has ", each.usable_bytes, each.total_bytes, _reserve(kafka, number))


def _reserve(kafka: Kafka, broker: int) -> int:
    try:
        settings = {each["name"]: each["value"] for each in configs.describe(kafka, "broker", str(broker))}
    except CommandError:  # the user may not be authorized
        return RESERVE
    return int(settings.get("kompat.disk.reserve.bytes") or RESERVE)


# -- the HTTP port -----------------------------------------------------------------------------------------------------
def _http(given: argparse.Namespace) -> Iterator[Finding]:
    at = http_client(given)
    try:
        at.get("/health/live")
        ready = at.get("/health/ready")
    except HttpError as error:
        yield wrong(
            "HTTP port", f"{given.http}: {error}", "the broker reports what it waits for; try again in a moment"
        )
        return
    except CommandError as error:
        yield warning(
            "HTTP port",
            str(error),
            "check --http (kompat.http.port); --no-http skips this check, for example for Apache Kafka",
        )
        return
    yield fine("HTTP port", f"{given.http} is {(ready or {}).get('status', 'ready')}")
    yield from _clock(at)


def _clock(at: HttpClient) -> Iterator[Finding]:
    """Compare the clocks: delays and retention use the broker's, timestamps the clients'."""
    try:
        broker_time = at.get("/v1/statistics")["at"]
    except (CommandError, KeyError):  # the user may not be authorized
        return
    apart = abs(broker_time / 1000 - time.time())
    if apart > CLOCK_SECONDS:
        yield warning(
            "clocks",
            f"the clocks of the broker and this machine differ by {apart:.0f} s",
            "synchronize both clocks by NTP",
        )
    else:
        yield fine("clocks", "the clocks of the broker and this machine agree")
