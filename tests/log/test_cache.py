"""The newest batches in memory: what is there is right, and there is never too much."""

from hypothesis import given
from hypothesis import strategies as st

from kompat.log.cache import Tail, TailCache
from kompat.types import Offset


def fill(tail: Tail, cache: TailCache, *sizes: int) -> None:
    for size in sizes:
        cache.add(tail, tail.end, Offset(tail.end + 1), memoryview(bytearray(size)))


def test_the_oldest_batch_of_all_partitions_leaves_first() -> None:
    cache = TailCache(20_000)
    one, two = Tail(Offset(0)), Tail(Offset(0))
    fill(one, cache, 8000)
    fill(two, cache, 8000)
    fill(one, cache, 8000)
    assert (one.start, two.start) == (1, 0)


def test_a_frame_is_counted_once_however_many_slices_it_has() -> None:
    cache, tail = TailCache(1 << 20), Tail(Offset(0))
    frame = memoryview(bytearray(100_000))
    for i in range(10):
        cache.add(tail, Offset(i), Offset(i + 1), frame[i * 10_000 : i * 10_000 + 10_000])
    assert 100_000 < cache.size < 110_000


def test_a_large_slice_counts_for_the_whole_frame_it_keeps_alive() -> None:
    cache, tail = TailCache(50_000), Tail(Offset(0))
    for i in range(10):
        cache.add(tail, Offset(i), Offset(i + 1), memoryview(bytearray(20_000))[:5000])
    assert tail.start == 8


def test_a_small_batch_does_not_keep_its_frame() -> None:
    cache, tail = TailCache(50_000), Tail(Offset(0))
    frame = bytearray(20_000)
    with memoryview(frame) as view:
        cache.add(tail, Offset(0), Offset(1), view[:100])
    frame.clear()  # impossible while a view of it is kept
    assert cache.size < 1000


def test_a_smaller_limit_holds_at_once() -> None:
    cache, tail = TailCache(50_000), Tail(Offset(0))
    fill(tail, cache, *[1000] * 20)
    cache.resize(5000)
    assert cache.size <= 5000
    assert tail.start == 16


def test_tiny_batches_are_bounded_too() -> None:
    cache, tail = TailCache(100_000), Tail(Offset(0))
    fill(tail, cache, *[1] * 10_000)
    assert tail.end - tail.start < 700


def test_what_was_cleared_does_not_take_newer_batches_with_it() -> None:
    cache, tail = TailCache(8_000), Tail(Offset(0))
    fill(tail, cache, 1000, 1000, 1000)
    tail.clear(Offset(3))
    fill(tail, cache, 1000, 1000, 1000)
    other = Tail(Offset(0))
    fill(other, cache, 3000)  # makes room by the places of what was cleared
    assert tail.start == 3
    assert tail.read(Offset(2), 100, Offset(6)) is None


def test_nothing_fits_into_a_cache_without_room() -> None:
    cache, tail = TailCache(0), Tail(Offset(0))
    fill(tail, cache, 10, 10)
    assert tail.read(Offset(1), 100, Offset(2)) is None
    assert cache.size == 0


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 2), st.one_of(st.integers(1, 400), st.just(4500))),
        st.tuples(st.just("clear"), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("drop"), st.integers(0, 2), st.integers(0, 60)),
    ),
    max_size=150,
)


@given(
    limit=st.sampled_from([0, 700, 2000, 9000]),
    steps=STEPS,
    reads=st.lists(st.tuples(st.integers(0, 80), st.integers(0, 900)), max_size=5),
)
def test_reads_are_those_of_the_whole_log(
    limit: int, steps: list[tuple[str, int, int]], reads: list[tuple[int, int]]
) -> None:
    cache, tails = TailCache(limit), [Tail(Offset(0)) for _ in range(3)]
    logs: list[list[tuple[int, bytes]]] = [[] for _ in range(3)]  # base offset and batch; every batch has two offsets
    for what, which, number in steps:
        tail, log = tails[which], logs[which]
        if what == "add":
            base, batch = 2 * len(log), bytes([len(log) % 251]) * number
            log.append((base, batch))
            cache.add(tail, Offset(base), Offset(base + 2), batch)
        elif what == "clear":
            tail.clear(Offset(2 * len(log)))
        else:
            tail.drop_before(Offset(number))
        assert cache.size <= limit
    for tail, log in zip(tails, logs, strict=True):
        for offset, max_bytes in reads:
            found = tail.read(Offset(offset), max_bytes, Offset(2 * len(log)))
            if offset < tail.start or offset >= 2 * len(log):
                assert found is None or offset >= 2 * len(log)
                continue
            assert found is not None
            buffers, size, next_offset = found
            assert buffers == [b for base, b in log if offset - 1 <= base < next_offset]
            assert size == sum(len(b) for b in buffers)
            assert len(buffers) == 1 or size <= max_bytes
            following = [b for base, b in log if base == next_offset]
            assert not following or size + len(following[0]) > max_bytes
            assert tail.bytes_between(Offset(offset), Offset(2 * len(log))) == sum(
                len(b) for base, b in log if base >= offset - 1
            )
