"""Settings: Kafka's names, types, defaults and checks, and where each value came from."""
