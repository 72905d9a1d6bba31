"""Connect 3.5 stops connectors and takes no offsets: they are written to the topic, or committed for a sink's group."""

from __future__ import annotations

import json

import pytest

from seamark.core.offsets import spell_identity
from seamark.offsets.codec.codec import encode_rest_key
from seamark.offsets.model import WriteRoute
from seamark.offsets.read.export_file import write_export
from tests.integration.offset_rig import OffsetRig, without_tombstones
from tests.integration.offsets.offsets_api_stage import RECORDS, Kafka, Lines, Sink, run_cli
from tests.integration.waits import TRIES, says_hindered, wait_for

CLUSTER = "connect-3-5-2"
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def rig(stack, tmp_path):
    made = OffsetRig(stack, tmp_path, cluster=CLUSTER)
    assert made.endpoint.version == "3.5.2"
    yield made
    made.close()


@pytest.fixture
def kafka(stack, rig):
    opened = Kafka(stack.kafka.bootstrap_servers)
    yield opened
    opened.clean([f"connect-{rig.run}-{word}" for word in ("sink", "other", "new")])


def find_write(planned):
    (step,) = [step for step in planned.steps if step.kind == "write-offsets"]
    return step


def move(owner, **where):
    return owner.rig.plan(lambda: owner.rig.fleet.offsets.move(owner.name, **where))


def check_again(delivered, again, partitions=1):
    """So many of each partition were delivered. A rebalance may end a task before it has stored its position: then it
    delivers the same once more, and all of it."""
    assert delivered >= again * partitions
    assert delivered % again == 0, delivered


def test_a_running_source_is_moved_in_its_topic_and_goes_on_from_there(rig, kafka):
    source = Lines(rig, kafka)
    source.start()
    before, already = rig.read_raw(source.name), source.count_records()
    planned = move(source, to=6 * 4)
    step = find_write(planned)
    assert [(record.topic, record.partition, record.key) for record in step.records] == [
        (rig.endpoint.offsets_topic, *place) for place in before
    ]
    assert any(
        "3.5.2 and can't write offsets through REST: they are written in the offsets topic" in note
        for note in planned.plan.notes
    )
    result = rig.apply(planned)
    assert "wait for the first new offset" in result.steps[-1].words
    source.await_tasks(1)
    source.await_at(RECORDS)
    check_again(source.count_records() - already, 6)
    # It has caught up: to take it back would change nothing.
    assert rig.plan(lambda: rig.fleet.undo(result.change)).is_empty


def test_a_stopped_source_is_moved_forgotten_and_put_back_to_the_byte(rig, kafka):
    source = Lines(rig, kafka)
    source.start()
    source.stop()
    before, already = rig.read_raw(source.name), source.count_records()
    for change in (lambda: move(source, to=6), lambda: rig.plan(lambda: rig.fleet.offsets.reset(source.name))):
        planned = change()
        assert find_write(planned).route is WriteRoute.TOPIC
        result = rig.apply(planned)
        assert rig.read_raw(source.name).keys() == before.keys()
        assert rig.read_raw(source.name) != before
        rig.undo(result)
        assert rig.read_raw(source.name) == before
        # A neighbour's rebalance shows it UNASSIGNED for a moment.
        source.await_tasks(0, "STOPPED")
    assert source.count_records() == already


def test_a_running_sink_is_moved_in_its_group_and_put_back(rig, kafka):
    sink = Sink(rig, kafka, 2, tasks=1)
    sink.start()
    already = sink.count_lines()
    planned = move(sink, to=3)
    assert (find_write(planned).route, find_write(planned).records) == (WriteRoute.GROUP, ())
    rig.apply(planned)
    sink.await_tasks(1)
    sink.await_at(RECORDS)
    check_again(sink.count_lines() - already, 7, partitions=2)

    sink.stop()
    sink.await_members(0)
    already = sink.count_lines()
    result = rig.apply(move(sink, to="earliest", topics=[f"{sink.topic}:1"]))
    assert kafka.read_committed(sink.group) == {(sink.topic, 0): RECORDS, (sink.topic, 1): 0}
    rig.undo(result)
    sink.await_at(RECORDS)
    result = rig.apply(sink.plan_forget())
    assert kafka.read_committed(sink.group) == {}
    rig.undo(result)
    sink.await_at(RECORDS)
    assert sink.count_lines() == already


