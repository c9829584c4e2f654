"""Delayed and scheduled records: parked as states of their partition, appended when they are due."""
