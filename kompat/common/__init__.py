"""Utilities for all layers: promises, slices of the event loop, counters, rate-limited logging, the watchdog."""
