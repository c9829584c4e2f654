"""Apache Kafka to measure against: its jars through Maven, one KRaft node on loopback, stock settings."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import uuid
from pathlib import Path

from benchmarks.processes import Process, spawn

VERSION = "4.3.1"
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
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
log.dirs={data}
default.replication.factor=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
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
    fetch()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    properties = directory / "server.properties"
    properties.write_text(SERVER.format(port=port, controller=port + 1000, data=directory / "data"))
    # An id that begins with "-" would be read as an option.
    cluster_id = "k" + base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()[1:]
    storage = ["kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties), "--standalone"]
    subprocess.run(["java", "-cp", f"{LIBS}/*", *storage], check=True, capture_output=True)
    return spawn("kafka", ["java", *JVM, "-cp", f"{LIBS}/*", "kafka.Kafka", str(properties)], port, directory)
