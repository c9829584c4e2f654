"""What operators see: the broker's counters and state, as Prometheus reads them."""
