"""Consumer groups: what `__consumer_offsets` holds, and the pure machines that decide what is written there."""
