"""Offsets of connectors that are gone are deleted and restored: in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seamark.changes.plan import Plan
from seamark.errors import RefusedError
from seamark.offsets.read.connector import OrphanedOffsets
from tests.unit.fleet.living import SOURCE_CONFIG, register
from tests.unit.offsets.moving import Place

FILE = {"filename": "/in"}


class PurgePlace(Place):
    """Records that steps write are in the topic at once."""

    def put(self, records):
        for record in records:
            self.scan.put(record.key, record.value, partition=record.partition)

    def newest(self):
        found = self.scan.read_newest().records
        return {(record.partition, record.key): record.value for record in found if record.value is not None}


@pytest.fixture
def place(tmp_path, monkeypatch):
    made = PurgePlace(tmp_path)
    monkeypatch.setattr(OrphanedOffsets, "write", lambda _, owners, records: made.put(records))
    made.game.add("fs", SOURCE_CONFIG)
    made.scan.put(("fs", FILE), {"position": 100})
    made.scan.put(("gone", FILE), {"position": 7}).put(b'["gone", {"filename": "/in"}]', {"position": 8})
    with made.fleet:
        yield made


def kinds(planned):
    return [step.kind for step in planned.plan.steps]


def test_every_record_is_deleted_and_the_undo_restores_each(place):
    before = place.newest()
    planned = place.fleet.offsets.purge(["gone"])
    assert kinds(planned) == ["prove-unused", "write-records"]
    assert planned.plan.locks == ("source.workers/gone",)
    assert sorted(right.words for right in planned.needs.rights) == ["READ on topic offsets", "WRITE on topic offsets"]
    result = place.apply(planned)
    assert [key for _, key in place.newest()] == [b'["fs",{"filename":"/in"}]']
    undo = place.fleet.undo(result)
    assert kinds(undo) == ["write-records"]
    again = place.apply(undo)
    assert place.newest() == before
    assert kinds(place.fleet.undo(again)) == ["write-records"]


def test_many_records_are_written_in_several_steps_and_restored(place):
    for number in range(250):
        place.scan.put(("many", {"filename": f"/{number}"}), {"position": number})
    before = place.newest()
    planned = place.fleet.offsets.purge(everything=True)
    assert [len(step["arguments"]["records"]) for step in planned.plan.to_dict()["steps"][1:]] == [100, 100, 52]
    assert len(planned.effects) == 2
    place.apply(place.fleet.undo(place.apply(planned)))
    assert place.newest() == before


def test_a_file_holds_no_step_and_all_are_derived(place):
    planned = place.fleet.offsets.purge(["gone"])
    file = planned.plan.to_file()
    assert not {"steps", "locks"} & file.keys()
    reviewed = place.fleet.review(register(place.fleet, Plan.from_file(file)))
    assert (reviewed.plan.steps, reviewed.plan.locks) == (planned.plan.steps, planned.plan.locks)
    assert reviewed.effects == planned.effects


def test_records_of_a_connector_that_is_not_checked_are_refused(place):
    plan = place.fleet.offsets.purge(["gone"]).plan
    (action,) = plan.actions
    record = replace(action.records[0], key=b'["fs",{"filename":"/in"}]')
    with pytest.raises(RefusedError, match="isn't an offset of the connector"):
        place.fleet.apply(register(place.fleet, replace(plan, actions=(replace(action, records=(record,)),))))


def test_purge_that_writes_an_offset_is_refused(place):
    (action,) = place.fleet.offsets.purge(["gone"]).plan.actions
    with pytest.raises(RefusedError, match="writes no offset"):
        replace(action, records=(replace(action.records[0], value=b'{"position":9}'), *action.records[1:]))


def test_text_shows_only_what_is_deleted(place):
    place.scan.put(("gone", {"filename": "/b"}), {"position": 3})
    plan = place.fleet.offsets.purge(["gone"]).plan
    (action,) = plan.actions
    fewer = tuple(record for record in action.records if b"/b" in record.key)
    assert len(fewer) < len(action.records)
    edited = replace(plan, actions=(replace(action, records=fewer),))
    (effect,) = place.fleet.review(register(place.fleet, edited)).effects
    assert [field.key for field in effect.fields] == ['{"filename":"/b"}']


def test_connector_that_was_created_since_the_plan_keeps_its_offsets(place):
    before = place.newest()
    planned = place.fleet.offsets.purge(["gone"])
    place.game.add("gone", SOURCE_CONFIG)
    result = place.fleet.apply(planned)
    assert not result.is_done
    assert place.newest() == before


def test_what_is_there_again_is_left_alone(place):
    before = {key: value for (_, key), value in place.newest().items() if b"gone" in key}
    result = place.apply(place.fleet.offsets.purge(["gone"]))
    for key, value in before.items():
        place.scan.put(key, value)
    undo = place.fleet.undo(result)
    assert undo.is_empty
    assert "offsets/game/gone is already in its previous state and is not changed" in undo.plan.notes