def test_two_owners_are_imported_and_one_is_copied_to_another(rig, kafka):
    source, sink = Lines(rig, kafka), Sink(rig, kafka, 1, tasks=1)
    other = Lines(rig, kafka, word="other-lines")
    for one in (source, sink, other):
        one.start()
        one.stop()
    file = rig.folder / "export.json"
    write_export(rig.plan(lambda: rig.fleet.offsets.export([source.name, sink.name])), file)
    rig.apply(move(source, to=6))
    rig.apply(move(sink, to=1))
    source.await_at(1)
    sink.await_at(1)
    planned = rig.plan(lambda: rig.fleet.offsets.import_file(file))
    routes = [step.route for step in planned.steps if step.kind == "write-offsets"]
    assert sorted(routes) == [WriteRoute.GROUP, WriteRoute.TOPIC]
    result = rig.apply(planned)
    source.await_at(RECORDS)
    sink.await_at(RECORDS)
    rig.undo(result)
    source.await_at(1)
    rig.apply(rig.plan(lambda: rig.fleet.offsets.copy(source.name, other.name)))
    other.await_at(1)


def test_a_partition_without_a_record_gets_a_key_as_rest_spells_it(rig, kafka):
    source = Lines(rig, kafka)
    source.start()
    source.stop()
    before = rig.read_raw(source.name)
    partition = {"filename": str(rig.folder / "another.txt")}
    file = source.write_body({"offsets": [{"partition": partition, "offset": {"position": 12}}]})
    planned = source.plan_move(file)
    assert any(
        "has no record yet; its key gets the encoding of Connect's REST API" in one for one in planned.plan.notes
    )
    result = rig.apply(planned)
    new = rig.read_raw(source.name)
    ((place, value),) = [(place, value) for place, value in new.items() if place not in before]
    assert (place[1], value) == (encode_rest_key(source.name, partition), b'{"position":12}')
    # REST finds it where it would have put it; a worker that lags has not read that far yet.
    identity = spell_identity(partition)
    wait_for(source.read_told, lambda told: told.get(identity) == {"position": 12}, f"REST to tell {identity}")
    assert rig.plan(lambda: rig.fleet.offsets.get(source.name)).findings == ()
    rig.undo(result)
    assert without_tombstones(rig.read_raw(source.name)) == before


def test_a_new_source_begins_where_a_file_says(rig, kafka):
    source = Lines(rig, kafka, word="new")
    body = {"offsets": [{"partition": {"filename": str(source.file)}, "offset": {"position": 6 * 8}}]}
    file = source.write_body(body)
    planned = rig.plan(lambda: rig.fleet.connectors.create(source.name, source.config, offsets_file=file))
    kinds = [step.kind for step in planned.steps if step.acts]
    assert kinds == ["write-offsets", "create-connector"]
    assert any("written before it is created" in note for note in planned.plan.notes)
    result = rig.apply(planned)
    source.await_tasks(1)
    source.await_at(RECORDS)
    check_again(source.count_records(), 2)
    rig.undo(result)
    wait_for(rig.client.read_names, lambda names: source.name not in names, f"{source.name} to be gone")
    assert without_tombstones(rig.read_raw(source.name)) == {}


def test_a_new_sink_begins_where_a_file_says(rig, kafka):
    sink = Sink(rig, kafka, 1, tasks=1, word="new")
    kafka.produce(sink.topic, 1)
    file = sink.write_body({"offsets": [{"partition": sink.partition(0), "offset": {"kafka_offset": 6}}]})
    rig.apply(rig.plan(lambda: rig.fleet.connectors.create(sink.name, sink.config, offsets_file=file)))
    sink.await_tasks(1)
    sink.await_at(RECORDS)
    check_again(sink.count_lines(), 4)


def test_the_command_says_how_it_is_done(rig, kafka):
    source = Lines(rig, kafka)
    source.start()
    already = source.count_records()
    for _ in range(TRIES):
        code, said = run_cli(rig, "offsets", "move", source.name, "--to", "0", "--yes", "--progress-timeout", "0s")
        if code == 0 or not says_hindered(said):
            break
    assert code == 0, said
    assert "3.5.2 and can't write offsets through REST: they are written in the offsets topic" in said
    assert f"set 1 offset of connector/connect/{source.name} in its topic" in said
    wait_for(source.count_records, lambda found: found >= already + RECORDS, "all lines once more")
    code, said = run_cli(rig, "journal", "list", "-o", "json")
    # The newest is the one that no rebalance hindered.
    assert json.loads(said)["items"][0]["state"] == "done", said
