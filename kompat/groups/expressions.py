"""Finds out which topics a new regular expression matches before the group's machine needs to know, in slices.

A machine decides in one go. What it needs to know of an expression and some 10,000 names is therefore looked up before.
"""

from kompat.groups.machine.messages import ConsumerHeartbeatRequest
from kompat.groups.machine.regex import compiled
from kompat.groups.machine.topics import Topics
from kompat.slices import sliced

NAMES_AT_A_TIME = 4  # a name may take 2 ms, if whoever wrote the expression wants it to


async def look_ahead(request: ConsumerHeartbeatRequest, topics: Topics) -> None:
    regex = compiled(request.subscribed_topic_regex) if request.subscribed_topic_regex else None
    if regex is None:
        return
    names = regex.unseen(topics.names())
    async for start in sliced(range(0, len(names), NAMES_AT_A_TIME)):
        regex.look_at(names[start : start + NAMES_AT_A_TIME])
