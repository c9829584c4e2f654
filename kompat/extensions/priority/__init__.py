"""Priorities: the header, the index of a partition, the order of share groups, and lanes for plain consumers."""
