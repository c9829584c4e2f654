"""`kompat groups`: list and describe groups, and reset their offsets, on any broker of Kafka's protocol."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any, Final

from kompat.cli import group_state
from kompat.cli.arguments import moment
from kompat.cli.command import (
    CommandError,
    Parsers,
    UsageError,
    add_json,
    add_kafka,
    add_yes,
    confirm,
    declare,
    runs,
    subcommands,
)
from kompat.cli.group_state import Places
from kompat.cli.kafka_client import Kafka, check, connect
from kompat.cli.output import Column, output_of
from kompat.cli.resets import Move, Target, moves

GROUPS: Final = (Column("GROUP", "group"), Column("TYPE", "type"), Column("STATE", "state"), Column("LAG", "lag"))
OFFSETS: Final = (
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("COMMITTED", "committed"),
    Column("END", "endOffset"),
    Column("LAG", "lag"),
    Column("MEMBER", "member"),
)
MEMBERS: Final = (
    Column("MEMBER", "memberId"),
    Column("CLIENT", "clientId"),
    Column("HOST", "host"),
    Column("INSTANCE", "instanceId"),
    Column(
        "PARTITIONS",
        "assignments",
        lambda assignments: (
            " ".join(f"{each['topic']}:{','.join(map(str, each['partitions']))}" for each in assignments) or "-"
        ),
    ),
)
MOVES: Final = (
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("FROM", "from"),
    Column("TO", "to"),
)
WITHOUT_MEMBERS: Final = ("Empty", "Dead", "")


def add(commands: Parsers, summary: str) -> None:
    parser = declare(
        commands,
        "groups",
        summary,
        examples=[
            "kompat groups list --lag",
            "kompat groups describe billing",
            "kompat groups reset billing --topic orders --to-time 2026-01-31T00:00:00Z --dry-run",
            "kompat groups reset billing --all-topics --shift -100",
            "kompat groups delete billing",
        ],
    )
    inner = subcommands(parser)
    _add_list(inner)
    _add_describe(inner)
    _add_reset(inner)
    _add_delete(inner)


def _command(inner: Parsers, name: str, summary: str, work: Any, *examples: str) -> argparse.ArgumentParser:
    parser = declare(inner, name, summary, examples=examples)
    add_json(parser)
    add_kafka(parser)
    runs(parser, work)
    return parser


# -- list and describe -------------------------------------------------------------------------------------------------
def _add_list(inner: Parsers) -> None:
    parser = _command(inner, "list", "list groups", _list, "kompat groups list", "kompat groups list --type share")
    parser.add_argument("--type", choices=("classic", "consumer", "share"), help="only groups of this type")
    parser.add_argument("--search", metavar="TEXT", default="", help="only names that contain this text")
    parser.add_argument(
        "--lag", action="store_true", help="also show the lag of each group (one more request per group)"
    )


def _list(given: argparse.Namespace) -> None:
    with connect(given) as kafka:
        found = [
            each
            for each in group_state.listed(kafka)
            if given.search in each["group"] and given.type in (None, each["type"])
        ]
        for each in found if given.lag else ():
            rows = group_state.offsets(kafka, each["group"], each["type"])
            each["lag"] = sum(row["lag"] or 0 for row in rows)
    columns = GROUPS if given.lag else GROUPS[:-1]
    output_of(given).rows(columns, found, empty="There are no groups.")


def _add_describe(inner: Parsers) -> None:
    parser = _command(inner, "describe", "show members, offsets and lag", _describe, "kompat groups describe billing")
    parser.add_argument("group")


def _describe(given: argparse.Namespace) -> None:
    output = output_of(given)
    with connect(given) as kafka:
        found = group_state.required(kafka, given.group)
        found["coordinator"] = kafka.coordinator(given.group)
        found["members"] = group_state.members(kafka, given.group, found["type"])
        found["offsets"] = group_state.offsets(kafka, given.group, found["type"])
    _name_members(found)
    found["lag"] = sum(each["lag"] or 0 for each in found["offsets"])
    if output.is_json:
        output.json(found)
        return
    names = ("group", "type", "state", "coordinator", "lag")
    output.pairs([(name, str(found[name])) for name in names])
    output.line()
    output.rows(OFFSETS, found["offsets"], empty="The group has no committed offsets.")
    output.line()
    output.rows(MEMBERS, found["members"], empty="The group has no members.")


def _name_members(group: dict[str, Any]) -> None:
    """Add the members of each partition; a share group may have several."""
    readers: dict[tuple[str, int], list[str]] = {}
    for member in group["members"]:
        for each in member["assignments"]:
            for partition in each["partitions"]:
                readers.setdefault((each["topic"], partition), []).append(member["clientId"] or member["memberId"])
    for row in group["offsets"]:
        row["member"] = ", ".join(readers.get((row["topic"], row["partition"]), [])) or None


# -- reset -------------------------------------------------------------------------------------------------------------
def _add_reset(inner: Parsers) -> None:
    parser = _command(
        inner,
        "reset",
        "reset the offsets of a group without members",
        _reset,
        "kompat groups reset billing --topic orders --to-earliest --dry-run",
        "kompat groups reset billing --topic orders --partition 3 --to-offset 45678",
        "kompat groups reset billing --all-topics --to-time 2026-01-31T12:00:00Z",
        "kompat groups reset billing --topic orders --shift -100",
        "kompat groups reset audit --create --topic orders --to-latest    # a group that has not read yet",
    )
    parser.add_argument("group")
    parser.add_argument(
        "--topic", action="append", metavar="TOPIC", help="topic, with all of its partitions; may be repeated"
    )
    parser.add_argument(
        "--partition", type=int, action="append", metavar="N", help="only this partition of the topic; may be repeated"
    )
    parser.add_argument(
        "--all-topics", action="store_true", help="all topics for which the group has committed offsets"
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--to-earliest", action="store_true", help="reset to the earliest offset")
    where.add_argument("--to-latest", action="store_true", help="reset to the latest offset")
    where.add_argument("--to-offset", type=int, metavar="N", help="reset to this offset")
    where.add_argument("--to-time", type=moment, metavar="TIME", help="reset to the first record at this time or later")
    where.add_argument("--shift", type=int, metavar="N", help="move the committed offsets by N, for example -100")
    parser.add_argument("--create", action="store_true", help="create the group if it does not exist")
    parser.add_argument("--dry-run", action="store_true", help="show the plan and change nothing")


def _reset(given: argparse.Namespace) -> None:
    if bool(given.topic) == given.all_topics:
        raise UsageError("give --topic TOPIC or --all-topics")
    if given.partition and (given.all_topics or len(given.topic) > 1):
        raise UsageError("--partition needs exactly one --topic")
    with connect(given) as kafka:
        kind = _kind(kafka, given)
        known = group_state.committed(kafka, given.group, kind) if kind else {}
        planned = _planned(kafka, given, known)
        if not planned:
            raise CommandError(f"group {given.group} has no committed offsets to move there")
        if not given.dry_run:
            targets = {(move.topic, move.partition): move.to for move in planned}
            group_state.commit(kafka, given.group, kind or group_state.CLASSIC, targets)
    _print_moves(given, planned)


def _kind(kafka: Kafka, given: argparse.Namespace) -> str | None:
    """The group's type; None if it does not exist and may be created by a commit."""
    found = {each["group"]: each for each in group_state.listed(kafka)}.get(given.group)
    if found is None and not given.create:
        raise CommandError(f"group {given.group} does not exist: --create creates it")
    if found is None:
        return None
    if found["state"] not in WITHOUT_MEMBERS and not given.dry_run:
        raise CommandError(f"group {given.group} has members ({found['state']}): stop them first")
    kind: str = found["type"]
    return kind


