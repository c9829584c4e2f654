"""Runs pure state machines on partitions: append their decisions, reply when they are committed."""
