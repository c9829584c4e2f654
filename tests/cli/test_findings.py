"""What the doctor says, and what makes a batch a damaged one."""

from kompat.cli.data_dir import fault_of
from kompat.cli.decoding import HIDDEN, decoded, plain
from kompat.cli.findings import fine, is_well, lines, warning, wrong
from kompat.log.keys import INLINE, Head
from kompat.protocol.records import Record, build_batch
from kompat.security.scram import Credential

FOUND = [fine("disk", "enough"), warning("clock", "odd", "look at it"), wrong("lock", "broken", "mend it")]


def test_only_what_is_wrong_makes_ill() -> None:
    assert is_well(FOUND[:2])
    assert not is_well(FOUND)


def test_findings_come_with_advice() -> None:
    assert lines(FOUND, for_eyes=True)[-2:] == ["✗ lock: broken", "    → mend it"]
    assert lines(FOUND, for_eyes=False) == [
        "ok\tdisk\tenough",
        "warning\tclock\todd\tlook at it",
        "wrong\tlock\tbroken\tmend it",
    ]
    assert FOUND[2].row == {"level": "wrong", "about": "lock", "found": "broken", "advice": "mend it"}


def test_what_makes_a_batch_damaged() -> None:
    batch = bytes(build_batch([Record(7, 1, b"k", b"v")], base_offset=7))
    head = Head(INLINE, 0, 7, len(batch), 1)

    assert fault_of(batch, 7, head) is None
    assert "not where" in str(fault_of(None, 7, head))
    assert "bytes" in str(fault_of(batch[:-1], 7, head))
    assert "filed as 8" in str(fault_of(batch, 8, head))
    assert fault_of(batch[:-1] + b"\xff", 7, head) is not None


def test_the_brokers_own_records_are_told_in_words() -> None:
    record = Record(0, 0, b"cluster", b'{"id":"abc"}')

    assert decoded("__cluster_metadata", record) == {"kind": "ClusterCreated", "cluster_id": "abc"}
    assert decoded("orders", record) is None
    assert "damaged" in (decoded("__cluster_metadata", Record(0, 0, b"no such kind", b"{}")) or {})
    assert "damaged" in (decoded("__consumer_offsets", Record(0, 0, b"\x00\x01\xff", b"")) or {})


def test_secrets_are_not_told() -> None:
    told = plain(Credential(b"salt", b"stored", b"server", 4096))

    assert (told["stored_key"], told["server_key"]) == (HIDDEN, HIDDEN)
