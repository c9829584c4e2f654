"""The process: memory, CPU, files, and the lag of its event loop."""

from __future__ import annotations

import gc
import os
import platform
import resource
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kompat.handlers.support.services import Services
    from kompat.metrics.page import Page

_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")


def gather(page: Page, services: Services) -> Iterator[None]:
    page.add(
        "kompat_build_info",
        1,
        services.version,
        platform.python_version(),
        str(services.node_id),
        services.cluster.cluster_id,
    )
    page.add_histogram("kompat_loop_lag_seconds", services.meters.loop_lag)
    for generation, stats in enumerate(gc.get_stats()):
        page.add("kompat_gc_collections_total", stats["collections"], str(generation))
    page.add("process_cpu_seconds_total", time.process_time())
    page.add("process_start_time_seconds", services.meters.started)
    page.add("process_max_fds", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    yield
    if os.path.exists("/proc/self/statm"):  # Linux
        with open("/proc/self/statm", encoding="ascii") as file:
            virtual, resident = (int(pages) * _PAGE_SIZE for pages in file.read().split()[:2])
        page.add("process_resident_memory_bytes", resident)
        page.add("process_virtual_memory_bytes", virtual)
        page.add("process_open_fds", len(os.listdir("/proc/self/fd")))
