"""The HTTP port: REST, metrics and the console. Routes convert requests; whatever Kafka has an API for is done by that API's handler."""
