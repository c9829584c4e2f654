"""Stories of records, drawn."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.cli.output import width_of
from kompat.cli.timeline import drawn

START = 1_700_000_000_000


def story(*events: dict[str, Any]) -> dict[str, Any]:
    place = {"topic": "orders", "partition": 2, "offset": 45678}
    return {"traceId": "ab" * 16, "record": place, "messageId": "m1", "events": list(events)}


def event(kind: str, after: int, **details: object) -> dict[str, Any]:
    return {"kind": kind, "timestamp": START + after, **details}


def test_a_story_is_told_from_its_start_to_its_end() -> None:
    lines = drawn(
        story(
            event("PRODUCED", 0, clientId="web"),
            event("PARKED", 1, due=START + 1000),
            event("FIRED", 1000, toTopic="orders", toPartition=2, toOffset=45690),
            event("DELIVERED", 1500, group="kitchen", memberId="m-1", deliveryCount=1),
            event("DEAD_LETTERED", 2000, reason="rejected"),
        ),
        120,
    )

    assert lines == [
        "orders/2/45678  trace " + "ab" * 16 + "  message m1",
        "  2023-11-14T22:13:20.000Z, 2.00 s in total",
        "  ┌      +0 ms  ●                               PRODUCED       by web",
        "  ├      +1 ms  ●                               PARKED         due 2023-11-14T22:13:21.000Z",
        "  ├    +1.00 s  ──────────────●                 FIRED          → orders/2/45690",
        "  ├    +1.50 s                ────────●         DELIVERED      group kitchen, member m-1, delivery 1",
        "  └    +2.00 s                        ───────●  DEAD_LETTERED  reason rejected",
    ]


def test_a_story_without_events_is_told_as_such() -> None:
    assert drawn(story(), 80)[1] == "  there are no events"


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 10_000_000), min_size=1, max_size=20).map(sorted),
    st.text(max_size=100),
    st.integers(60, 200),
)
def test_every_event_has_a_line_that_fits(times: list[int], reason: str, width: int) -> None:
    lines = drawn(story(*(event("RELEASED", at, reason=reason) for at in times)), width)

    assert len(lines) == len(times) + 2
    assert all(width_of(line) <= width and line.isprintable() for line in lines[2:])
    assert all(line.count("●") == 1 for line in lines[2:] if "●" not in reason)
