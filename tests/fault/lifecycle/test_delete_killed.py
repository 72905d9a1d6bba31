"""kill -9 at every point of changes of a connector with its offsets; then `journal resume` and `journal undo`.

A deletion with offsets, a create without the old offsets, and a create with those of a file. After each undo the
connector has its config and its state, and every record of its offsets the same bytes. With SEAMARK_KILLS=3 each point
is taken three times.
"""

from __future__ import annotations

import json

import pytest

from seamark.devstack.process import wait_until
from tests.fault.rig import SETTLE_SECONDS, TIMES, list_points
from tests.integration.offset_rig import read_raw
from tests.integration.offset_tools import Brokers

pytestmark = pytest.mark.timeout(900 * TIMES)

# stop · prove · no others · write · (restore) · verify · delete
DELETE_POINTS = list_points("awwa-wa")
# create · prove · no others · write · verify · run · wait
FRESH_POINTS = list_points("awwawaw")
# create · prove · write · verify · (delete) · run · wait
FILE_POINTS = list_points("awaw-aw")
# In parts, so that several processes share them.
PARTS = 3
in_parts = pytest.mark.parametrize("part", range(PARTS))


@in_parts
def test_killed_deletion_is_finished_by_resume_and_undone_to_the_byte(kafka_rig, part):
    rig = kafka_rig
    for point in DELETE_POINTS[part::PARTS] * TIMES:
        await_end(rig)
        before, config = read_records(rig), rig.config()
        assert before
        change = rig.run_killed(point, "connectors", "delete", rig.name, "--with-offsets", "--yes")
        assert rig.name not in rig.read("/connectors")
        assert read_records(rig) == {}
        rig.undo(change)
        assert (rig.config(), rig.state()) == (config, "RUNNING")
        # The file has no new line: a task that starts from the restored offset stores nothing.
        assert read_records(rig) == before


@in_parts
def test_killed_fresh_create_is_finished_by_resume_and_undone_to_the_byte(kafka_rig, count_records, part):
    rig = kafka_rig
    create = write_create(rig)
    before = read_records(rig)
    assert before
    for point in FRESH_POINTS[part::PARTS] * TIMES:
        lines = count_records(rig.name)
        change = rig.run_killed(point, *create, "--fresh", "--yes")
        wait_until(rig.runs, f"{rig.name} ran", seconds=SETTLE_SECONDS)
        # It reads its file from the beginning.
        wait_until(lambda lines=lines: count_records(rig.name) >= lines + 2, "both lines came", seconds=SETTLE_SECONDS)
        rig.undo(change)
        assert rig.name not in rig.read("/connectors")
        assert read_records(rig) == before
    rig.create()


@in_parts
def test_killed_create_with_offsets_is_finished_by_resume_and_undone_to_the_byte(kafka_rig, count_records, part):
    rig = kafka_rig
    create = write_create(rig)
    # Between its two lines; the name has the end of the file.
    offset = {"partition": {"filename": str(rig.input)}, "offset": {"position": len("one\n")}}
    file = rig.folder / "offsets.json"
    file.write_text(json.dumps({"offsets": [offset]}))
    before = read_records(rig)
    for point in FILE_POINTS[part::PARTS] * TIMES:
        lines = count_records(rig.name)
        change = rig.run_killed(point, *create, "--offsets-file", str(file), "--yes")
        wait_until(rig.runs, f"{rig.name} ran", seconds=SETTLE_SECONDS)
        # It reads the second of its two lines.
        wait_until(lambda lines=lines: count_records(rig.name) > lines, "the second line came", seconds=SETTLE_SECONDS)
        await_end(rig)
        rig.undo(change)
        assert rig.name not in rig.read("/connectors")
        assert read_records(rig) == before
    rig.create()


def write_create(rig):
    """Delete the connector without its offsets; gives the command that creates it again."""
    await_end(rig)
    config = {key: value for key, value in rig.config().items() if key != "name"}
    file = rig.folder / "new.json"
    file.write_text(json.dumps({"name": rig.name, "config": config}))
    rig.remove(rig.name)
    return "connectors", "create", "-f", str(file), "--cluster", rig.cluster


def read_records(rig):
    """The bytes of each key of the connector; a tombstone counts as none."""
    endpoint = rig.stack.connect[rig.cluster]
    found = read_raw(Brokers(rig.stack.kafka.bootstrap_servers), endpoint.offsets_topic, rig.name)
    return {place: value for place, value in found.items() if value is not None}


def await_end(rig):
    """The position of the whole file is stored."""

    def is_there():
        found = rig.read(f"/connectors/{rig.name}/offsets")["offsets"]
        return [one["offset"] for one in found] == [{"position": rig.input.stat().st_size}]

    wait_until(rig.runs, f"{rig.name} ran", seconds=SETTLE_SECONDS)
    wait_until(is_there, f"{rig.name} stood at its end", seconds=SETTLE_SECONDS, every_seconds=0.3)
