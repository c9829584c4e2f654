"""Replication: the Raft engine behind one Python face, and what carries its messages between brokers.

`engine` is raft-rs as Python sees it: groups that take proposals, messages and ticks, and say what is to be written,
sent and applied. It does no IO and reads no clock.
"""
