"""Backups of a data directory: a copy while the broker runs, and a check of one."""
