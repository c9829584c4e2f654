"""kafka-python packs and unpacks by kompat's codecs, whichever packages are there."""

import subprocess
import sys

import pytest

ALONE = """
import sys
for name in ("snappy", "lz4", "lz4.frame", "zstandard", "cramjam", "lz4f", "lz4framed"):
    sys.modules[name] = None  # as where nothing but kompat is installed
from kompat.cli import codecs
codecs.register()
from kafka import KafkaProducer
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

has_codec, codec = KafkaProducer._COMPRESSORS[sys.argv[1]]
assert has_codec()
values = [b"x" * 100_000, bytes(range(256)) * 10, b""]
builder = MemoryRecordsBuilder(magic=2, compression_type=codec, batch_size=1 << 20)
for value in values:
    builder.append(timestamp=1, key=None, value=value)
builder.close()
batch = bytes(builder.buffer())
assert len(batch) < 50_000
[packed] = MemoryRecords(batch)
assert [record.value for record in packed] == values
print(sys.argv[1])
"""


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_plain_install_has_every_codec(codec: str) -> None:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", ALONE, codec], capture_output=True, text=True, check=False, timeout=60
    )

    assert (done.stdout, done.stderr) == (f"{codec}\n", "")
