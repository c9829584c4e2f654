"""The broker's counters and state as Prometheus metrics."""
