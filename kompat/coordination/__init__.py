"""Runs pure state machines on partitions: append what they decide, answer when it is committed."""
