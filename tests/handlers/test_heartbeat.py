"""Heartbeat of the classic protocol."""

from __future__ import annotations

import pytest

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.members import heartbeat, new_group, only_member


@pytest.mark.parametrize("version", range(5))
def test_heartbeats_are_answered_in_every_version(prompt: Asker, version: int) -> None:
    group = new_group()
    member = only_member(prompt, group)

    assert heartbeat(prompt, group, member, version) is ErrorCode.NONE
    assert heartbeat(prompt, "", member, version) is ErrorCode.INVALID_GROUP_ID
    assert heartbeat(prompt, "no-such-group", member, version) is ErrorCode.UNKNOWN_MEMBER_ID
    assert heartbeat(prompt, group, member, version, member_id="nobody") is ErrorCode.UNKNOWN_MEMBER_ID
    assert heartbeat(prompt, group, member, version, generation_id=9) is ErrorCode.ILLEGAL_GENERATION
