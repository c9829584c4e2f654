"""Pure: no clock, no IO. `partition` knows what is in flight, `state` what has to outlive the broker."""
