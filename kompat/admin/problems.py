"""Problem details (RFC 9457): a status, the reason, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kompat.errors import ErrorCode, KafkaError, PeerError, StorageError

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 1

BAD_REQUEST, UNAUTHORIZED, FORBIDDEN, NOT_FOUND, CONFLICT = 400, 401, 403, 404, 409
TOO_LARGE, MISDIRECTED, TOO_MANY, INTERNAL, UNAVAILABLE, NO_ROOM = 413, 421, 429, 500, 503, 507

TITLES = {
    400: "Invalid request",
    401: "Authentication required",
    403: "Not authorized",
    404: "Not found",
    405: "Method not allowed",
    406: "Not acceptable",
    408: "Request timeout",
    409: "Conflict",
    413: "Too large",
    415: "Unsupported media type",
    421: "Misdirected request",
    422: "Unprocessable request",
    429: "Too many requests",
    431: "Headers too large",
    500: "Internal error",
    501: "Not supported",
    503: "Not available",
    507: "No disk space",
}

E = ErrorCode
# Statuses of errors whose names do not imply them.
_STATUS: dict[ErrorCode, int] = {
    **dict.fromkeys(
        (
            E.GROUP_ID_NOT_FOUND, E.TRANSACTIONAL_ID_NOT_FOUND, E.RESOURCE_NOT_FOUND, E.BROKER_ID_NOT_REGISTERED, E.OFFSET_OUT_OF_RANGE,
            E.LOG_DIR_NOT_FOUND, E.UNKNOWN_TOPIC_OR_PARTITION, E.UNKNOWN_TOPIC_ID, E.UNKNOWN_MEMBER_ID, E.VOTER_NOT_FOUND,
        ),
        NOT_FOUND,
    ),
    **dict.fromkeys(
        (
            E.NON_EMPTY_GROUP, E.GROUP_SUBSCRIBED_TO_TOPIC, E.REASSIGNMENT_IN_PROGRESS, E.NO_REASSIGNMENT_IN_PROGRESS, E.CONCURRENT_TRANSACTIONS,
            E.DUPLICATE_RESOURCE, E.TOPIC_ALREADY_EXISTS, E.ELECTION_NOT_NEEDED, E.INVALID_RECORD_STATE, E.INVALID_TXN_STATE, E.PRODUCER_FENCED,
            E.ILLEGAL_GENERATION, E.REBALANCE_IN_PROGRESS, E.GROUP_MAX_SIZE_REACHED, E.TOPIC_DELETION_DISABLED, E.INVALID_PRODUCER_EPOCH,
            E.FENCED_MEMBER_EPOCH, E.STALE_MEMBER_EPOCH,
        ),
        CONFLICT,
    ),
    **dict.fromkeys(
        (
            E.LEADER_NOT_AVAILABLE, E.NOT_LEADER_OR_FOLLOWER, E.REQUEST_TIMED_OUT, E.BROKER_NOT_AVAILABLE, E.REPLICA_NOT_AVAILABLE,
            E.NETWORK_EXCEPTION, E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR, E.NOT_CONTROLLER,
            E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS_AFTER_APPEND, E.PREFERRED_LEADER_NOT_AVAILABLE, E.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            E.FENCED_LEADER_EPOCH, E.UNKNOWN_LEADER_EPOCH, E.OFFSET_NOT_AVAILABLE, E.FENCED_STATE_EPOCH, E.UNSTABLE_OFFSET_COMMIT,
            E.SHARE_SESSION_LIMIT_REACHED, E.NEW_LEADER_ELECTED, E.STALE_BROKER_EPOCH, E.STALE_CONTROLLER_EPOCH,
        ),
        UNAVAILABLE,
    ),
    **dict.fromkeys((E.MESSAGE_TOO_LARGE, E.RECORD_LIST_TOO_LARGE, E.OFFSET_METADATA_TOO_LARGE), TOO_LARGE),
    **dict.fromkeys((E.SASL_AUTHENTICATION_FAILED, E.ILLEGAL_SASL_STATE), UNAUTHORIZED),
    E.THROTTLING_QUOTA_EXCEEDED: TOO_MANY,
    E.KAFKA_STORAGE_ERROR: NO_ROOM,
    E.UNKNOWN_SERVER_ERROR: INTERNAL,
    E.CORRUPT_MESSAGE: INTERNAL,
    E.SECURITY_DISABLED: CONFLICT,
    E.POLICY_VIOLATION: FORBIDDEN,
    E.UNSUPPORTED_VERSION: 501,
}  # fmt: skip

# What to do, by error. Other errors get the advice of their status.
_ADVICE: dict[ErrorCode, str] = {
    E.UNKNOWN_TOPIC_OR_PARTITION: "GET /v1/topics lists the topics, POST /v1/topics creates one.",
    E.TOPIC_ALREADY_EXISTS: "Use another name, or the existing topic.",
    E.GROUP_ID_NOT_FOUND: "GET /v1/groups lists the groups.",
    E.NON_EMPTY_GROUP: "Stop its members, or wait until their sessions have ended.",
    E.GROUP_SUBSCRIBED_TO_TOPIC: "Stop the members that read the topic first.",
    E.TRANSACTIONAL_ID_NOT_FOUND: "GET /v1/transactions lists the transactional ids.",
    E.BROKER_ID_NOT_REGISTERED: "GET /v1/cluster lists the brokers.",
    E.OFFSET_OUT_OF_RANGE: "GET /v1/topics/{topic} shows the offsets of each partition.",
    E.INVALID_REPLICATION_FACTOR: "The replication factor cannot exceed the number of brokers; -1 uses the broker's default.",
    E.INVALID_TOPIC_EXCEPTION: "Names have up to 249 of the characters a-z A-Z 0-9 . _ and -.",
    E.MESSAGE_TOO_LARGE: "Send less at a time, or raise the topic's max.message.bytes.",
    E.KAFKA_STORAGE_ERROR: "The disk is full: free some space, then try again.",
    E.CORRUPT_MESSAGE: "These offsets are damaged on every replica: continue after them.",
    E.NOT_ENOUGH_REPLICAS: "Fewer than min.insync.replicas replicas are in sync: start the missing brokers.",
    E.SECURITY_DISABLED: "Set authorizer.class.name to enable authorization.",
    E.UNSUPPORTED_VERSION: "This broker, or another broker that the request needs, does not support it.",
}
_ADVICE_BY_STATUS = {
    UNAVAILABLE: "Try again in a moment.",
    TOO_MANY: "Wait for the seconds in Retry-After, then try again.",
    FORBIDDEN: "Ask an administrator for an ACL that allows it.",
    UNAUTHORIZED: "Send a user name and password by HTTP Basic authentication.",
    INTERNAL: "The broker's log has the details.",
}


class Problem(Exception):  # noqa: N818 - it is the response to the client
    """A response with problem details."""

    def __init__(
        self, status: int, detail: str, *, code: str = "", name: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.code = code  # Kafka's name of the error, if it has one
        self.name = name or code.lower().replace("_", "-") or _slug(TITLES.get(status, "problem"))
        self.headers = dict(headers or {})

    def shape(self, instance: str | None = None) -> ProblemShape:
        return ProblemShape(
            type=f"urn:kompat:problem:{self.name}",
            title=TITLES.get(self.status, "Problem"),
            status=self.status,
            detail=self.detail,
            code=self.code or msgspec.UNSET,
            instance=instance or msgspec.UNSET,
        )


class ProblemShape(msgspec.Struct, kw_only=True):
    """A problem."""

    type: str
    title: str
    status: int
    detail: str
    code: str | msgspec.UnsetType = msgspec.UNSET
    instance: str | msgspec.UnsetType = msgspec.UNSET


def invalid(detail: str) -> Problem:
    return Problem(BAD_REQUEST, detail, name="invalid-request")


def missing(detail: str) -> Problem:
    return Problem(NOT_FOUND, detail)


def status_of(code: ErrorCode) -> int:
    """The HTTP status of a Kafka error."""
    if code in _STATUS:
        return _STATUS[code]
    for marks, status in (
        (("AUTHORIZATION_FAILED",), FORBIDDEN),
        (("UNKNOWN_", "_NOT_FOUND"), NOT_FOUND),
        (("ALREADY_EXISTS", "DUPLICATE_"), CONFLICT),
    ):
        if any(mark in code.name for mark in marks):
            return status
    return BAD_REQUEST


def problem_of(error: Exception) -> Problem:
    """The problem of an error."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, KafkaError):
        return _of_kafka(error)
    if isinstance(error, StorageError):
        return _of_kafka(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
    if isinstance(error, PeerError):
        return _of_kafka(KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, str(error)))
    return Problem(INTERNAL, f"The request failed. {_ADVICE_BY_STATUS[INTERNAL]}", code="UNKNOWN_SERVER_ERROR")


def _of_kafka(error: KafkaError) -> Problem:
    status = status_of(error.code)
    reason = (error.message or _sentence(error.code)).strip()
    reason = reason if reason.endswith((".", "!", "?")) else f"{reason}."
    advice = _ADVICE.get(error.code, _ADVICE_BY_STATUS.get(status, ""))
    headers = {"retry-after": str(RETRY_SECONDS)} if status in (UNAVAILABLE, TOO_MANY) else {}
    if reason.partition(" ")[0].isalpha():  # it does not begin with the name of a setting
        reason = reason[:1].upper() + reason[1:]
    return Problem(status, f"{reason} {advice}".strip(), code=error.code.name, headers=headers)


def check(code: int, message: str | None = None) -> None:
    """Raise the error of a Kafka response, if it has one."""
    if code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(code), message or "")


def _sentence(code: ErrorCode) -> str:
    return code.name.removesuffix("_EXCEPTION").replace("_", " ").capitalize()


def _slug(title: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in title.lower()).split())
