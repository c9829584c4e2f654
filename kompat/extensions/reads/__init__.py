"""Reads by people and tools: pages of records by offset, time and text, on whichever broker has them."""
