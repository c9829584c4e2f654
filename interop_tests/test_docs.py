"""Every example of the README and of docs/ is pasted, page by page; what cannot be run here has to say why."""

import shlex
import sys
from pathlib import Path

import pytest

from interop_tests.support.examples import ExampleError, examples, reader
from interop_tests.support.worker import java_command
from interop_tests.test_tools import CLASSES

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "spark" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
WITH_EXAMPLES = [page for page in PAGES if examples(page.read_text(encoding="utf-8"))]
MORE_TOOLS = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}
SERVER = "kompat start --data ./kompat-data"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where a reader's shell finds Kafka's tools, and kompat."""
    directory = tmp_path_factory.mktemp("bin")
    for name, entry in (CLASSES | MORE_TOOLS).items():
        for command in (name, f"{name}.sh"):
            script = directory / command
            script.write_text(f'#!/bin/sh\nexec {shlex.join(java_command(entry))} "$@"\n')
            script.chmod(0o755)
    return f"{directory}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_can_be_pasted(page: Path, path: str, tmp_path: Path) -> None:
    directory = tmp_path / "reader"
    directory.mkdir()
    (directory / "spark").symlink_to(ROOT / "spark")
    found = [each for each in examples(page.read_text(encoding="utf-8")) if each.reason is None]
    with reader(directory, path) as reading:
        if found and not found[0].starts_server:
            reading.serve(SERVER)
        for example in found:
            reading.paste(example)


def test_an_example_that_fails_is_noticed(path: str, tmp_path: Path) -> None:
    (tmp_path / "reader").mkdir()
    page = "```sh\ntrue\n```\n\n<!-- not run: no reason -->\n```sh\nfalse\n```\n\n```sh\nfalse | true\n```\n"
    first, second, third = examples(page)
    assert (first.reason, second.reason, third.line) == (None, "no reason", 10)
    with reader(tmp_path / "reader", path) as reading:
        reading.paste(first)
        with pytest.raises(ExampleError, match="line 10: exit status 1"):
            reading.paste(third)
