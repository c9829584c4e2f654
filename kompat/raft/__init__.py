"""Raft between brokers: the engine behind each replicated log, and the links that its messages travel on."""
