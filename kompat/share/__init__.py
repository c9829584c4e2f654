"""Share groups (KIP-932): consumers get single records and acknowledge each of them."""
