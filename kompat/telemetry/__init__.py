"""Client metrics (KIP-714): subscriptions, and the metrics that clients push. Pure: times and ids are arguments."""
