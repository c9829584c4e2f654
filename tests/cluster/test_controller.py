"""What the controller looks after: who keeps the metadata."""

from __future__ import annotations

from kompat.cluster.controller import MOST_VOTERS, choose_voters
from kompat.types import NodeId


def nodes(*numbers: int) -> list[NodeId]:
    return [NodeId(number) for number in numbers]


def test_all_brokers_of_a_small_cluster_keep_the_metadata_as_soon_as_they_are_there() -> None:
    assert choose_voters(nodes(1), nodes(1, 2, 3), nodes(1, 3)) == nodes(1, 3)
    assert choose_voters(nodes(1, 3), nodes(1, 2, 3), nodes(1, 2, 3)) == nodes(1, 3, 2)


def test_no_more_than_a_few_of_a_large_one_do_and_they_stay() -> None:
    many = nodes(*range(1, 10))
    voters = choose_voters(nodes(7, 8), many, many)

    assert len(voters) == MOST_VOTERS
    assert set(nodes(7, 8)) <= set(voters)
    assert choose_voters(voters, many, nodes(9)) == sorted(voters)  # being away for a while changes nothing


def test_a_broker_that_is_forgotten_makes_room() -> None:
    assert choose_voters(nodes(1, 2, 3), nodes(1, 2, 4), nodes(1, 2, 4)) == nodes(1, 2, 4)
