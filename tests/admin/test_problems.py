"""Errors as they are told by HTTP."""

import pytest

from kompat.admin.problems import TITLES, Problem, check, problem_of, status_of
from kompat.errors import ErrorCode, KafkaError, PeerTimeout, StorageError

CODES = [code for code in ErrorCode if code is not ErrorCode.NONE]


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_every_error_of_kafkas_has_a_status_a_reason_and_a_name(code: ErrorCode) -> None:
    problem = problem_of(KafkaError(code))

    shape = problem.shape("/v1/topics")
    assert 400 <= shape.status < 600
    assert shape.status in TITLES
    assert shape.code == code.name
    assert len(shape.detail) > 5
    assert shape.type == f"urn:kompat:problem:{code.name.lower().replace('_', '-')}"
    assert ("retry-after" in problem.headers) == (shape.status in (429, 503))


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 404),
        (ErrorCode.UNKNOWN_TOPIC_ID, 404),
        (ErrorCode.GROUP_ID_NOT_FOUND, 404),
        (ErrorCode.TOPIC_ALREADY_EXISTS, 409),
        (ErrorCode.NON_EMPTY_GROUP, 409),
        (ErrorCode.INVALID_CONFIG, 400),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, 400),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 403),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 403),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 503),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, 503),
        (ErrorCode.REQUEST_TIMED_OUT, 503),
        (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 429),
        (ErrorCode.MESSAGE_TOO_LARGE, 413),
        (ErrorCode.KAFKA_STORAGE_ERROR, 507),
        (ErrorCode.CORRUPT_MESSAGE, 500),
        (ErrorCode.UNKNOWN_SERVER_ERROR, 500),
    ],
)
def test_the_status_is_the_one_that_http_has_for_it(code: ErrorCode, status: int) -> None:
    assert status_of(code) == status


def test_the_reason_is_told_and_what_to_do() -> None:
    problem = problem_of(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic x"))

    assert problem.detail.startswith("There is no topic x. ")
    assert "GET /v1/topics" in problem.detail


@pytest.mark.parametrize(
    ("error", "status"),
    [(StorageError("no space left"), 507), (PeerTimeout("broker 2"), 503), (Problem(418, "tea"), 418)],
)
def test_other_errors_have_their_place(error: Exception, status: int) -> None:
    assert problem_of(error).status == status


def test_a_bug_tells_nothing_of_itself() -> None:
    assert "secret" not in problem_of(ValueError("secret")).detail


def test_a_code_that_is_none_is_no_error() -> None:
    check(0)
    with pytest.raises(KafkaError, match="why"):
        check(ErrorCode.INVALID_REQUEST, "why")
