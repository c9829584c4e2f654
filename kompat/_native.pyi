from collections.abc import Iterable, Sequence

from kompat.types import Buffer

class BatchError(Exception):
    """args: Kafka's error code, a message, the indices of the records at fault."""

    args: tuple[int, str, list[int]]

class Facts:
    """What one pass over a batch's records found."""

    @property
    def max_timestamp(self) -> int:
        """The newest timestamp that a record carries."""

    @property
    def delta_of_max_timestamp(self) -> int:
        """The offset delta of the first record that carries it: add the batch's base offset."""

    @property
    def min_timestamp(self) -> int: ...
    @property
    def null_key_index(self) -> int:
        """The first record without a key, or -1."""

    @property
    def named(self) -> int:
        """Which of the names that were looked for some record has a header of: a bit for each, the first the lowest."""

class HeaderNames:
    """Names of headers to look for, prepared once; at most 64."""

    def __new__(cls, names: Sequence[bytes]) -> HeaderNames: ...

def crc32c(data: Buffer, start: int = 0) -> int: ...
def compress(codec: int, data: Buffer, level: int | None = None) -> bytes: ...
def decompress(codec: int, data: Buffer, limit: int) -> bytes: ...
def check_batch(batch: Buffer, require_keys: bool, limit: int, names: HeaderNames) -> Facts: ...
def find_by_timestamp(batch: Buffer, timestamp: int, limit: int) -> tuple[int, int] | None: ...
def read_records(
    batch: Buffer, limit: int
) -> list[tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]]: ...
def write_records(records: Iterable[object], base_offset: int, base_timestamp: int) -> bytes: ...
