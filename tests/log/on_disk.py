"""A log on the store that brokers have, for models that run in memory and on disk."""

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings

from kompat.errors import StorageError
from kompat.log.partition import Partition
from kompat.log.storage.rocks import RocksStore
from tests.log.support import Log


class FullDisk(RocksStore):
    is_full = False

    def flush(self) -> None:
        if self.is_full:
            self.writes = None
            self._discard()
            raise StorageError("no space left")
        super().flush()


class LogOnDisk(Log):
    """Comes before the kind of log that it puts on disk among the bases of a class."""

    def __init__(self, **config: Any) -> None:
        self._directory = tempfile.TemporaryDirectory()
        super().__init__(**config)

    def _open(self) -> None:
        self.store = FullDisk(str(Path(self._directory.name) / "data"))  # type: ignore[assignment]
        super()._open()

    def kill(self) -> Partition:
        self.store.close()
        self._open()
        return self.partition

    def remove(self) -> None:
        self.store.close()
        self._directory.cleanup()


class ModelOnDisk:
    """Comes before the model among the bases of a class, and removes the log when a run has ended."""

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.remove()


def few_runs(steps: int) -> settings:
    return settings(
        max_examples=8,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
