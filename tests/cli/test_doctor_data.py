"""What `kompat doctor` finds in the data directory of a broker that does not run."""

from pathlib import Path

from kompat.cli.doctor_data import examine
from kompat.cli.findings import Finding, Level
from kompat.log.storage.rocks import RocksStore
from tests.log.storage.batches import LOG, write


def _written(data: Path) -> Path:
    store = RocksStore(str(data))
    write(store, LOG, 0, 99, 1000)
    store.close()
    return next(path for path in (data / "db").glob("*.sst") if path.stat().st_size > 90_000)


def _wrong(data: Path) -> list[Finding]:
    return [
        finding
        for finding in examine(str(data))
        if finding.level is Level.WRONG and finding.about in ("database", "damage")
    ]


def test_a_damaged_block_of_the_database_is_named_with_what_to_do(tmp_path: Path) -> None:
    table = _written(tmp_path / "data")
    content = bytearray(table.read_bytes())
    content[50_000] ^= 1
    table.write_bytes(content)

    found = _wrong(tmp_path / "data")

    assert found
    assert any(table.name in finding.found and "checksum" in finding.found for finding in found), found
    assert all("backup" in finding.advice for finding in found), found
