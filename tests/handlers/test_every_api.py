"""Rules that hold for every API in every version."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers import APIS, coverage
from kompat.handlers.base import Api, Context
from kompat.handlers.late import LateApi
from kompat.protocol.codec import decode_request, encode_response, frame_response
from kompat.protocol.messages import message_class
from kompat.server.dispatch import Client, Dispatcher
from tests.server.support import NO_SERVICES

from . import samples, wire

LATE = [api for api in APIS if isinstance(api, LateApi)]
EVERY_VERSION = [
    pytest.param(api, version, id=f"{api.name}-v{version}")
    for api in LATE
    for version in range(api.versions.low, api.versions.high + 1)
]


def test_no_two_apis_have_the_same_key() -> None:
    keys = [api.key for api in APIS]

    assert keys == sorted(set(keys))


@pytest.mark.parametrize("api", LATE, ids=lambda api: api.name)
def test_the_table_says_what_the_module_says(api: LateApi) -> None:
    loaded = api.load()

    assert (api.key, api.name, api.versions) == (loaded.key, loaded.name, loaded.versions)
    assert api.advertised == loaded.advertised
    assert loaded.request.SCHEMA.api_key == message_class(f"{api.name}Response").SCHEMA.api_key == api.key
    assert (loaded.request.__name__, loaded.response.__name__) == (f"{api.name}Request", f"{api.name}Response")


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION)
@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.KAFKA_STORAGE_ERROR])
def test_a_failure_can_be_told_in_every_version(api: Api[Any, Any], version: int, code: ErrorCode) -> None:
    response = api.failure(_as_received(api, version), KafkaError(code))

    codes = wire.error_codes(_as_sent(api, version, response))
    assert code in codes or (api.name, version) in NO_ROOM_FOR_AN_ERROR
    assert codes <= {code, ErrorCode.NONE}


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION)
def test_a_failure_says_which_of_the_things_asked_for_failed(api: Api[Any, Any], version: int) -> None:
    response = api.failure(_as_received(api, version), KafkaError(ErrorCode.INVALID_REQUEST))

    codes = wire.error_codes(_as_sent(api, version, response))
    assert ErrorCode.NONE not in codes or len(codes) == 1


@pytest.mark.parametrize("api", LATE, ids=lambda api: api.name)
def test_a_request_that_could_not_be_read_can_be_refused(api: Api[Any, Any]) -> None:
    assert isinstance(api.failure(api.request(), KafkaError(ErrorCode.INVALID_REQUEST)), api.response)


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION)
def test_an_exception_in_a_handler_is_answered_and_logged_once(
    api: LateApi, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    broken = replace(api.load(), handle=_break, stamp=None)
    frame = wire.request_frame(samples.request(api.name, version), version)[4:]

    answer = Dispatcher([broken], NO_SERVICES).dispatch(CLIENT, memoryview(bytearray(frame)))

    assert isinstance(answer, list)
    codes = wire.error_codes(wire.decode_response(api.name, version, b"".join(answer)[4:]))
    assert ErrorCode.UNKNOWN_SERVER_ERROR in codes or (api.name, version) in NO_ROOM_FOR_AN_ERROR
    told = [record for record in caplog.records if record.name != "kompat.watchdog"]  # a busy machine is slow to import
    assert [record.exc_info is not None for record in told] == [True]


def _break(_: Context, __: Any) -> None:
    raise ZeroDivisionError


CLIENT = Client("127.0.0.1", "a-connection", ("127.0.0.1", 9092))
NO_ROOM_FOR_AN_ERROR = {("DescribeLogDirs", 1), ("DescribeLogDirs", 2)}


def _as_received(api: Api[Any, Any], version: int) -> Any:
    body = samples.request(api.name, version).encode(version=version)
    return decode_request(api.request, version, memoryview(bytearray(body)))


def _as_sent(api: Api[Any, Any], version: int, response: Any) -> Any:
    if api.encode is not None:
        buffers = frame_response(wire.CORRELATION_ID, api.key, version, api.encode(version, response))
    else:
        buffers = encode_response(wire.CORRELATION_ID, api.response, version, response)
    frame = b"".join(buffers)
    return wire.decode_response(api.name, version, frame[4:])


def test_the_coverage_page_is_current() -> None:
    assert coverage.PAGE.read_text(encoding="utf-8") == coverage.page(), "run python -m kompat.handlers.coverage"
