"""A cluster in one process: real partitions and replicas over a simulated clock, network and disk.

Everything that happens follows from a seed, so whatever goes wrong can be seen again.
"""
