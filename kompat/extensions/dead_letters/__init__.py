"""Dead-letter records: how they are written, listed and redriven."""
