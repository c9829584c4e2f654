"""Share groups in the group coordinator: members, assignments, and which partitions have a state."""
