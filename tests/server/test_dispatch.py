import asyncio
import logging
import struct

import pytest

from kompat.common.promise import Promise
from kompat.errors import ErrorCode, KafkaError, ProtocolError, StorageError
from kompat.handlers import BY_KEY
from kompat.handlers.support.base import Context
from kompat.protocol.api_keys import ApiKey
from kompat.server.dispatch import Client, Dispatcher, Exchange
from tests.server.support import NO_SERVICES, Ask, Tell, api, decode, echo, request, serving

CLIENT = Client(host="10.0.0.1", connection_id="10.0.0.2:9092-10.0.0.1:555", local_address=("10.0.0.2", 9092))


def answered(data: bytes, *apis: object) -> tuple[int, int, bytes] | None:
    """Correlation id, error code and text of the answer; None where the connection is to be closed."""
    dispatcher = Dispatcher(apis, NO_SERVICES)  # type: ignore[arg-type]
    result = dispatcher.dispatch(CLIENT, memoryview(bytearray(data))[4:])
    answer = result.result() if isinstance(result, Exchange) else result
    if answer is None:
        return None
    frame = b"".join(answer)
    length, correlation_id, error = struct.unpack_from(">iih", frame)
    assert length == len(frame) - 4
    return correlation_id, error, frame[10:]


def raising(error: Exception) -> object:
    def handle(_: Context, ask: Ask) -> Tell:
        raise error

    return api(handle)


def test_an_unknown_key_is_answered() -> None:
    assert answered(request(7, key=999), api(echo)) == (7, ErrorCode.UNSUPPORTED_VERSION, b"")


def test_a_version_above_those_served_is_answered_in_the_highest_there_is() -> None:
    assert answered(request(7, version=99), api(echo)) == (7, ErrorCode.UNSUPPORTED_VERSION, b"")


@pytest.mark.parametrize(("key", "level"), [(ApiKey.ApiVersions, logging.DEBUG), (ApiKey.Metadata, logging.WARNING)])
def test_clients_that_ask_for_versions_in_a_newer_version_are_not_warned_of(
    caplog: pytest.LogCaptureFixture, key: ApiKey, level: int
) -> None:
    """Those of Kafka 4.4 do so with every connection."""
    frame = struct.pack(">hhih", key, BY_KEY[key].versions.high + 1, 7, -1) + bytes(1)
    with caplog.at_level(logging.DEBUG):
        Dispatcher([BY_KEY[key]], NO_SERVICES).dispatch(CLIENT, memoryview(bytearray(frame)))

    [told] = [record for record in caplog.records if "not served" in record.message]
    assert told.levelno == level


def test_an_error_with_a_code_is_answered_with_it() -> None:
    assert answered(request(7), raising(KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION))) == (
        7,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        b"",
    )


def test_an_error_of_the_disk_is_answered_as_one() -> None:
    answer = answered(request(7), raising(StorageError("no space left")))

    assert answer == (7, ErrorCode.KAFKA_STORAGE_ERROR, b"")


def test_a_bug_is_answered_and_logged_once_with_who_asked_what(caplog: pytest.LogCaptureFixture) -> None:
    answer = answered(request(7), raising(ZeroDivisionError("oops")))

    assert answer == (7, ErrorCode.UNKNOWN_SERVER_ERROR, b"")
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ZeroDivisionError)
    facts = vars(record)
    assert facts["api"] == "Produce"
    assert facts["version"] == 3
    assert facts["correlation_id"] == 7
    assert facts["client_id"] == "test"
    assert facts["client"] == CLIENT.connection_id


def test_a_bug_in_an_answer_that_comes_later_is_answered_too() -> None:
    later: Promise[Tell] = Promise()
    later.fail(ZeroDivisionError())

    assert answered(request(7), api(lambda _, ask: later)) == (7, ErrorCode.UNKNOWN_SERVER_ERROR, b"")


def test_a_response_that_cannot_be_encoded_is_answered_with_an_error() -> None:
    bad = Tell(b"", error_code=10**9)

    assert answered(request(7), api(lambda _, ask: bad)) == (7, ErrorCode.UNKNOWN_SERVER_ERROR, b"")


def test_a_handler_may_ask_for_the_connection_to_be_closed() -> None:
    assert answered(request(7), raising(ProtocolError("acks=0 failed"))) is None


def test_a_body_that_cannot_be_read_is_an_invalid_request() -> None:
    def broken(version: int, body: memoryview) -> Ask:
        raise ProtocolError("an array longer than the request")

    assert answered(request(7), api(echo, decode=broken)) == (7, ErrorCode.INVALID_REQUEST, b"")


def test_what_cannot_be_answered_closes_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    def no_failure(_: Ask, error: KafkaError) -> Tell:
        raise KeyError("a bug on top")

    broken = api(lambda _, ask: Tell(b"", error_code=10**9))
    object.__setattr__(broken.handler, "failure", no_failure)

    assert answered(request(7), broken) is None
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.ERROR]


def test_an_error_that_nobody_expects_an_answer_to_closes_the_connection() -> None:
    class Unacknowledged(Ask):
        acks = 0

    def read(version: int, body: memoryview) -> Ask:
        return Unacknowledged(**vars(decode(version, body)))

    failing = raising(KafkaError(ErrorCode.INVALID_RECORD))
    object.__setattr__(failing.handler, "decode", read)

    assert answered(request(7), failing) is None


def test_two_handlers_for_one_key_are_refused() -> None:
    with pytest.raises(ValueError, match="two handlers"):
        Dispatcher([api(echo), api(echo)], NO_SERVICES)


async def test_a_failed_request_leaves_the_connection_usable() -> None:
    def sometimes(_: Context, ask: Ask) -> Tell:
        if ask.number == 0:
            raise RuntimeError("a bug")
        return Tell(ask.text)

    async with serving(api(sometimes)) as server:
        client = await server.connect()
        client.send(request(1, number=0) + request(2, b"fine", number=1))

        assert (await client.receive())[:2] == (1, ErrorCode.UNKNOWN_SERVER_ERROR)
        assert await client.receive() == (2, 0, b"fine")


async def test_the_answer_of_a_coroutine_is_there_in_the_turn_in_which_the_coroutine_ends() -> None:
    awaited = asyncio.get_running_loop().create_future()

    async def handle(_: Context, ask: Ask) -> Tell:
        await awaited
        return Tell(ask.text)

    dispatcher = Dispatcher([api(handle)], NO_SERVICES)
    exchange = dispatcher.dispatch(CLIENT, memoryview(bytearray(request(7, b"late")[4:])))
    assert isinstance(exchange, Exchange)
    await asyncio.sleep(0)

    awaited.set_result(None)
    await asyncio.sleep(0)

    assert exchange.is_done
    assert exchange.result()
