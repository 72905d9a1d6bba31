"""Positions out of a file: every verb that takes them holds the topics against the ids in it, or says that it can't."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from seamark.connect.model import Connector
from seamark.core.offsets import Offset
from seamark.core.readings import Reading
from seamark.core.refs import ConnectorType
from seamark.errors import AuthorizationError, RefusedError
from seamark.offsets.move.sources import ExportedTopicIds
from seamark.offsets.read.export_file import write_export
from tests.unit.fleet.living import SINK_CONFIG
from tests.unit.offsets.moving import Leaping, Place

ELSEWHERE = {"consumer.override.bootstrap.servers": "elsewhere:9092"}


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    made.fleet._world._clock = Leaping()
    made.game.add("lake", SINK_CONFIG)
    made.brokers.add_topic("t", partitions=2, records=10)
    made.brokers.add_group("connect-lake", {("t", 0): 8, ("t", 1): 6})
    made.brokers.add_group("g", {("t", 0): 5})
    with made.fleet:
        yield made


@pytest.fixture
def file(place, tmp_path):
    """An export whose owners have read on since."""
    write_export(place.fleet.offsets.export(["lake", "group/g"]), tmp_path / "now.json")
    place.apply(place.fleet.offsets.move("lake", to=9, wait_seconds=0))
    place.apply(place.fleet.offsets.move("group/g", to=9))
    return tmp_path / "now.json"


VERBS = {
    "import": lambda fleet, file: fleet.offsets.import_file(file),
    "import one": lambda fleet, file: fleet.offsets.import_file(file, owners=["lake"]),
    "import a group": lambda fleet, file: fleet.offsets.import_file(file, owners=["group/g"]),
    "move a sink": lambda fleet, file: fleet.offsets.move("lake", source=file),
    "move a group": lambda fleet, file: fleet.offsets.move("group/g", source=file),
    "create": lambda fleet, file: fleet.connectors.create("lake", SINK_CONFIG, offsets_file=file),
}


@pytest.fixture(params=VERBS)
def verb(request, place):
    def plan(file):
        if request.param == "create":
            place.game.configs.pop("lake", None)
            place.game.states.pop("lake", None)
        return VERBS[request.param](place.fleet, file)

    return plan


def test_every_verb_takes_positions_of_the_topic_that_is_there(verb, file):
    planned = verb(file)
    assert not planned.is_empty
    assert "can't check whether" not in " ".join(planned.plan.notes)


def test_every_verb_refuses_a_topic_that_was_made_anew(verb, place, file):
    place.brokers.topics["t"].id = "id-9"
    with pytest.raises(RefusedError) as refused:
        verb(file)
    said = f"{refused.value.message} {refused.value.cause}"
    assert "topic t was recreated or belongs to another Kafka cluster" in said
    assert "the topic ID of t is id-9, the file has id-1" in refused.value.cause


def test_every_verb_says_that_an_id_can_not_be_read(verb, place, file, monkeypatch):
    read = place.brokers.read_topics

    def deny(names):
        return Reading((), {name: AuthorizationError(f"not allowed to DESCRIBE topic {name}") for name in names})

    # Only the ids can't be read: what else is asked of the topics is answered.
    monkeypatch.setattr(ExportedTopicIds, "_read", lambda _, kafka: deny(["t"]))
    assert read(["t"]).items
    notes = " ".join(verb(file).plan.notes)
    assert "can't check whether t was recreated since the export: not allowed to DESCRIBE" in notes


def test_a_partition_that_is_not_chosen_is_not_looked_at(place, tmp_path):
    place.brokers.add_topic("u", partitions=1, records=10)
    place.brokers.add_group("two", {("t", 0): 5, ("u", 0): 5})
    write_export(place.fleet.offsets.export(["group/two"]), tmp_path / "two.json")
    place.brokers.topics["t"].id = "id-9"
    with pytest.raises(RefusedError, match="topic t was recreated"):
        place.fleet.offsets.move("group/two", source=tmp_path / "two.json")
    place.fleet.offsets.move("group/two", source=tmp_path / "two.json", topics=["u"])


def test_an_export_that_does_not_tell_an_id_is_told_and_bare_json_is_not(place, file, tmp_path):
    export = replace(place.fleet.offsets.export(["lake"]), topics={})
    write_export(export, tmp_path / "without.json")
    place.apply(place.fleet.offsets.move("lake", to=3, wait_seconds=0))
    planned = place.fleet.offsets.import_file(tmp_path / "without.json")
    assert any("the file has no topic ID for it" in note for note in planned.plan.notes)
    (tmp_path / "bare.json").write_text(
        '{"lake": [{"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": {"kafka_offset": 2}}]}'
    )
    planned = place.fleet.offsets.import_file(tmp_path / "bare.json", owners=["lake"])
    assert "can't check whether" not in " ".join(planned.plan.notes)


def guard(ids, *, kafka, config=None):
    connector = Connector("lake", "game", ConnectorType.SINK, {**SINK_CONFIG, **(config or {})}, None)
    offsets = [Offset({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 1})]
    return ExportedTopicIds(ids, kafka=kafka).refuse_other("game/lake", offsets, connector)


def test_a_sink_on_another_cluster_is_not_held_against_a_namesake(place):
    (note,) = guard({"t": "id-0"}, kafka=lambda: place.brokers, config=ELSEWHERE)
    assert note.endswith("it reads from another Kafka cluster than that of the context")


def test_without_brokers_nobody_is_asked():
    (note,) = guard({"t": "id-0"}, kafka=None)
    assert note.endswith("the context has no kafka.bootstrap.servers")


def test_an_export_does_not_tell_the_ids_of_namesakes(place, monkeypatch):
    place.game.configs["lake"] |= ELSEWHERE
    monkeypatch.setattr("seamark.offsets.stores.stores.OffsetStores.find_brokers", lambda *_: place.brokers)
    assert place.fleet.offsets.export(["lake"]).topics == {}


def test_a_new_sink_is_not_put_into_a_group_where_others_are(place, file):
    config = {**SINK_CONFIG, "consumer.override.group.id": "connect-lake"}
    with pytest.raises(RefusedError, match="also has offsets of other owners") as refused:
        place.fleet.connectors.create("lake2", config, offsets_file=rename_owner(file))
    assert "game/lake reads t" in refused.value.cause


def rename_owner(file):
    held = {"lake2": [{"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": {"kafka_offset": 2}}]}
    path = file.with_name("lake2.json")
    path.write_text(json.dumps(held))
    return path


def test_who_is_in_the_groups_is_read_once_for_all_sinks(place, file):
    for name in ("one", "two", "three"):
        place.game.add(name, {**SINK_CONFIG, "topics": "t"})
        place.brokers.add_group(f"connect-{name}", {("t", 0): 5})
    write_export(place.fleet.offsets.export(["one", "two", "three"]), file.with_name("many.json"))
    calls = place.game.calls
    before = calls["read_connectors"]
    place.fleet.offsets.restore("1970-01-01T00:00:04Z", ["one", "two", "three"], by_record_time=True)
    assert calls["read_connectors"] - before == 1
