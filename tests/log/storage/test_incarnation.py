"""Data directories: which one it is, how far it has come, and who notices that it was put back to an older state."""

import json
import shutil
from pathlib import Path

from kompat.log.storage.incarnation import FILE, Incarnations
from kompat.raft.meetings import Meetings
from kompat.types import NodeId

ME, OTHER = NodeId(1), NodeId(2)


def test_a_directory_keeps_its_id_and_counts_its_steps(tmp_path: Path) -> None:
    first, second = Incarnations(str(tmp_path)), Incarnations(str(tmp_path))
    assert first.mine.directory == second.mine.directory
    assert (first.mine.steps, second.mine.steps) == (1, 2)
    assert first.mine.run != second.mine.run


def test_an_emptied_directory_is_another_one(tmp_path: Path) -> None:
    first = Incarnations(str(tmp_path))
    (tmp_path / FILE).unlink()
    again = Incarnations(str(tmp_path))
    assert again.mine.directory != first.mine.directory
    assert not again.is_set_back(first.mine)  # it knows that it has nothing
    assert not Incarnations(str(tmp_path)).is_set_back(first.mine)  # and that it had another before


def test_a_file_that_cannot_be_read_makes_it_another_directory(tmp_path: Path) -> None:
    first = Incarnations(str(tmp_path))
    (tmp_path / FILE).write_text("{")
    assert Incarnations(str(tmp_path)).mine.directory != first.mine.directory


def test_what_was_put_back_is_noticed_by_whoever_has_seen_a_later_start(tmp_path: Path) -> None:
    Incarnations(str(tmp_path))
    older = tmp_path / "older.json"
    shutil.copy(tmp_path / FILE, older)
    seen = Incarnations(str(tmp_path)).mine
    assert not Incarnations(str(tmp_path)).is_set_back(seen)
    shutil.copy(older, tmp_path / FILE)

    put_back = Incarnations(str(tmp_path))

    assert put_back.is_set_back(seen)
    put_back.renew()
    assert not put_back.is_set_back(seen)
    assert not Incarnations(str(tmp_path)).is_set_back(seen)
    shutil.copy(older, tmp_path / FILE)
    assert Incarnations(str(tmp_path)).is_set_back(put_back.mine)


def test_a_snapshot_of_a_running_broker_is_noticed_by_whoever_has_seen_a_later_step(tmp_path: Path) -> None:
    running = Incarnations(str(tmp_path))
    snapshot = tmp_path / "snapshot.json"
    shutil.copy(tmp_path / FILE, snapshot)
    assert running.step()
    seen = running.mine
    assert not Incarnations(str(tmp_path)).is_set_back(seen)  # after a crash nothing is missing
    shutil.copy(snapshot, tmp_path / FILE)

    assert Incarnations(str(tmp_path)).is_set_back(seen)


def test_a_step_that_cannot_be_written_is_not_told(tmp_path: Path) -> None:
    running = Incarnations(str(tmp_path))
    before = running.mine
    (tmp_path / f"{FILE}.new").mkdir()

    assert not running.step()
    assert running.mine == before


def test_steps_of_others_are_kept_with_the_next_step_of_its_own(tmp_path: Path) -> None:
    other = Incarnations(None).mine
    keeps = Incarnations(str(tmp_path))
    keeps.remember(OTHER, other)
    keeps.remember(OTHER, other._replace(steps=7))
    assert keeps.known(OTHER) == other._replace(steps=7)

    assert keeps.step()

    assert Incarnations(str(tmp_path)).known(OTHER) == other._replace(steps=7)


def test_the_same_run_is_met_again_after_a_link_was_lost(tmp_path: Path) -> None:
    mine = Incarnations(str(tmp_path))
    assert not mine.is_set_back(mine.mine)


def test_what_was_seen_is_not_replaced_by_what_came_before_it(tmp_path: Path) -> None:
    other = Incarnations(None).mine
    later = other._replace(steps=5, run="later")
    keeps = Incarnations(str(tmp_path))
    keeps.remember(OTHER, later)
    keeps.remember(OTHER, other)

    assert keeps.known(OTHER) == later
    assert Incarnations(str(tmp_path)).known(OTHER) == later


class Link:
    """Of two brokers to each other: what is sent is kept."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send_raft(self, to: NodeId, group: bytes, header: bytes, payloads: object) -> bool:
        self.sent.append(header)
        return True


def meetings(
    incarnations: Incarnations,
    link: Link,
    later: list[object],
    patience: float = 0.0,
    events: list[str] | None = None,
) -> Meetings:
    heard = events if events is not None else []
    return Meetings(
        ME,
        link,  # type: ignore[arg-type]
        incarnations,
        lambda *call: later.append(call),
        patience,
        on_met=lambda _: heard.append("met"),
        on_set_back=lambda _: heard.append("set back"),
    )


def test_nobody_is_met_before_it_has_said_what_it_knows() -> None:
    link, later, mine = Link(), [], Incarnations(None)
    meeting = meetings(mine, link, later)
    meeting.begin(OTHER)
    assert not meeting.has_met(OTHER)
    assert json.loads(link.sent[0])["asks"]

    told = {"me": Incarnations(None).mine, "you": None, "asks": True}
    meeting.receive(OTHER, json.dumps(told).encode())

    assert meeting.has_met(OTHER)
    assert not json.loads(link.sent[-1])["asks"]
    meeting.end(OTHER)
    assert not meeting.has_met(OTHER)


def test_who_is_set_back_hears_of_it_before_anybody_is_met(tmp_path: Path) -> None:
    Incarnations(str(tmp_path))
    mine = Incarnations(str(tmp_path))
    events: list[str] = []
    meeting = meetings(mine, Link(), [], events=events)
    before = mine.mine

    told = {"me": Incarnations(None).mine, "you": before._replace(steps=9, run="later"), "asks": False}
    meeting.receive(OTHER, json.dumps(told).encode())

    assert events == ["set back", "met"]
    assert mine.mine.directory != before.directory


def test_what_makes_no_sense_is_no_meeting() -> None:
    meeting = meetings(Incarnations(None), Link(), [])
    for message in (b"", b"[]", b'{"me": 1, "you": null, "asks": true}', b"\xff"):
        meeting.receive(OTHER, message)
    assert not meeting.has_met(OTHER)


def test_a_broker_of_an_older_version_is_met_after_a_while() -> None:
    later: list[tuple[object, ...]] = []
    meeting = meetings(Incarnations(None), Link(), later, patience=0.5)  # type: ignore[arg-type]
    meeting.begin(OTHER)
    while later:
        _, call, *arguments = later.pop()
        call(*arguments)  # type: ignore[operator]
    assert meeting.has_met(OTHER)
