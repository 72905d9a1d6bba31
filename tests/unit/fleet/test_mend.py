"""Plans that mend records: what each says, what it does around the write, and what is refused."""

from __future__ import annotations

import pytest

from seamark.change.steps.cleaning import CLEANING
from seamark.errors import NotFoundError, RefusedError, UnsupportedError, UsageError
from seamark.model.held_offset import HeldRecord
from seamark.offsets.grouping import build_home
from tests.unit.change.brokers import FakeBrokers
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG, open_living_fleet
from tests.unit.fleet.moving import MovingConnect, Place
from tests.unit.offsets.scans import FakeScan

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
    assert place.fleet.offsets.mend(["fs"]).is_empty
    assert place.fleet.offsets.mend(everything=True, clean=True).is_empty


def test_a_copy_gets_the_value_of_home_and_the_plan_says_that_this_does_not_last(place):
    put(place, 5)
    put(place, 9, aside=1)
    planned = place.fleet.offsets.mend(["fs"], take="newest")
    assert kinds(planned)[:4] == ["set-run-state", "prove-stopped", "mend-offsets", "verify-mended"]
    shown = str(planned)
    assert '"{"position":9}" → "{"position":5}"' in shown
    assert "it goes on from the record that is taken" in shown
    assert "--clean takes them out of the log" in shown


def test_what_says_the_same_already_is_told(place):
    put(place, 5)
    put(place, 5, aside=1)
    planned = place.fleet.offsets.mend(["fs"])
    assert planned.is_empty
    assert "--clean takes it out" in planned.plan.notes[0]
    assert not place.fleet.offsets.mend(["fs"], clean=True).is_empty


def test_a_cleaning_lends_configs_and_brings_everything_back_in_every_case(place):
    put(place, 5)
    put(place, 5, aside=1)
    planned = place.fleet.offsets.mend(["fs"], clean=True, wait_seconds=0)
    assert kinds(planned) == [
        "set-run-state",
        "lend-topic-config",
        "prove-stopped",
        "mend-offsets",
        "await-cleaned",
        "level-records",
        "lend-topic-config",
        "verify-mended",
        "set-run-state",
    ]
    (mended,) = [step.arguments for step in planned.plan.steps if step.kind == "mend-offsets"]
    (awaited,) = [step.arguments for step in planned.plan.steps if step.kind == "await-cleaned"]
    assert mended["gone"] == [HeldRecord.from_dict(record).place for record in awaited["gone"]]
    assert awaited["elsewhere"] == {}
    always = [step.kind for step in planned.plan.steps if step.always]
    assert always == ["level-records", "lend-topic-config", "set-run-state"]
    lend, back = (step.arguments for step in planned.plan.steps if step.kind == "lend-topic-config")
    assert lend["values"] == CLEANING
    assert (back["values"], back["returns"]) == ({"segment.ms": "600000"}, True)
    assert sorted(back["remove"]) == sorted(set(CLEANING) - {"segment.ms"})
    assert len({step.lane for step in planned.plan.steps}) == 1
    assert "data.offsets" in planned.plan.locks
    shown = str(planned)
    assert "nothing is read again or skipped" in shown
    assert "(taken out)" in shown
    assert "of each key the newest record stays, of everybody" in shown


def test_what_is_cleaned_without_a_stray_empties_nothing(place):
    fields = (b'{"a":1,"b":2}', b'{"b":2,"a":1}')
    for position, spelled in enumerate(fields):
        put(place, position, key=b'["fs",' + spelled + b"]")
    planned = place.fleet.offsets.mend(["fs"], clean=True, take="newest", wait_seconds=0)
    assert "await-cleaned" not in kinds(planned)
    (mended,) = [step.arguments for step in planned.plan.steps if step.kind == "mend-offsets"]
    assert mended["gone"] == []


def test_a_topic_of_two_clusters_is_cleaned_once_and_each_owner_is_asked_of_its_own(tmp_path):
    scan, brokers = FakeScan("offsets"), FakeBrokers()
    brokers.add_topic("offsets", partitions=PARTITIONS)
    clusters = [MovingConnect(scan, brokers, cluster=name) for name in ("game", "shop")]
    for cluster, name in zip(clusters, ("fs", "till"), strict=True):
        cluster.add(name, SOURCE_CONFIG)
        key = KEY.replace(b"fs", name.encode())
        for aside in (0, 1):
            scan.put(key, b'{"position":5}', partition=(home(key) + aside) % PARTITIONS)
    with open_living_fleet(tmp_path, *clusters, brokers=brokers, scan=scan) as fleet:
        planned = fleet.offsets.mend(["game/fs", "shop/till"], clean=True, wait_seconds=0)
    (awaited,) = [step.arguments for step in planned.plan.steps if step.kind == "await-cleaned"]
    assert (awaited["cluster"], awaited["elsewhere"]) == ("game", {"till": "shop"})
    assert len(awaited["gone"]) == len(clusters)


def test_a_history_that_would_be_lost_is_said(place):
    place.brokers.topics["offsets"].configs["min.compaction.lag.ms"] = "604800000"
    put(place, 5)
    put(place, 5, aside=1)
    assert "that history is lost" in str(place.fleet.offsets.mend(["fs"], clean=True))


def test_a_value_that_was_chosen_is_counted(place):
    put(place, 50)
    stray = put(place, 20, aside=1)
    planned = place.fleet.offsets.mend(["fs"], take=stray)
    assert "check-preview" in kinds(planned)
    assert "about 30 bytes read again" in str(planned)


def test_what_nobody_can_tell_is_refused(place):
    place_of_home = put(place, 5)
    put(place, 9, aside=1)
    with pytest.raises(RefusedError, match="nobody can tell which one counts") as refused:
        place.fleet.offsets.mend(["fs"])
    assert f'{place_of_home} says {{"position":5}}' in refused.value.cause
    with pytest.raises(RefusedError):
        place.fleet.offsets.mend(["fs"], take="offsets-0@99")


def test_a_place_of_no_odd_record_is_not_passed_over(place):
    put(place, 5)
    put(place, 5, aside=1)
    with pytest.raises(NotFoundError, match="no odd record at offsets-0@99"):
        place.fleet.offsets.mend(["fs"], take="offsets-0@99")


@pytest.mark.parametrize(
    ("owners", "options", "kind"),
    [
        ([], {}, UsageError),
        (["fs"], {"everything": True}, UsageError),
        (["fs"], {"only": True}, UsageError),
        (["lake"], {}, UnsupportedError),
        (["nobody"], {}, NotFoundError),
    ],
)
def test_what_can_not_be_meant_is_refused(place, owners, options, kind):
    with pytest.raises(kind):
        place.fleet.offsets.mend(owners, **options)
