"""Errors are counted wherever an answer has room for one."""

from __future__ import annotations

import pytest

from kompat.common.meters import ApiMeter
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers import APIS
from kompat.handlers.support.base import Api
from kompat.protocol.codec import decode_request
from kompat.server.error_codes import counter_of
from tests.handlers import samples


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_the_failure_of_every_api_is_counted_under_its_code(api: Api) -> None:
    version = api.versions.high
    sample = samples.request(api.name, version)
    if api.name == "Produce":
        sample.topic_data[0].partition_data[0].records = b""
    frame = sample.encode(version=version, header=False, framed=False)
    body = memoryview(bytearray(frame))
    request = (
        api.handler.decode(version, body)
        if api.handler.decode is not None
        else decode_request(api.handler.request, version, body)
    )
    meter = ApiMeter(api.name)

    counter_of(api.handler.response)(
        meter, api.handler.failure(request, KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    )

    assert set(meter.errors) == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    assert meter.errors[ErrorCode.CLUSTER_AUTHORIZATION_FAILED] >= 1


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_a_default_answer_has_no_error(api: Api) -> None:
    meter = ApiMeter(api.name)

    counter_of(api.handler.response)(meter, api.handler.response())

    assert not meter.errors
