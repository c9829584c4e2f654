"""The commands of `kompat`. They work with any broker of Kafka's protocol, unless they need kompat's extensions."""
