"""Jobs on Spark over kompat's topics: archive, replay, traces, dead letters. See README.md."""
