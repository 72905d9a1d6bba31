"""Fixtures that every tier shares."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from seamark.core.secrets import PLUGIN_KEYS
from seamark.devstack import Stack, StackSpec, load_stack, start_stack

# How long one example takes says how busy the machine is, and nothing about the code; whoever measures sets their own.
settings.register_profile("seamark", deadline=None)
settings.load_profile("seamark")

# One stack for the whole run: three brokers, two workers of the newest Connect and of the oldest we support fully,
# PostgreSQL and S3. A test that kills servers starts its own.
SHARED = StackSpec(brokers=3, workers=2, connect_versions=("4.3.1", "3.5.2"), postgres=True, s3=True)


# What one process does in a parallel run, by a piece of the test's id: cases of one real cluster would disturb each
# other with their rebalances, some tests share a stack of their own or a Java process. The rest is shared out.
# Faults of offset changes have a stack for themselves: so two processes wait at a time, not one for twice as long.
OFFSET_STACK = (
    "test_offset_answers.py",
    "test_offset_kills.py",
    "test_offset_planted_bugs.py",
    "test_offset_strangers.py",
    "test_offset_zombies.py",
    "test_partition_connect.py",
    "test_partition_kafka.py",
    "test_partition_worker.py",
)
# Each of these has a stack of its own.
ALONE = ("test_guarded_exactly_once.py", "test_oldest_workers.py", "test_rolling_restart.py", "test_runbooks_")
# Tests that start stacks of their own, in two processes. The start of a stack uses both cores for 10 to 20 s; if more
# start at the same time, servers are not ready within their deadlines.
STARTERS = {
    "test_demo.py": "demo",
    "test_quickstart.py": "demo",
    "test_devstack.py": "stacks",
    "test_meaning_debezium.py": "stacks",
    "test_own_connector.py": "stacks",
    "test_starting_worker.py": "stacks",
    "test_topic_route.py": "stacks",
}
TOGETHER = {
    "tests/contract/": ("[fake", "[real-4.3.1", "[real-3.5.2"),
    "tests/fault/": (
        "test_brokers_die_midway.py",
        "test_fleet_apply.py",
        "test_like_real_connect.py",
        "test_mend.py",
        "test_offset_access.py",
        *OFFSET_STACK,
        *ALONE,
        "test_offsets_exactly_once.py",
        "test_topic_health.py",
    ),
    "tests/integration/": (
        "test_examples.py",
        "test_moved_and_undone.py",
        "test_offsets_api.py",
        *STARTERS,
    ),
    "tests/oracle/": ("tests/oracle/",),
}


# Tests that take longest, the longest first: a parallel run begins with them, so that none is left over at its end when
# the other processes have nothing to do.
LONGEST = (
    "test_offsets_api.py",
    "test_demo.py",
    "test_quickstart.py",
    "test_moved_and_undone.py",
    "test_purge.py::test_a_thousand_orphans",
    "test_runbooks.py",
    "test_standalone_offsets.py",
    "test_resume_places.py",
    "test_offset_moves.py::test_what_the_plan_counts",
    "test_back_to_a_moment.py",
    "test_connect_offsets_import.py::test_with_all_workers_down",
    "test_connector_life.py::test_every_verb",
    "test_mend.py",
    "test_runbook_topic.py",
)


def find_rank(nodeid: str) -> int:
    """The place of a test in LONGEST; behind all of them if it is not there."""
    return next((rank for rank, piece in enumerate(LONGEST) if piece in nodeid), len(LONGEST))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Start a parallel run with the longest tests. The order of the others stays random."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: find_rank(item.nodeid))


def find_scope(nodeid: str) -> str:
    """The name under which tests are kept together; a test's own id where it goes alone."""
    for folder, pieces in TOGETHER.items():
        found = next((piece for piece in pieces if piece in nodeid), "") if folder in nodeid else ""
        if found in ALONE:
            return nodeid.partition("::")[0]
        if found:
            name = "offset stack" if found in OFFSET_STACK else "own stack"
            return f"{folder} {name if folder == 'tests/fault/' else STARTERS.get(found, found)}"
    return nodeid


def pytest_xdist_make_scheduler(config, log):
    """Keep together what belongs together.

    (`--dist loadgroup` is for that, but xdist 3.8 does not find its marks with pytest 9.2.)
    """
    if not any(folder.rstrip("/") in str(argument) for argument in config.args for folder in TOGETHER):
        return None
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415 - not there where nobody runs in parallel

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return find_scope(nodeid)

    return Together(config, log)


@pytest.fixture(autouse=True)
def forget_plugin_types() -> None:
    """Begin each test with nothing known of any plugin: what one test has read would hide values in another."""
    PLUGIN_KEYS.forget()


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """The shared stack: the one `SEAMARK_DEVSTACK` names, else one that lives as long as this run."""
    if file := os.environ.get("SEAMARK_DEVSTACK"):
        yield load_stack(file)
        return
    with start_stack(SHARED, name="pytest") as started:
        yield started
