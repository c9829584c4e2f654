"""The HTTP door: REST, metrics and the console. Routes translate and call; what Kafka has an API for is done by that API's handler."""
