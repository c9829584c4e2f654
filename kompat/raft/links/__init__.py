"""Links between brokers: one authenticated connection per pair, for Raft messages, calls and streams."""
