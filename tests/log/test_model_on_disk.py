"""The same model as test_model.py, on the store that brokers have."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from kompat.errors import StorageError
from kompat.log.partition import Partition
from kompat.log.rocks import RocksStore
from tests.log.support import Log
from tests.log.test_model import PartitionModel

pytestmark = pytest.mark.slow


class FullDisk(RocksStore):
    is_full = False

    def flush(self) -> None:
        if self.is_full:
            self.writes = None
            self._discard()
            raise StorageError("no space left")
        super().flush()


class LogOnDisk(Log):
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


class PartitionOnDisk(PartitionModel):
    @initialize(compact=st.booleans(), delete=st.booleans(), codec=st.integers(0, 4))
    def create(self, compact: bool, delete: bool, codec: int) -> None:  # type: ignore[override]
        self.codec = codec
        self.log = LogOnDisk(cache=0, **self._config(compact=compact, delete=delete))

    @rule()
    def append_a_large_batch(self) -> None:
        self.append([(b"a", b"x" * 100, 0)] * 40)

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.remove()  # type: ignore[attr-defined]

    @staticmethod
    def _config(**config: Any) -> dict[str, Any]:
        # Room for batches that go to the value log.
        return PartitionModel._config(**config) | {"segment_bytes": 6000}


PartitionOnDisk.TestCase.settings = settings(
    max_examples=8, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck), database=None
)
TestPartitionOnDisk = PartitionOnDisk.TestCase
