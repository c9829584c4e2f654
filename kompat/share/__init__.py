"""Share groups (KIP-932): records are given to consumers one by one, each acknowledged by itself."""
