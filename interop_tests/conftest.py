"""Fixtures of the interop tests.

KOMPAT_TEST_BOOTSTRAP=host:port uses a broker that already runs, such as Apache Kafka's own, to prove the tests themselves.
"""

import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# The clients are other people's, and so are their warnings.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import aiokafka  # noqa: F401
    import kafka  # noqa: F401

from interop_tests.support.broker import AnyBroker, Broker, external, running
from interop_tests.support.clients.base import Client
from interop_tests.support.clients.every import CLIENTS, client_named
from interop_tests.support.members.host import Host
from interop_tests.support.members.kinds import AnyHost, Kind
from interop_tests.support.topics import Topics
from interop_tests.support.worker import Worker, go_worker, java_worker, old_java_worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

StartBroker = Callable[..., Broker]
HostOf = Callable[..., AnyHost]


# Files that take minutes begin first: a worker that got one of them last would be the only one at work for that long.
LONG = (
    "test_docs",
    "test_spark",
    "test_cluster",
    "test_scale",
    "test_streams_connect",
    "test_transactions",
    "test_groups",
    "test_cli",
    "test_admin_java",
    "test_full_disk",
    "test_damage",
    "test_rest_schema",
    "test_plain_install",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.filterwarnings("default"))
    items.sort(
        key=lambda item: next((at for at, name in enumerate(LONG) if item.path.name.startswith(name)), len(LONG))
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure comes with what the brokers had to say."""
    report = yield
    if report.failed:
        for broker in Broker.started:
            report.sections.append((f"broker on {broker.port}", broker.log_tail()))
    return report


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyBroker]:
    """One broker for the tests of a module, with the settings of a new installation."""
    given = external()
    if given is not None:
        yield given
        return
    with running(tmp_path_factory.mktemp("broker")) as started:
        yield started


@pytest.fixture(scope="module")
def bootstrap(broker: AnyBroker) -> str:
    return broker.bootstrap


@pytest.fixture(scope="module")
def topics(bootstrap: str) -> Topics:
    return Topics(bootstrap)


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[StartBroker]:
    """Starts brokers of the test's own, which it may stop and kill."""
    if external() is not None:
        pytest.skip("the broker under test is not ours to restart")
    with ExitStack() as stack:

        def start(
            settings: Mapping[str, str] | None = None, *, name: str = "own", data: Path | str | None = None
        ) -> Broker:
            return stack.enter_context(running(tmp_path / name, settings, data=data))

        yield start


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """The newest Java client and Kafka's tools, in one JVM for all tests."""
    worker = java_worker(tmp_path_factory.mktemp("java") / "stderr")
    yield worker
    worker.close()


@pytest.fixture(scope="session")
def old_java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    worker = old_java_worker(tmp_path_factory.mktemp("java-3.9") / "stderr")
    yield worker
    worker.close()


@pytest.fixture(scope="session")
def golang(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    worker = go_worker(tmp_path_factory.mktemp("go") / "stderr")
    yield worker
    worker.close()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """One Spark for all tests: it takes its time to start."""
    from spark.session import open_session

    home = tmp_path_factory.mktemp("spark")
    settings = {"spark.sql.warehouse.dir": str(home / "warehouse"), "spark.local.dir": str(home / "local")}
    session = open_session("kompat-tests", master="local[2]", settings=settings)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> Client:
    """Every client in turn."""
    return client_named(request.param, request.getfixturevalue)


@pytest.fixture(scope="session")
def shared_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Host]]:
    """The JVMs for group members that nobody kills: they start once."""
    hosts: dict[str, Host] = {}
    yield hosts
    for host in hosts.values():
        host.close()


@pytest.fixture
def host_of(shared_hosts: dict[str, Host], tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostOf]:
    """Starts processes for members of a kind; one that will be killed has to be the test's own."""
    started: list[AnyHost] = []

    def start(kind: Kind, *, own: bool = False) -> AnyHost:
        if not own and kind.jvm in shared_hosts:
            return shared_hosts[kind.jvm]
        host = kind.host(tmp_path_factory.mktemp("members") / "stderr")
        if own or kind.jvm is None or not isinstance(host, Host):
            started.append(host)
        else:
            shared_hosts[kind.jvm] = host
        return host

    yield start
    for host in started:
        host.close()
    for shared in shared_hosts.values():
        shared.leave_all()
