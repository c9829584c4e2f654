"""What a record's headers can request of the broker, beyond Kafka's features."""
