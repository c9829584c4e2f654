"""Replication: the Raft engine with its Python interface, and the links that carry its messages between brokers.

`engine` is raft-rs as Python sees it: groups that take proposals, messages and ticks, and return what is to be written,
sent and applied. It does no IO and reads no clock.
"""
