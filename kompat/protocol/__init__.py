"""Kafka's bytes: frames, requests and responses, record batches. Nothing in here does IO or reads a clock."""
