"""What clients send to Kafka's port of a real broker before they have said who they are, and what it must not cost."""

import resource
import select
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import psutil
import pytest

from interop_tests.support.broker import Broker, external, running
from interop_tests.support.wait import despite

pytestmark = pytest.mark.skipif(external() is not None, reason="looks at the broker's memory")

MIB = 1 << 20
API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36
SASL = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "kompat.bootstrap.scram": "SCRAM-SHA-256=[name=alice,password=secret]",
}


@pytest.fixture(autouse=True)
def many_files() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65536), most))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running(tmp_path_factory.mktemp("hostile")) as started:
        yield started


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running(tmp_path_factory.mktemp("secured"), SASL) as started:
        yield started


def connect(broker: Broker) -> socket.socket:
    host, port = broker.bootstrap.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=20)


def request(key: int, version: int, body: bytes) -> bytes:
    frame = struct.pack(">hhih", key, version, 1, -1) + body
    return struct.pack(">i", len(frame)) + frame


def answer(connection: socket.socket) -> bytes:
    head = connection.recv(4, socket.MSG_WAITALL)
    if len(head) < 4:
        raise ConnectionResetError("closed without an answer")
    (size,) = struct.unpack(">i", head)
    return connection.recv(size, socket.MSG_WAITALL)


def ask_versions(connection: socket.socket) -> None:
    connection.sendall(request(API_VERSIONS, 0, b""))
    assert answer(connection)[4:6] == b"\x00\x00"


def log_in(broker: Broker) -> None:
    with connect(broker) as connection:
        connection.sendall(request(SASL_HANDSHAKE, 1, struct.pack(">h", 5) + b"PLAIN"))
        assert answer(connection)[4:6] == b"\x00\x00"
        token = b"\0alice\0secret"
        connection.sendall(request(SASL_AUTHENTICATE, 1, struct.pack(">i", len(token)) + token))
        assert answer(connection)[4:6] == b"\x00\x00"


def memory(broker: Broker) -> int:
    size: int = psutil.Process(broker.pid).memory_info().rss
    return size


def test_five_bytes_on_many_connections_take_little_memory(secured: Broker, broker: Broker) -> None:
    for attacked, promised in ((secured, 500_000), (broker, 90_000_000)):
        before = memory(attacked)
        with ExitStack() as stack:
            for _ in range(900):
                stack.enter_context(connect(attacked)).sendall(struct.pack(">i", promised) + b"x")
            if attacked is secured:
                log_in(attacked)
            else:
                ask_versions(stack.enter_context(connect(attacked)))
            taken = memory(attacked) - before

        assert taken < 60 * MIB


def test_connections_one_after_the_other_leave_nothing_behind(broker: Broker) -> None:
    before = memory(broker)
    for _ in range(600):
        with connect(broker) as connection:
            connection.sendall(struct.pack(">i", 90_000_000) + b"xx")
    with connect(broker) as connection:
        ask_versions(connection)

    assert memory(broker) - before < 60 * MIB


def test_half_sent_requests_take_no_more_than_the_limit_and_give_way(tmp_path_factory: pytest.TempPathFactory) -> None:
    limit = 32 * MIB
    with running(tmp_path_factory.mktemp("half"), {"queued.max.request.bytes": str(limit)}) as broker:
        before = memory(broker)
        with ExitStack() as stack:
            for _ in range(20):
                connection = stack.enter_context(connect(broker))
                connection.setblocking(False)
                connection.sendall(struct.pack(">i", 8 * MIB))
                _send_what_goes(connection, memoryview(bytes(4 * MIB)))
            with connect(broker) as innocent:
                ask_versions(innocent)
            assert memory(broker) - before < 3 * limit
            # A long request: the others are silent, and have to make room. A client whose connection is closed comes again.
            assert despite(ConnectionError, lambda: ask_long(broker), "a long request is answered")


def ask_long(broker: Broker) -> bytes:
    with connect(broker) as producer:
        producer.sendall(request(99, 0, bytes(16 * MIB)))
        return answer(producer)


def _send_what_goes(connection: socket.socket, part: memoryview) -> None:
    """Until all is sent, or the broker has not taken anything for a while; or has closed the connection to make room."""
    with suppress(ConnectionError):
        while part and select.select([], [connection], [], 0.1)[1]:
            part = part[connection.send(part) :]


def test_silent_connections_keep_nobody_from_logging_in(secured: Broker) -> None:
    with ExitStack() as stack:
        for _ in range(8):
            for _ in range(250):
                stack.enter_context(connect(secured))
            log_in(secured)


def test_tagged_fields_without_end_hold_nobody_up(secured: Broker) -> None:
    tags = 259_000
    count = bytes([tags & 0x7F | 0x80, tags >> 7 & 0x7F | 0x80, tags >> 14])
    frame = struct.pack(">hhih", API_VERSIONS, 3, 1, -1) + count + b"\x00\x00" * tags
    spent = psutil.Process(secured.pid).cpu_times()
    for _ in range(20):
        with connect(secured) as connection:
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            assert connection.recv(1) == b"", "it is closed"
    log_in(secured)
    now = psutil.Process(secured.pid).cpu_times()

    assert now.user - spent.user < 2.0, "each took 0.15 seconds"
