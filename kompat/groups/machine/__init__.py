"""Pure state machines of consumer groups: no clock, no randomness, no IO; all of it comes in as arguments."""
