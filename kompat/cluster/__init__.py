"""The cluster's metadata: topics, where their partitions lie, settings, brokers, producer ids."""
