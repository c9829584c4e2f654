"""The traces of single records: which records are traced, their events, and how a trace is looked up."""
