"""The store under the logs: RocksDB for small batches and states, the value log for large ones, and a twin in memory."""
