"""Transactions: the coordinator's state machine and the service that runs it."""