def _planned(kafka: Kafka, given: argparse.Namespace, known: Places) -> list[Move]:
    places = sorted(known) if given.all_topics else list(_places(kafka, given))
    ends = kafka.ends(places)
    target = Target(offset=given.to_offset, shift=given.shift, to_earliest=given.to_earliest, to_latest=given.to_latest)
    if given.to_time is None:
        return moves(target, known, ends)
    from kafka.admin import OffsetTimestamp

    found = kafka.offsets(places, OffsetTimestamp(given.to_time))
    at = {place: offset if offset >= 0 else ends[place][1] for place, offset in found.items()}
    return [move for place in places for move in moves(Target(offset=at[place]), known, {place: ends[place]})]


def _places(kafka: Kafka, given: argparse.Namespace) -> Iterable[tuple[str, int]]:
    for topic in kafka.topics(given.topic):
        there = {each["partition_index"] for each in topic["partitions"]}
        unknown = set(given.partition or ()) - there
        if unknown:
            raise CommandError(f"{topic['name']} has no partition {min(unknown)}")
        for index in sorted(set(given.partition or there)):
            yield topic["name"], index


def _print_moves(given: argparse.Namespace, planned: list[Move]) -> None:
    output = output_of(given)
    rows = [move.row for move in planned]
    if output.is_json:
        output.json({"group": given.group, "dryRun": given.dry_run, "offsets": rows})
        return
    output.rows(MOVES, rows)
    if any(move.is_clamped for move in planned):
        output.line("offsets outside of the log are replaced with its start or end")
    if given.dry_run:
        output.line("this is a dry run: nothing was changed")


# -- delete ------------------------------------------------------------------------------------------------------------
def _add_delete(inner: Parsers) -> None:
    parser = _command(
        inner,
        "delete",
        "delete groups without members, and their committed offsets",
        _delete,
        "kompat groups delete billing",
    )
    parser.add_argument("group", nargs="+")
    add_yes(parser)


def _delete(given: argparse.Namespace) -> None:
    from kafka.protocol.admin import DeleteGroupsRequest

    confirm(
        given, f"delete {', '.join(given.group)} and {'its' if len(given.group) == 1 else 'their'} committed offsets"
    )
    with connect(given) as kafka:
        for group in given.group:
            answer = kafka.ask_coordinator(group, DeleteGroupsRequest(groups_names=[group]))
            for each in answer.results:
                check(each.error_code, None, f"group {group}")
    output_of(given).done("\n".join(f"deleted {group}" for group in given.group), {"deleted": given.group})
