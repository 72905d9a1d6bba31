"""Plans that mend records: what each says, what it does around the write, and what is refused."""

from __future__ import annotations

import pytest

from seamark.changes.plan import Plan
from seamark.errors import NotFoundError, RefusedError, UnsupportedError, UsageError
from seamark.offsets.stores.topic import build_home
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG, register
from tests.unit.offsets.moving import Place

PARTITIONS = 5
KEY = b'["fs",{"filename":"/in"}]'
home = build_home(PARTITIONS)


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    made.game.add("fs", SOURCE_CONFIG)
    made.game.add("lake", SINK_CONFIG)
    made.brokers.add_topic("offsets", partitions=PARTITIONS, configs={"segment.ms": "600000"})
    with made.fleet:
        yield made


def put(place, position, *, aside=0, key=KEY):
    value = None if position is None else b'{"position":%d}' % position
    where = (home(key) + aside) % PARTITIONS
    place.scan.put(key, value, partition=where)
    return f"offsets-{where}@{place.scan.log[-1].offset}"


def kinds(planned):
    return [step.kind for step in planned.plan.steps]


def test_nothing_odd_is_an_empty_plan(place):
    put(place, 5)
    assert place.fleet.offsets.repair(["fs"]).is_empty
    assert place.fleet.offsets.repair(everything=True).is_empty


def test_a_copy_gets_the_value_of_home_and_the_plan_says_that_this_does_not_last(place):
    put(place, 5)
    put(place, 9, aside=1)
    planned = place.fleet.offsets.repair(["fs"], take="newest")
    assert kinds(planned)[:4] == ["set-run-state", "prove-stopped", "write-repairs", "verify-repaired"]
    shown = str(planned)
    assert '"{"position":9}" → "{"position":5}"' in shown
    assert "it resumes from the chosen record" in shown
    assert "docs/runbooks/offsets-topic-repartitioned.md describes how to remove them" in shown
    assert [step.kind for step in planned.plan.steps if step.always] == ["set-run-state"]


def test_what_says_the_same_already_is_told(place):
    put(place, 5)
    put(place, 5, aside=1)
    planned = place.fleet.offsets.repair(["fs"])
    assert planned.is_empty
    assert "extra records stay in the log: docs/runbooks/offsets-topic-repartitioned.md" in planned.plan.notes[0]


def test_a_value_that_was_chosen_is_counted(place):
    put(place, 50)
    stray = put(place, 20, aside=1)
    planned = place.fleet.offsets.repair(["fs"], take=stray)
    assert "check-preview" in kinds(planned)
    assert "about 30 bytes reprocessed" in str(planned)


def test_what_nobody_can_tell_is_refused(place):
    place_of_home = put(place, 5)
    put(place, 9, aside=1)
    with pytest.raises(RefusedError, match="can't determine which one the task uses") as refused:
        place.fleet.offsets.repair(["fs"])
    assert f'{place_of_home} has {{"position":5}}' in refused.value.cause
    with pytest.raises(RefusedError):
        place.fleet.offsets.repair(["fs"], take="offsets-0@99")


def test_a_place_of_no_odd_record_is_not_passed_over(place):
    put(place, 5)
    put(place, 5, aside=1)
    with pytest.raises(NotFoundError, match="no anomalous record at offsets-0@99"):
        place.fleet.offsets.repair(["fs"], take="offsets-0@99")


@pytest.mark.parametrize(
    ("owners", "options", "kind"),
    [
        ([], {}, UsageError),
        (["fs"], {"everything": True}, UsageError),
        (["lake"], {}, UnsupportedError),
        (["nobody"], {}, NotFoundError),
    ],
)
def test_what_can_not_be_meant_is_refused(place, owners, options, kind):
    with pytest.raises(kind):
        place.fleet.offsets.repair(owners, **options)


def test_a_file_holds_no_step_and_all_are_derived(place):
    put(place, 50)
    stray = put(place, 20, aside=1)
    planned = place.fleet.offsets.repair(["fs"], take=stray)
    file = planned.plan.to_file()
    assert not {"steps", "locks"} & file.keys()
    reviewed = place.fleet.review(register(place.fleet, Plan.from_file(file)))
    assert (reviewed.plan.steps, reviewed.plan.locks) == (planned.plan.steps, planned.plan.locks)
    assert reviewed.effects == planned.effects
    assert sorted(right.words for right in planned.needs.rights) == ["READ on topic offsets", "WRITE on topic offsets"]


def test_a_saved_plan_whose_record_is_gone_is_refused(place):
    put(place, 50)
    stray = put(place, 20, aside=1)
    plan = place.fleet.offsets.repair(["fs"], take=stray).plan
    place.scan.log = [record for record in place.scan.log if record.partition == home(KEY)]
    with pytest.raises(RefusedError, match="does not exist any more"):
        place.fleet.review(register(place.fleet, plan))
