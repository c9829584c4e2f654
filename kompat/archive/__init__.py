"""The archive: topics as Parquet files, longer than any retention.

`spark/archive.py` writes it, exactly once, and `spark/replay.py` puts it back; `reader.py` reads it without Spark.
"""
