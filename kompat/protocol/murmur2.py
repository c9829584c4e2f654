"""MurmurHash2 of 32 bits, as Java's producers use it to choose a partition by key: every client has to choose the same."""

SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
POSITIVE = 0x7FFFFFFF


def murmur2(data: bytes) -> int:
    """Unsigned."""
    size = len(data)
    whole = size & ~3
    found = SEED ^ size
    for at in range(0, whole, 4):
        part = (int.from_bytes(data[at : at + 4], "little") * _M) & _MASK
        part ^= part >> 24
        found = ((found * _M) & _MASK) ^ ((part * _M) & _MASK)
    if whole < size:
        found = ((found ^ int.from_bytes(data[whole:], "little")) * _M) & _MASK
    found ^= found >> 13
    found = (found * _M) & _MASK
    return found ^ (found >> 15)


def partition_of(key: bytes, partitions: int) -> int:
    """Where Java's producers send a record with this key."""
    return (murmur2(key) & POSITIVE) % partitions
