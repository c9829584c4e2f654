"""The authorizer over the ACLs of the metadata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest

from kompat.cluster.authorizer import MOST_REMEMBERED, Authorizer
from kompat.config.broker import BrokerConfig
from kompat.errors import ErrorCode, KafkaError
from kompat.security.acls import AclFilter, Kind, Operation
from tests.cluster.support import READS, Written

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@dataclass
class Someone:
    principal: str = "User:alice"
    client_host: str = "10.0.0.1"


def _authorizer(written: Written, **settings: str) -> Authorizer:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return Authorizer(cast("Any", written), BrokerConfig({"authorizer.class.name": AUTHORIZER} | given))


def test_an_answer_counts_until_an_acl_changes() -> None:
    written = Written()
    authorizer = _authorizer(written)
    asked = Someone(), Operation.READ, Kind.TOPIC, "a"
    assert not authorizer.allows(*asked)

    written.do(written.machine.create_acls([READS]))
    assert authorizer.allows(*asked)
    assert authorizer.allows_any(Someone(), Operation.READ, Kind.TOPIC)

    written.do(written.machine.delete_acls([AclFilter()]))
    assert not authorizer.allows(*asked)
    assert not authorizer.allows_any(Someone(), Operation.READ, Kind.TOPIC)


def test_settings_name_super_users_and_open_what_no_acl_speaks_of() -> None:
    written = Written()
    written.do(written.machine.create_acls([READS]))
    authorizer = _authorizer(written, super_users="User:root; User:CN=x,O=y", allow_everyone_if_no_acl_found="true")
    asked = Operation.WRITE, Kind.TOPIC

    for principal in ("User:root", "User:CN=x,O=y"):
        assert authorizer.allows(Someone(principal), *asked, "a")
    assert not authorizer.allows(Someone(), *asked, "a")
    assert authorizer.allows(Someone(), *asked, "b")


def test_questions_of_ever_new_names_do_not_fill_the_memory() -> None:
    authorizer = _authorizer(Written())
    for number in range(MOST_REMEMBERED + 10):
        authorizer.allows(Someone(), Operation.READ, Kind.TOPIC, f"topic-{number}")

    assert len(authorizer._known) <= MOST_REMEMBERED


def test_a_request_that_is_denied_many_names_writes_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    authorizer = _authorizer(Written())
    for number in range(1_000):
        authorizer.allows(Someone(), Operation.READ, Kind.TOPIC, f"topic-{number}")

    assert len(caplog.records) == 1


def test_without_an_authorizer_everything_is_allowed_and_there_are_no_acls() -> None:
    authorizer = Authorizer(cast("Any", Written()), BrokerConfig())

    assert authorizer.allows(Someone(), Operation.ALTER, Kind.CLUSTER)
    with pytest.raises(KafkaError) as raised:
        authorizer.find(AclFilter())
    assert raised.value.code is ErrorCode.SECURITY_DISABLED
