"""The jars that Spark needs to speak Kafka's protocol: resolved once through Maven, then reused.

    python -m spark.jars            resolve them, if that has not been done
    python -m spark.jars --print    print their paths, separated by commas, as `spark-submit --jars` wants them

The connector has the version of the pyspark that is installed. What pyspark brings itself is left out, so that no class
is there twice. Importing this module resolves nothing: a job on a cluster may have its jars from elsewhere.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

CONNECTOR = "spark-sql-kafka-0-10"
PLACE_VARIABLE = "KOMPAT_SPARK_JARS"  # a directory with the jars, instead of the cache
_JAR = re.compile(r"(?P<artifact>.+?)-\d[^/]*\.jar")
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kompat</groupId>
  <artifactId>spark-jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.spark</groupId>
      <artifactId>{connector}_{scala}</artifactId>
      <version>{spark}</version>
    </dependency>
  </dependencies>
</project>
"""


class MissingJarsError(Exception):
    """The message says how to get them."""


def find() -> list[Path]:
    """The jars, which have been resolved before."""
    place = _place()
    found = sorted(place.glob("*.jar"))
    if not any(jar.name.startswith(CONNECTOR) for jar in found):
        raise MissingJarsError(f"{place} does not hold Spark's Kafka connector: run `python -m spark.jars` first")
    return found


def install() -> list[Path]:
    """The jars, resolved now where that has not been done."""
    try:
        return find()
    except MissingJarsError:
        if os.environ.get(PLACE_VARIABLE):
            raise
    place = _place()
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as work:
        resolved = _resolve(Path(work))
        if place.exists():  # left behind half made
            shutil.rmtree(place)
        resolved.rename(place)
    return find()


def _place() -> Path:
    given = os.environ.get(PLACE_VARIABLE)
    if given:
        return Path(given)
    spark, scala = _versions()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "kompat" / f"spark-{spark}_{scala}"


def _resolve(work: Path) -> Path:
    spark, scala = _versions()
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingJarsError("Maven (mvn) is needed to resolve the jars, and is not on the PATH")
    (work / "pom.xml").write_text(_POM.format(connector=CONNECTOR, spark=spark, scala=scala))
    jars = work / "jars"
    command = [maven, "-B", "-q", "-Dstyle.color=never", "-f", str(work / "pom.xml")]
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
    done = subprocess.run([*command, *goal], capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    if done.returncode:
        raise MissingJarsError(f"Maven could not resolve {CONNECTOR}_{scala} {spark}:\n{done.stdout}{done.stderr}")
    for jar in jars.glob("*.jar"):
        if _artifact(jar) in _brought_by_pyspark():
            jar.unlink()
    return jars


def _versions() -> tuple[str, str]:
    """Of Spark, and of the Scala that it is made with."""
    import pyspark

    library = next(_pyspark_jars().glob("scala-library-*.jar"))
    scala = ".".join(library.stem.removeprefix("scala-library-").split(".")[:2])
    return pyspark.__version__, scala


def _brought_by_pyspark() -> set[str]:
    return {_artifact(jar) for jar in _pyspark_jars().glob("*.jar")}


def _pyspark_jars() -> Path:
    import pyspark

    home = os.environ.get("SPARK_HOME")  # of spark-submit, which has its Python code elsewhere
    return (Path(home) if home else Path(pyspark.__file__).parent) / "jars"


def _artifact(jar: Path) -> str:
    named = _JAR.fullmatch(jar.name)
    return named["artifact"] if named else jar.name


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m spark.jars", description="Resolve the jars of Spark's Kafka connector.")
    parser.add_argument("--print", action="store_true", help="print their paths, separated by commas")
    options = parser.parse_args(arguments)
    try:
        jars = install()
    except MissingJarsError as error:
        print(error, file=sys.stderr)
        return 1
    if options.print:
        print(",".join(map(str, jars)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
