"""A writer that is to be killed: says on stdout what has been flushed. Arguments: directory, seed."""

import os
import random
import sys

from kompat.log.storage.rocks import RocksStore
from kompat.types import LogId, Offset, RaftIndex
from tests.log.storage.batches import LOG, a_batch, an_entry

PARTITIONS = 4


def main() -> None:
    directory, choose = sys.argv[1], random.Random(sys.argv[2])
    store = RocksStore(directory)
    partitions = [store.open(LogId(LOG.topic_id, number)) for number in range(PARTITIONS)]
    ends: list[tuple[int, int, int]] = []  # next index, next offset, segment
    for partition in partitions:
        last = partition.last_entry()
        ends.append((last.index + 1, last.last_offset + 1, last.last_offset + 1) if last else (1, 0, 0))
    while True:
        for number in choose.sample(range(PARTITIONS), choose.randint(1, PARTITIONS)):
            index, offset, segment = ends[number]
            for _ in range(choose.randint(1, 3)):
                size, count = choose.choice([100, 1000, 3000, 20000]), choose.randint(1, 9)
                partitions[number].append(an_entry(index, offset, count, size), a_batch(offset, size), Offset(segment))
                index, offset = index + 1, offset + count
            if choose.random() < 0.05:
                segment = offset
            if choose.random() < 0.05:
                partitions[number].truncate_from(RaftIndex(index), Offset(offset))
            ends[number] = index, offset, segment
        store.flush()
        os.write(1, (" ".join(str(end[1]) for end in ends) + "\n").encode())


if __name__ == "__main__":
    main()
