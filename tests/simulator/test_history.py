"""The checker over what clients have seen finds what must never be, and nothing else."""

from collections.abc import Callable

import pytest

from interop_tests.support.history import Fate, History, Outcome, Place, Read, Record, violations

PLACE, OTHER = Place("t", 0), Place("t", 1)
Logs = dict[Place, list[Read]]


def a_run() -> tuple[History, Logs]:
    """Plain records at 0 to 3; a committed transaction over two partitions; an aborted one, whose places stay empty."""
    history = History(groups={"g": "t"})
    logs: Logs = {PLACE: [], OTHER: []}
    for offset in range(4):
        sent = history.send(PLACE, "p")
        sent.outcome, sent.offset = Outcome.ACKNOWLEDGED, offset
        logs[PLACE].append(Read(offset, sent.record))
    for number, fate in enumerate((Fate.COMMITTED, Fate.ABORTED)):
        history.fates["x", number] = fate
        for place in (PLACE, OTHER):
            sent = history.send(place, "x", number)
            offset = 4 + 2 * number if place is PLACE else 2 * number
            sent.outcome, sent.offset = Outcome.ACKNOWLEDGED, offset
            if fate is Fate.COMMITTED:
                logs[place].append(Read(offset, sent.record))
    for place in (PLACE, OTHER):
        history.reads["g/reader", place] = list(logs[place])
        history.watermarks["g/reader", place] = [0, 2, 2, 8]
    return history, logs


def test_what_is_as_it_has_to_be_is_not_objected_to() -> None:
    assert violations(*a_run()) == []


def test_what_nobody_was_told_of_may_be_there_or_not() -> None:
    history, logs = a_run()
    history.send(PLACE, "p")  # the last one, not there
    sent = history.send(OTHER, "p")
    logs[OTHER].append(Read(9, sent.record))
    history.reads["g/reader", OTHER].append(Read(9, sent.record))
    history.fates["x", 0] = Fate.UNKNOWN

    assert violations(history, logs) == []


def test_what_was_acknowledged_without_its_place_has_to_be_there_wherever() -> None:
    history, logs = a_run()
    history.sent[PLACE][3].offset = None
    assert violations(history, logs) == []

    lose_one(history, logs)
    assert violations(history, logs) != []


def lose_one(history: History, logs: Logs) -> None:
    del logs[PLACE][3], history.reads["g/reader", PLACE][3]


def store_twice(history: History, logs: Logs) -> None:
    again = Read(9, Record("p", 3))
    logs[PLACE].append(again)
    history.reads["g/reader", PLACE].append(again)


def swap_two(history: History, logs: Logs) -> None:
    for log in (logs[PLACE], history.reads["g/reader", PLACE]):
        log[1], log[2] = Read(1, log[2].record), Read(2, log[1].record)
    for sent in history.sent[PLACE][1:3]:
        sent.outcome = Outcome.UNKNOWN


def move_one(history: History, logs: Logs) -> None:
    for log in (logs[PLACE], history.reads["g/reader", PLACE]):
        log[3] = Read(5, log[3].record)
        log.sort()


def leave_a_gap(history: History, logs: Logs) -> None:
    history.sent[PLACE][1].outcome = Outcome.UNKNOWN
    del logs[PLACE][1], history.reads["g/reader", PLACE][1]


def invent_one(history: History, logs: Logs) -> None:
    for log in (logs[PLACE], history.reads["g/reader", PLACE]):
        log.append(Read(9, Record("stranger", 0)))


def show_an_aborted_one(history: History, logs: Logs) -> None:
    for log in (logs[PLACE], history.reads["g/reader", PLACE]):
        log.append(Read(6, Record("x", 1)))


def show_half_of_a_committed_one(history: History, logs: Logs) -> None:
    logs[OTHER].clear()
    history.reads["g/reader", OTHER].clear()


def show_half_of_an_unknown_one(history: History, logs: Logs) -> None:
    history.fates["x", 0] = Fate.UNKNOWN
    show_half_of_a_committed_one(history, logs)


def forget_a_committed_one(history: History, logs: Logs) -> None:
    show_half_of_a_committed_one(history, logs)
    del logs[PLACE][-1], history.reads["g/reader", PLACE][-1]


def skip_one_for_a_reader(history: History, _: Logs) -> None:
    history.reads["g/another", PLACE] = history.reads["g/reader", PLACE][:1] + history.reads["g/reader", PLACE][2:]


def show_a_reader_what_is_not_there_later(history: History, _: Logs) -> None:
    history.reads["g/another", PLACE] = [Read(0, Record("p", 7))]


def go_back_for_a_reader(history: History, _: Logs) -> None:
    history.reads["g/another", PLACE] = [*history.reads["g/reader", PLACE][:2], *history.reads["g/reader", PLACE][:1]]


def lower_the_watermark(history: History, _: Logs) -> None:
    history.watermarks["g/reader", PLACE] = [0, 5, 4]


def keep_one_from_the_group(history: History, _: Logs) -> None:
    del history.reads["g/reader", PLACE][-1]


@pytest.mark.parametrize(
    ("plant", "told"),
    [
        (lose_one, "is lost"),
        (store_twice, "is there 2 times"),
        (swap_two, "after its"),
        (move_one, "was acknowledged at 3, where"),
        (leave_a_gap, "is missing, and later ones are there"),
        (invent_one, "nobody has sent it"),
        (show_an_aborted_one, "was aborted, and 1 of its records"),
        (show_half_of_a_committed_one, "1 of its 2 records are shown"),
        (show_half_of_an_unknown_one, "is unknown, and 1 of its 2 records are shown"),
        (forget_a_committed_one, "nothing of it is shown"),
        (skip_one_for_a_reader, "was shown 2 after 0"),
        (show_a_reader_what_is_not_there_later, "was shown Record(producer='p', number=7) at 0"),
        (go_back_for_a_reader, "was shown 0 after 1"),
        (lower_the_watermark, "fell from 5 to 4"),
        (keep_one_from_the_group, "were not given to any member"),
    ],
)
def test_what_must_never_be_is_found(plant: Callable[[History, Logs], None], told: str) -> None:
    history, logs = a_run()

    plant(history, logs)

    found = violations(history, logs)
    assert any(told in each for each in found), found
