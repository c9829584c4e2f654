"""What a record's headers can ask of the broker, beyond what Kafka offers."""
