"""Consumer groups: the records of `__consumer_offsets`, and the pure machines that decide them."""
