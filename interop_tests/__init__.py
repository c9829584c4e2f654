"""Stock Kafka clients against a real broker process."""
