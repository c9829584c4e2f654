"""Group members of every client, in processes that a test may kill.

A process hosts one or several members. It takes orders as JSON lines on stdin (join, leave) and tells what happens to
each member as JSON lines on stdout: its assignment when that changed, every record, every commit, every problem.
"""
