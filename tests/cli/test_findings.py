"""What the doctor says, and what makes a batch a damaged one."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kompat.cli.data_dir import fault_of
from kompat.cli.decoding import HIDDEN, decoded, plain, without_secrets
from kompat.cli.findings import fine, is_well, lines, warning, wrong
from kompat.cluster.records import ClusterCodec
from kompat.cluster.scram_users import ScramCredentialSet, StandInsSet
from kompat.log.storage.keys import INLINE, Head
from kompat.protocol.records import Record, build_batch, empty_batch, keep_records, read_header
from kompat.security.scram import Credential, Mechanism
from kompat.security.stand_ins import Shape, StandIns

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
    assert "missing" in str(fault_of(None, 7, head))
    assert "bytes" in str(fault_of(batch[:-1], 7, head))
    assert "the index has 8" in str(fault_of(batch, 8, head))
    assert "checksum" in str(fault_of(batch[:-1] + b"\xff", 7, head))


def test_a_batch_of_which_records_were_compacted_away_or_wait_for_their_time_is_whole() -> None:
    records = [Record(7 + i, 1, b"k%d" % i, b"v") for i in range(5)]
    whole = build_batch(records, base_offset=7)
    for kept in ({8, 10}, {11}, {7}):
        left = keep_records(whole, lambda record, kept=kept: record.offset in kept)
        assert left is not None
        assert fault_of(bytes(left), 7, Head(INLINE, 0, 11, len(left), 1)) is None
    shell = bytes(empty_batch(read_header(whole)))
    assert fault_of(shell, 7, Head(INLINE, 0, 11, len(shell), 1)) is None
    marked = keep_records(whole, lambda _: True, delete_horizon=5)
    assert marked is not None
    assert fault_of(bytes(marked), 7, Head(INLINE, 0, 11, len(marked), 1)) is None


def test_the_brokers_own_records_are_told_in_words() -> None:
    record = Record(0, 0, b"cluster", b'{"id":"abc"}')

    assert decoded("__cluster_metadata", record) == {"kind": "ClusterCreated", "cluster_id": "abc"}
    assert decoded("orders", record) is None
    assert "damaged" in (decoded("__cluster_metadata", Record(0, 0, b"no such kind", b"{}")) or {})
    assert "damaged" in (decoded("__consumer_offsets", Record(0, 0, b"\x00\x01\xff", b"")) or {})


def test_secrets_are_not_told() -> None:
    told = plain(Credential(b"salt", b"stored", b"server", 4096))

    assert (told["stored_key"], told["server_key"]) == (HIDDEN, HIDDEN)


@pytest.mark.parametrize(
    "secret",
    [
        ScramCredentialSet("alice", Mechanism.SCRAM_SHA_256, Credential(b"salt", b"stored", b"server", 4096)),
        StandInsSet(StandIns(b"stored", {Mechanism.SCRAM_SHA_512: frozenset({Shape()})})),
    ],
)
def test_records_with_secrets_are_printed_without_them(secret: ScramCredentialSet | StandInsSet) -> None:
    record = Record(0, 0, *ClusterCodec().encode(secret))
    assert b"stored".hex().encode() in (record.value or b"")

    words = json.dumps(decoded("__cluster_metadata", record))
    assert b"stored".hex() not in words
    assert HIDDEN in words
    assert without_secrets("__cluster_metadata", record).value == HIDDEN.encode()
    assert without_secrets("orders", record) == record


CAPABILITIES = "-dac_override,-dac_read_search"
LIKE_OTHERS = ["setpriv", f"--bounding-set={CAPABILITIES}", f"--inh-caps={CAPABILITIES}"]  # root may read everything


def test_the_doctor_tells_who_may_not_read_from_what_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "data" / "db").mkdir(parents=True)
    (tmp_path / "data").chmod(0)
    before = LIKE_OTHERS if os.geteuid() == 0 else []
    if before and (shutil.which("setpriv") is None or subprocess.run([*before, "true"], check=False).returncode):  # noqa: S603
        pytest.skip("root cannot be like others here")
    command = [*before, sys.executable, "-m", "kompat", "doctor", "--json", str(tmp_path / "data")]

    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    (tmp_path / "data").chmod(0o700)

    [found] = json.loads(done.stdout)["findings"]
    assert (done.returncode, found["level"], found["about"]) == (1, "wrong", "permissions")
    assert "is not readable by this user" in found["found"]
    assert "run as its owner" in found["advice"]
