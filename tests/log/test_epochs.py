"""Leader epochs: where each begins and ends."""

from hypothesis import given
from hypothesis import strategies as st

from kompat.log.epochs import Epochs
from kompat.types import Offset

UNKNOWN = (-1, -1)


def test_an_epoch_ends_where_the_next_begins() -> None:
    epochs = Epochs([(0, 0), (2, 10), (5, 20)])
    ends = {epoch: epochs.end_offset(epoch, Offset(30)) for epoch in range(-1, 7)}
    assert ends == {-1: UNKNOWN, 0: (0, 10), 1: (0, 10), 2: (2, 20), 3: (2, 20), 4: (2, 20), 5: (5, 30), 6: UNKNOWN}


def test_below_the_oldest_epoch_the_end_is_its_beginning() -> None:
    assert Epochs([(3, 10), (4, 20)]).end_offset(1, Offset(30)) == (1, 10)


def test_an_empty_log_knows_no_epoch() -> None:
    assert Epochs().end_offset(0, Offset(0)) == UNKNOWN
    assert Epochs().latest == -1
    assert Epochs().at(Offset(0)) == -1


def test_an_epoch_that_wrote_nothing_is_forgotten() -> None:
    epochs = Epochs([(0, 0), (1, 10), (2, 10)])
    assert epochs.entries() == [(0, 0), (2, 10)]


def test_an_older_epoch_changes_nothing() -> None:
    epochs = Epochs([(3, 0)])
    assert not epochs.assign(2, 10)
    assert not epochs.assign(3, 10)
    assert epochs.entries() == [(3, 0)]


def test_the_epoch_across_the_new_start_begins_there() -> None:
    epochs = Epochs([(0, 0), (1, 10), (2, 20)])
    epochs.drop_before(Offset(15))
    assert epochs.entries() == [(1, 15), (2, 20)]
    epochs.drop_before(Offset(20))
    assert epochs.entries() == [(2, 20)]


def test_truncation_forgets_what_began_after_it() -> None:
    epochs = Epochs([(0, 0), (1, 10), (2, 20)])
    epochs.truncate_from(Offset(10))
    assert epochs.entries() == [(0, 0)]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=20))
def test_every_offset_belongs_to_the_epoch_that_wrote_it(steps: list[tuple[int, int]]) -> None:
    epochs, epoch, written = Epochs(), 0, []
    for step, count in steps:
        epoch += step
        epochs.assign(epoch, len(written))
        written += [epoch] * count
    assert [epochs.at(Offset(o)) for o in range(len(written))] == written
    for asked in range(epoch + 2):
        _, end = epochs.end_offset(asked, Offset(len(written)))
        if end >= 0 and asked in written:
            assert end == len(written) - written[::-1].index(asked)
