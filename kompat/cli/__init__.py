"""The `kompat` command's parts that talk to a broker: any that speaks Kafka's protocol, where no extension is needed."""
