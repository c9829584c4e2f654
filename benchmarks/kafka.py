"""Apache Kafka to measure against: its jars through Maven, one KRaft node on loopback or three, stock settings."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import Process, launch_all, spawn

VERSION = "4.3.1"
CONTROLLER = 1000  # the controller's port is so far above the broker's
LOG4J = "2.25.4"
HOME = Path(os.environ.get("KOMPAT_BENCH_CACHE", Path.home() / ".cache" / "kompat-bench")) / f"kafka-{VERSION}"
LIBS = HOME / "libs"
# The flags and the heap that kafka-server-start.sh gives the server.
JVM = [
    "-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
]  # fmt: skip

POM = """<project><modelVersion>4.0.0</modelVersion><groupId>kompat</groupId><artifactId>bench</artifactId>
<version>1</version><packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"""
DEPENDENCY = "<dependency><groupId>{0}</groupId><artifactId>{1}</artifactId><version>{2}</version></dependency>"

SERVER = """process.roles=broker,controller
node.id={node}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.quorum.bootstrap.servers={controllers}
log.dirs={data}
default.replication.factor={factor}
min.insync.replicas={in_sync}
offsets.topic.replication.factor={factor}
transaction.state.log.replication.factor={factor}
transaction.state.log.min.isr={in_sync}
share.coordinator.state.topic.replication.factor={factor}
share.coordinator.state.topic.min.isr={in_sync}
group.initial.rebalance.delay.ms=0
"""


def fetch() -> None:
    """Resolve Kafka's jars once."""
    done = LIBS / ".complete"
    if done.exists():
        return
    HOME.mkdir(parents=True, exist_ok=True)
    wanted = [("org.apache.kafka", a, VERSION) for a in ("kafka_2.13", "kafka-tools")]
    wanted += [("org.apache.logging.log4j", a, LOG4J) for a in ("log4j-core", "log4j-slf4j-impl", "log4j-1.2-api")]
    pom = HOME / "pom.xml"
    pom.write_text(POM.format(dependencies="".join(DEPENDENCY.format(*w) for w in wanted)))
    plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
    subprocess.run(
        ["mvn", "-B", "-q", "-f", str(pom), plugin, "-DincludeScope=runtime", f"-DoutputDirectory={LIBS}"], check=True
    )
    done.touch()


def start(port: int, directory: Path) -> Process:
    shutil.rmtree(directory, ignore_errors=True)
    server = _prepare(Node(1, port, directory, f"127.0.0.1:{port + CONTROLLER}", 1, 1), _id(), "--standalone")
    return spawn("kafka", server, port, directory)


def start_three(port: int, directory: Path) -> list[Process]:
    """Of which each is broker and controller, on three ports from `port` on."""
    shutil.rmtree(directory, ignore_errors=True)
    ports = [port + place for place in range(3)]
    controllers = ",".join(f"127.0.0.1:{each + CONTROLLER}" for each in ports)
    voters = ",".join(f"{place}@127.0.0.1:{each + CONTROLLER}:{_id()}" for place, each in enumerate(ports, 1))
    cluster_id = _id()
    launched = []
    for place, each in enumerate(ports, 1):
        home = directory / str(place)
        server = _prepare(Node(place, each, home, controllers, 3, 2), cluster_id, "--initial-controllers", voters)
        launched.append((server, each, home))
    return launch_all("kafka", launched)


@dataclass(frozen=True)
class Node:
    number: int
    port: int
    home: Path
    controllers: str
    factor: int
    in_sync: int


def _prepare(node: Node, cluster_id: str, *quorum: str) -> list[str]:
    """Format its directory; the command that starts it."""
    fetch()
    node.home.mkdir(parents=True)
    properties = node.home / "server.properties"
    properties.write_text(
        SERVER.format(
            node=node.number,
            port=node.port,
            controller=node.port + CONTROLLER,
            controllers=node.controllers,
            data=node.home / "data",
            factor=node.factor,
            in_sync=node.in_sync,
        )
    )
    storage = ["kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties), *quorum]
    subprocess.run(["java", "-cp", f"{LIBS}/*", *storage], check=True, capture_output=True)
    return ["java", *JVM, "-cp", f"{LIBS}/*", "kafka.Kafka", str(properties)]


def _id() -> str:
    """In Kafka's form. One that begins with "-" would be read as an option."""
    return "k" + base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()[1:]
