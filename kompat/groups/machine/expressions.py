"""Resolves the regular expressions of a consumer group to topics, and decides when to do so again."""

from collections.abc import Callable
from dataclasses import dataclass

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.consumer import ConsumerGroup, count
from kompat.groups.machine.consumer_member import ConsumerMember
from kompat.groups.machine.regex import TopicRegex, compiled
from kompat.groups.machine.state import GroupState, Turn
from kompat.groups.records import ConsumerGroupRegularExpression, ConsumerGroupRegularExpressionValue

REFRESH_AT_MOST_EVERY_MS = 10_000  # even if many topics are created meanwhile


@dataclass(frozen=True, slots=True)
class Expressions:
    """The group's expressions after the request."""

    resolved: dict[str, ConsumerGroupRegularExpressionValue]
    has_changed: bool


class ExpressionResolver:
    def __init__(self, state: GroupState) -> None:
        self._state = state

    def update(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        may_see: Callable[[str], bool] | None,
        turn: Turn,
    ) -> Expressions:
        if not updated.regex and not group.regexes:
            return Expressions(group.resolved, False)
        changed = (member.regex or "") != (updated.regex or "")
        if changed and updated.regex and updated.regex not in group.regexes:
            self._check(updated.regex)
        in_use = dict(group.regexes)
        count(in_use, member.regex, -1)
        count(in_use, updated.regex, 1)
        resolved = dict(group.resolved)
        for regex in group.resolved.keys() - in_use.keys():
            del resolved[regex]
            turn.records.append(_record(group, regex, None))
        for regex in in_use:
            known = resolved.get(regex)
            if known is not None and not self._is_stale(known, turn):
                continue
            value = resolved[regex] = self._resolve(regex, may_see, turn)
            turn.records.append(_record(group, regex, value))
            changed = changed or known is None or known.topics != value.topics
        return Expressions(resolved, changed)

    def _is_stale(self, known: ConsumerGroupRegularExpressionValue, turn: Turn) -> bool:
        if turn.now > known.timestamp + self._state.settings.regex_refresh_interval_ms:
            return True
        has_new_topics = known.version < self._state.topics.version
        return has_new_topics and turn.now > known.timestamp + REFRESH_AT_MOST_EVERY_MS

    def _resolve(
        self, regex: str, may_see: Callable[[str], bool] | None, turn: Turn
    ) -> ConsumerGroupRegularExpressionValue:
        known = compiled(regex)
        # An invalid expression, from the log of a broker with other rules, matches nothing.
        topics = sorted(known.select(self._state.topics.names())) if known is not None else ()
        return ConsumerGroupRegularExpressionValue(
            topics=tuple(name for name in topics if may_see is None or may_see(name)),
            version=self._state.topics.version,
            timestamp=turn.now,
        )

    @staticmethod
    def _check(regex: str) -> None:
        try:
            TopicRegex(regex)
        except ValueError as error:
            raise KafkaError(
                ErrorCode.INVALID_REGULAR_EXPRESSION,
                f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}.",
            ) from error


def _record(
    group: ConsumerGroup, regex: str, value: ConsumerGroupRegularExpressionValue | None
) -> ConsumerGroupRegularExpression:
    return ConsumerGroupRegularExpression(group_id=group.group_id, regular_expression=regex, value=value)
