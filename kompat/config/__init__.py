"""Settings: Kafka's names, types, defaults and checks, and the source of each value."""
