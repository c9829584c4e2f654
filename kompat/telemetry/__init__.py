"""Metrics that clients push (KIP-714): who is asked for which, and what came. Pure: time and ids come in."""
