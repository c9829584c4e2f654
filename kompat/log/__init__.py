"""Partition logs: append, read, retention, compaction, and the store under them."""
