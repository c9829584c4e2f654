"""ApiVersions."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

import kompat.testing
from kompat.errors import ErrorCode
from kompat.handlers import APIS
from kompat.handlers.api_versions import TELEMETRY
from tests.handlers import wire
from tests.handlers.conftest import Asker, build

CLIENT_METRICS = 16


@pytest.fixture(scope="module")
def ask_own() -> Iterator[Asker]:
    """Asks a broker where no other test subscribes to clients' metrics."""
    with kompat.testing.broker() as broker:
        yield Asker(broker)


@pytest.mark.parametrize("version", range(5))
def test_what_is_served_is_advertised_and_nothing_else(ask_own: Asker, version: int) -> None:
    def advertised() -> list[tuple[int, int, int]]:
        answer = ask_own("ApiVersions", version, client_software_name="tests", client_software_version="1.0")
        assert answer.error_code == ErrorCode.NONE
        return [(k.api_key, k.min_version, k.max_version) for k in answer.api_keys]

    served = [(api.key, api.advertised.low, api.advertised.high) for api in APIS]
    assert advertised() == [each for each in served if each[0] not in TELEMETRY]

    _subscribe(ask_own, "SET")
    assert advertised() == served
    _subscribe(ask_own, "DELETE")


def _subscribe(ask: Asker, operation: str) -> None:
    """Want clients' metrics, or want them no more."""
    config = {"name": "metrics", "config_operation": ["SET", "DELETE"].index(operation), "value": "*"}
    resource = {"resource_type": CLIENT_METRICS, "resource_name": "all", "configs": [config]}
    answer = ask("IncrementalAlterConfigs", 1, resources=[resource], validate_only=False)
    assert answer.responses[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize(("name", "version"), [("", "1"), ("a b", "1"), ("tests", ""), ("-tests", "1")])
def test_a_client_that_does_not_say_who_it_is_is_refused(ask: Asker, name: str, version: str) -> None:
    answer = ask("ApiVersions", 3, client_software_name=name, client_software_version=version)

    assert (answer.error_code, answer.api_keys) == (ErrorCode.INVALID_REQUEST, [])


@pytest.mark.parametrize("version", [5, 99])
def test_a_version_of_the_future_is_answered_in_v0_with_the_range_served(ask: Asker, version: int) -> None:
    frame = bytearray(wire.request_frame(build("ApiVersionsRequest", {"client_software_name": "tests"}), 4))
    frame[6:8] = version.to_bytes(2, "big")

    with socket.create_connection((ask.broker.host, ask.broker.port), timeout=10) as connection:
        connection.sendall(frame)
        answer = wire.decode_response("ApiVersions", 0, wire.read_frame(connection))

    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(k.api_key, k.min_version, k.max_version) for k in answer.api_keys] == [(18, 0, 4)]


@pytest.mark.parametrize("version", [3, 4])
def test_the_clusters_version_is_told_as_a_feature(ask: Asker, version: int) -> None:
    answer = ask("ApiVersions", version, client_software_name="tests", client_software_version="1.0")

    assert {f.name: f.max_version_level for f in answer.finalized_features}["metadata.version"] == 30
    assert answer.finalized_features_epoch >= 0
    assert version > 3 or all(f.min_version > 0 for f in answer.supported_features)
