"""The guarded change of offsets on workers with exactly-once: the same cases as without, on servers of their own.

Sources are moved through REST, where Connect fences the tasks, and by records, where seamark does. Sinks know nothing
of it, and are moved beside them.
"""

from __future__ import annotations

import os

import pytest

from seamark.devstack import StackSpec, load_stack, start_stack
from tests.integration.offset_rig import OffsetRig
from tests.integration.offsets.test_mend import (
    test_a_running_source_stops_goes_on_and_reads_nothing_again,
    test_copies_are_levelled_and_put_back,
)
from tests.integration.offsets.test_offset_changes import (
    read_topic,
    source,
    test_a_write_of_somebody_else_after_the_move_is_a_failure,
    test_source_is_rewound_verified_and_put_back,
)
from tests.integration.offsets.test_offset_moves import (
    stage,
    test_export_of_several_owners_is_imported_as_one_plan,
    test_file_source_is_moved_in_every_way_and_put_back,
    test_jdbc_source_skips_as_many_rows_as_the_plan_says_and_the_undo_brings_them,
    test_rename_takes_the_offsets_along_and_nothing_is_read_twice,
    test_sink_delivers_again_as_many_records_as_the_plan_says,
    test_what_moved_too_far_before_the_stop_is_not_written_and_runs_on,
    test_what_the_plan_counts_is_what_is_delivered_in_twenty_cases,
)

pytestmark = [pytest.mark.recovery, pytest.mark.timeout(900)]
SPEC = StackSpec(brokers=1, workers=1, connect_versions=("4.3.1",), exactly_once=True, postgres=True, s3=True)
# Fixtures and cases that pytest finds here by their names.
__all__ = [
    "read_topic",
    "source",
    "stage",
    "test_a_running_source_stops_goes_on_and_reads_nothing_again",
    "test_a_write_of_somebody_else_after_the_move_is_a_failure",
    "test_copies_are_levelled_and_put_back",
    "test_export_of_several_owners_is_imported_as_one_plan",
    "test_file_source_is_moved_in_every_way_and_put_back",
    "test_jdbc_source_skips_as_many_rows_as_the_plan_says_and_the_undo_brings_them",
    "test_rename_takes_the_offsets_along_and_nothing_is_read_twice",
    "test_sink_delivers_again_as_many_records_as_the_plan_says",
    "test_source_is_rewound_verified_and_put_back",
    "test_what_moved_too_far_before_the_stop_is_not_written_and_runs_on",
    "test_what_the_plan_counts_is_what_is_delivered_in_twenty_cases",
]


@pytest.fixture(scope="module")
def stack():
    """Instead of the shared one."""
    if file := os.environ.get("SEAMARK_EXACTLY_ONCE_DEVSTACK"):
        yield load_stack(file)
        return
    with start_stack(SPEC, name="guarded-exactly-once") as started:
        assert started.connect["connect"].exactly_once
        yield started


@pytest.fixture
def rig(stack, tmp_path):
    made = OffsetRig(stack, tmp_path)
    yield made
    made.close()
