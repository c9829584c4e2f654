"""Matches a new regular expression with all topics before the group's machine needs the result, in slices.

A machine decides in one step. Matching an expression with some 10,000 names would take too long there, so it is done before.
"""

from kompat.common.slices import sliced
from kompat.groups.machine.messages import ConsumerHeartbeatRequest
from kompat.groups.machine.regex import compiled
from kompat.groups.machine.topics import Topics

NAMES_AT_A_TIME = 1  # a malicious expression may take 6 ms for a name


async def look_ahead(request: ConsumerHeartbeatRequest, topics: Topics) -> None:
    regex = compiled(request.subscribed_topic_regex) if request.subscribed_topic_regex else None
    if regex is None:
        return
    names = regex.unseen(topics.names())
    async for start in sliced(range(0, len(names), NAMES_AT_A_TIME)):
        regex.look_at(names[start : start + NAMES_AT_A_TIME])
