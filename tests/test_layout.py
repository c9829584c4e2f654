"""tests/ mirrors kompat/: who opens kompat/handlers/fetch.py finds its tests in tests/handlers/test_fetch.py.

`test_x.py` is about the module or package x in the same folder; `test_x_model.py` is about a part of it. Tests of
several modules together are in files of their own, which are listed here with what they are about. Lists of modules
without a test file of their own may only become shorter.
"""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS, PACKAGE = ROOT / "tests", ROOT / "kompat"

# Folders of tests/ without a folder in kompat/.
FOLDERS = {
    "deploy": "the files in deploy/",
    "docs": "the pages in docs/",
    "simulator": "the simulated cluster that other tests run in",
    "spark": "the jobs in spark/",
}

# Test files about more than one module.
SUBJECTS = {
    "test_dependencies": "versions, licences and advisories of what kompat is built of",
    "test_layout": "this file",
    "test_package": "what is installed",
    "test_vocabulary": "Kafka's words in the names of the code",
    "admin/test_long_routes": "no route holds the event loop",
    "admin/test_rights": "ACLs hold for every route",
    "admin/test_streams": "producing and following by HTTP, on a running broker",
    "admin/test_uvicorn": "what is used of uvicorn's private classes",
    "cluster/test_crashes": "a broker dies at any turn of its loop",
    "cluster/test_data_directories": "which replicas a broker may begin from nothing",
    "cluster/test_three_brokers": "three brokers, asked over their sockets",
    "coordination/test_leadership_changes": "a coordinator's partition is led by another broker, and by this one again",
    "extensions/delay/test_delay_model": "delays against a model",
    "extensions/delay/test_delayed_records": "delayed records in a partition as consumers see them",
    "extensions/test_cluster_services": "services of three brokers in one process",
    "extensions/test_remote_services": "services of three brokers over a network that loses calls",
    "groups/test_clock": "the wall clock is set while members are alive",
    "groups/test_crashes": "the broker dies at every write of a group's life",
    "groups/test_random_classic_groups": "random lives of classic groups",
    "groups/test_random_consumer_groups": "random lives of consumer groups",
    "groups/test_scale": "a thousand members in one group",
    "handlers/test_any_request": "random requests of every API",
    "handlers/test_every_api": "rules for every API in every version",
    "handlers/test_internal_topics": "internal topics are written by their owners alone",
    "handlers/test_large_topics": "no request about a large topic holds the event loop",
    "handlers/test_long_answers": "no long response holds the event loop",
    "handlers/test_long_requests": "no long request holds the event loop",
    "handlers/test_pipelining": "requests that are sent back to back",
    "handlers/test_priority_topics": "topics with delivery by priority as clients see them",
    "handlers/test_rights": "the rights that every API requires",
    "log/storage/test_bit_rot": "values that the disk has changed",
    "log/storage/test_crash": "a process that is killed while it writes",
    "log/storage/test_damage": "databases that are damaged",
    "log/storage/test_disk_space": "space is given back",
    "log/storage/test_full_disk": "a disk without room",
    "log/test_forced_writes": "flush.messages and flush.ms",
    "log/test_transactions": "transactions as consumers see them",
    "native/test_patterns": "patterns.rs of the native module",
    "protocol/test_hot_codecs": "hand-written codecs against the schema's",
    "raft/replica/test_lost_majority": "a replica without the others",
    "raft/replica/test_replicated_states": "states that come with entries",
    "raft/test_lost_disks": "data directories that were emptied or put back",
    "raft/test_simulation": "simulated clusters with faults of every kind",
    "server/test_fuzz": "random bytes to a running broker",
    "share/groups/test_kafka_records": "records that Apache Kafka wrote for the same requests",
    "share/test_delivery": "deliveries with priorities and delays",
    "share/test_random_members": "random members of a share group, and crashes",
    "txn/test_compaction": "transactional offsets through compaction and restarts",
    "txn/test_crashes": "the broker dies at every write of a transaction",
}

# Modules without a test file of their own: they are tested through the modules that use them.
UNTESTED = {
    # APIs that test_rights.py, test_every_api.py and interop_tests/ have.
    "handlers": """
        alter_client_quotas create_acls delete_acls describe_acls describe_client_quotas get_telemetry_subscriptions
        push_telemetry sasl_authenticate unregister_broker
    """,
    "log": """
        aborted admission checkpoint damage_report fetch_listener interceptor partition_api recovery
        rejected_sequences replica_api segments settings waiters
    """,
    "raft/replica": "copies fetch install log min_isr proposals ready_loop",
    "server": "clients long_requests owner",
    "share": """
        build coordinator events fetching offset_reset offsets partition reading requests settings state_requests
        state_writer
    """,
    "extensions": "partitions service states",
    "extensions/dead_letters": "appender destination pages redrive requests",
    "extensions/dedup": "contested",
    "extensions/delay": "pages records requests timers",
    "extensions/priority": "headers lane_interceptor lane_release outstanding requests service",
    "extensions/queues": "ack_validator acknowledgements feed leader partition records requests statistics",
    "extensions/reads": "cursors lanes sources",
    "extensions/tracing": "buffer context events index listeners offsets partition recorder requests spans",
}

# A name says what a file is about, and not what follows from it.
NOT_A_SUBJECT = {"traps", "everybody", "done", "shown", "parties", "walk", "world", "story", "strangers"}

TEST_FILES = sorted(path.relative_to(TESTS).with_suffix("") for path in TESTS.rglob("test_*.py"))


def modules(folder: Path) -> set[str]:
    """Modules and folders of a folder; `__main__` is `main`."""
    files = {path.stem.strip("_") for path in folder.glob("*.py")} - {"init"}
    return files | {path.name for path in folder.iterdir() if path.is_dir()}


def is_about_a_module(test: Path) -> bool:
    """Whether `test_x` or `test_x_y` has a module x beside it."""
    subject = test.name.removeprefix("test_")
    return any(subject == module or subject.startswith(f"{module}_") for module in modules(PACKAGE / test.parent))


@pytest.mark.parametrize("folder", sorted({test.parent for test in TEST_FILES}), ids=str)
def test_a_folder_of_tests_has_the_name_of_a_folder_of_the_package(folder: Path) -> None:
    assert (PACKAGE / folder).is_dir() or folder.parts[0] in FOLDERS, f"there is no kompat/{folder}"


def test_a_test_file_has_the_name_of_what_it_tests() -> None:
    mirrored = [test for test in TEST_FILES if test.parts[0] not in FOLDERS]
    assert {str(test) for test in mirrored if not is_about_a_module(test)} == SUBJECTS.keys()


def test_folders_that_are_listed_are_there() -> None:
    assert {folder for folder in FOLDERS if (PACKAGE / folder).exists() or not (TESTS / folder).exists()} == set()


@pytest.mark.parametrize("folder", UNTESTED)
def test_a_module_has_a_test_file_with_its_name(folder: str) -> None:
    files = {path.stem for path in (PACKAGE / folder).glob("*.py")} - {"__init__"}
    without = {name for name in files if not (TESTS / folder / f"test_{name}.py").exists()}
    listed = set(UNTESTED[folder].split())
    assert without - listed == set(), f"these modules of kompat/{folder} have no tests/{folder}/test_<module>.py"
    assert listed - without == set(), "these are tested, or gone: take them off the list"


def test_files_are_named_after_their_subject() -> None:
    files = TESTS.rglob("*.py")
    assert [str(path) for path in files if NOT_A_SUBJECT.intersection(path.stem.split("_"))] == []
