"""The few things that an archive needs of a file system, through Hadoop's: a local directory, HDFS or an object store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pyspark.sql import SparkSession


class Found(NamedTuple):
    path: str  # within the directory that was listed
    size: int
    modified: int  # ms


class Files:
    """Below one directory; paths are relative to it."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        gateway = spark.sparkContext._gateway
        assert gateway is not None  # noqa: S101 - of a session that runs
        self._java: Any = gateway.jvm
        self._path: Any = self._java.org.apache.hadoop.fs.Path
        spark_context: Any = spark.sparkContext
        root_path = self._path(root)
        self._fs = root_path.getFileSystem(spark_context._jsc.hadoopConfiguration())
        self._context = self._java.org.apache.hadoop.fs.FileContext.getFileContext(
            root_path.toUri(), spark_context._jsc.hadoopConfiguration()
        )
        rename = self._java.org.apache.hadoop.fs.Options.Rename
        self._no_options = gateway.new_array(rename, 0)
        self.root = self._fs.makeQualified(root_path).toString()

    def full(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def names(self, directory: str) -> list[str]:
        """What is directly in a directory; nothing where there is none."""
        at = self._path(self.full(directory))
        return [each.getPath().getName() for each in self._fs.listStatus(at)] if self._fs.exists(at) else []

    def walk(self, directory: str) -> Iterator[Found]:
        """All files below a directory."""
        at = self._path(self.full(directory))
        if not self._fs.exists(at):
            return
        listed = self._fs.listFiles(at, True)
        while listed.hasNext():
            each = listed.next()
            path = each.getPath().toString().removeprefix(self.full(directory)).lstrip("/")
            yield Found(path, each.getLen(), each.getModificationTime())

    def read(self, path: str) -> bytes:
        stream = self._fs.open(self._path(self.full(path)))
        try:
            return bytes(self._java.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def create(self, path: str, data: bytes) -> None:
        """A file that appears whole, and takes the place of none."""
        written = f"{path}.tmp"
        stream = self._fs.create(self._path(self.full(written)), True)
        try:
            stream.write(data)
            stream.hsync()
        finally:
            stream.close()
        self.move(written, path)

    def replace(self, path: str, data: bytes) -> None:
        """A file, whether or not there is one."""
        stream = self._fs.create(self._path(self.full(path)), True)
        try:
            stream.write(data)
        finally:
            stream.close()

    def move(self, source: str, target: str) -> None:
        """Raises where there is something at the target."""
        to = self._path(self.full(target))
        self._fs.mkdirs(to.getParent())
        # Not FileSystem.rename, which replaces a file on some systems, and tells of failures only by its result.
        self._context.rename(self._path(self.full(source)), to, self._no_options)

    def exists(self, path: str) -> bool:
        return bool(self._fs.exists(self._path(self.full(path))))

    def delete(self, path: str) -> None:
        self._fs.delete(self._path(self.full(path)), True)
