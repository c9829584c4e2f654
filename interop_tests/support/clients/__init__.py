"""Every client behind one face, so that a rule is written once and shown by all of them."""
