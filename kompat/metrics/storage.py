"""The disk, and RocksDB's own statistics."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kompat.handlers.support.services import Services
    from kompat.log.storage.rocks import RocksStore
    from kompat.metrics.page import Page

_OF_FAMILIES = (
    ("kompat_rocksdb_memtable_bytes", "cur-size-all-mem-tables"),
    ("kompat_rocksdb_table_bytes", "total-sst-files-size"),
    ("kompat_rocksdb_keys", "estimate-num-keys"),
    ("kompat_rocksdb_level0_files", "num-files-at-level0"),
    ("kompat_rocksdb_pending_compaction_bytes", "estimate-pending-compaction-bytes"),
)
_OF_ALL = (
    ("kompat_rocksdb_running_compactions", "num-running-compactions"),
    ("kompat_rocksdb_running_flushes", "num-running-flushes"),
    ("kompat_rocksdb_block_cache_bytes", "block-cache-usage"),
    ("kompat_rocksdb_write_stopped", "is-write-stopped"),
    ("kompat_rocksdb_delayed_write_rate", "actual-delayed-write-rate"),
)


def gather(page: Page, services: Services) -> Iterator[None]:
    page.add_histogram("kompat_sync_seconds", services.meters.syncs)
    page.add("kompat_cache_bytes", services.logs.cached_bytes)
    damages = services.logs.damages
    page.add("kompat_damaged_batches_total", damages.found)
    page.add("kompat_repaired_batches_total", damages.repaired)
    page.add("kompat_scrubbed_bytes_total", services.logs.scrubber.bytes)
    page.add("kompat_refused_replica_batches_total", damages.refused)
    store: Any = services.logs.store
    if hasattr(store, "database"):  # else it is in memory
        yield from _on_disk(page, store)


def _on_disk(page: Page, store: RocksStore) -> Iterator[None]:
    status = os.statvfs(store.directory)
    page.add("kompat_disk_free_bytes", status.f_bavail * status.f_frsize)
    page.add("kompat_disk_size_bytes", status.f_blocks * status.f_frsize)
    page.add("kompat_disk_refusing_writes", store.is_refusing)
    yield
    for family in store.database.families():
        for name, property_name in _OF_FAMILIES:
            page.add(name, store.database.int_property(property_name, family), family)
        yield
    for name, property_name in _OF_ALL:
        page.add(name, store.database.int_property(property_name))
