"""One replica of one partition: its Raft log in the partition's log, its proposals, copies, repairs."""
