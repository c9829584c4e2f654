"""Queues over share groups: receipts over HTTP, and queue topics for plain consumers."""
