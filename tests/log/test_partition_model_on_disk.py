"""The same model as test_partition_model.py, on the store that brokers have."""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from tests.log.on_disk import LogOnDisk, ModelOnDisk, few_runs
from tests.log.test_partition_model import PartitionModel

pytestmark = pytest.mark.slow


class PartitionOnDisk(ModelOnDisk, PartitionModel):
    @initialize(compact=st.booleans(), delete=st.booleans(), codec=st.integers(0, 4))
    def create(self, compact: bool, delete: bool, codec: int) -> None:  # type: ignore[override]
        self.codec = codec
        self.log = LogOnDisk(cache=0, **self._config(compact=compact, delete=delete))

    @rule()
    def append_a_large_batch(self) -> None:
        self.append([(b"a", b"x" * 100, 0)] * 40)

    @staticmethod
    def _config(**config: Any) -> dict[str, Any]:
        # Room for batches that go to the value log.
        return PartitionModel._config(**config) | {"segment_bytes": 6000}


PartitionOnDisk.TestCase.settings = few_runs(steps=20)
TestPartitionOnDisk = PartitionOnDisk.TestCase
