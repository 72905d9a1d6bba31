"""Deletion of connectors with their offsets, and connectors that start without old offsets: on real workers."""

from __future__ import annotations

import pytest

from tests.integration.offset_rig import OffsetRig, without_tombstones
from tests.integration.offsets.offsets_api_stage import RECORDS, Kafka, Lines, Sink, run_cli
from tests.integration.waits import TRIES, says_hindered, wait_for

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(params=["connect", "connect-3-5-2"])
def rig(request, stack, tmp_path):
    made = OffsetRig(stack, tmp_path, cluster=request.param)
    yield made
    made.close()


@pytest.fixture
def kafka(stack, rig):
    opened = Kafka(stack.kafka.bootstrap_servers)
    yield opened
    opened.clean([f"connect-{rig.run}-{word}" for word in ("sink", "other", "new")])


def await_gone(rig, *names):
    wait_for(rig.client.read_names, lambda found: not {*names} & {*found}, f"{names} to be gone")


def test_source_and_sink_are_deleted_with_their_offsets_and_come_back_to_the_byte(rig, kafka):
    source, sink = Lines(rig, kafka), Sink(rig, kafka, 2, tasks=1)
    source.start()
    sink.start()
    records, committed = rig.read_raw(source.name), kafka.read_committed(sink.group)
    lines, delivered = source.count_records(), sink.count_lines()
    planned = rig.plan(lambda: rig.fleet.connectors.delete([source.name, sink.name], with_offsets=True))
    assert [effect.words.split(":")[0] for effect in planned.effects] == [
        "delete with 1 offset",
        "delete with 2 offsets",
    ]
    result = rig.apply(planned)
    await_gone(rig, source.name, sink.name)
    assert without_tombstones(rig.read_raw(source.name)) == {}
    assert not kafka.read_committed(sink.group)
    rig.undo(result)
    source.await_tasks(1)
    sink.await_tasks(1)
    assert rig.read_raw(source.name) == records
    assert kafka.read_committed(sink.group) == committed
    # Both resume where they were: nothing is read again.
    assert (source.count_records(), sink.count_lines()) == (lines, delivered)


def test_fresh_source_reads_from_the_beginning_and_undo_restores_the_old_offsets(rig, kafka):
    source = Lines(rig, kafka)
    source.start()
    source.stop()
    before, lines = rig.read_raw(source.name), source.count_records()
    rig.apply(rig.plan(lambda: rig.fleet.connectors.delete(source.name)))
    await_gone(rig, source.name)
    planned = rig.plan(lambda: rig.fleet.connectors.create(source.name, source.config, fresh=True))
    assert "create without offsets (1 old offset deleted), RUNNING" in str(planned)
    result = rig.apply(planned)
    source.await_tasks(1)
    source.await_at(RECORDS)
    assert source.count_records() >= lines + RECORDS
    rig.undo(result)
    await_gone(rig, source.name)
    assert rig.read_raw(source.name) == before


def test_the_commands_do_the_same(rig, kafka):
    source = Lines(rig, kafka)
    source.start()
    for _ in range(TRIES):
        code, said = run_cli(rig, "connectors", "delete", source.name, "--with-offsets", "--yes")
        if code == 0 or not says_hindered(said):
            break
    assert code == 0, said
    assert "delete with 1 offset" in said
    await_gone(rig, source.name)
    assert without_tombstones(rig.read_raw(source.name)) == {}
