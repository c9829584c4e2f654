"""Batches without records, as consumers get them."""

from kompat.log.empty_batches import as_control, is_empty_batch
from kompat.protocol.records import Record, build_batch, empty_batch, iterate, read_header


def test_a_shell_goes_out_as_a_control_batch_of_the_same_offsets() -> None:
    header = read_header(
        build_batch([Record(7, 5, b"k", b"v"), Record(9, 5, b"k", b"v")], base_offset=7, leader_epoch=3)
    )
    empty = empty_batch(header)
    assert is_empty_batch(empty)

    sent = as_control(empty)

    told = read_header(sent)
    assert (told.base_offset, told.last_offset, told.leader_epoch) == (7, 9, 3)
    assert told.is_control
    assert not told.is_transactional
    assert [record.offset for record in iterate(sent)] == [9]
