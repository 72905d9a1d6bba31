"""A context with nothing but the workers' URLs: offsets are read and verified through REST, by two who must agree."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from seamark.changes.file_journal import FileJournal
from seamark.context import KafkaSettings, Verify
from seamark.core.offsets import Offset, spell_identity
from seamark.errors import MissingSettingError, RefusedError, UnreachableError, UnsupportedError
from seamark.fleet.fleet import Fleet
from seamark.offsets.exports import OffsetExport, OwnerExport
from seamark.offsets.read.export_file import write_export
from tests.unit.fleet.builders import StubKafka
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG, LivingConnect, living_context

FILE = {"filename": "/in"}
SPOT = {"kafka_topic": "t", "kafka_partition": 0}
URLS = ("http://w1:8083", "http://w2:8083", "http://w3:8083")


class Workers(LivingConnect):
    """Three workers with a word of their own each; what is patched all of them know, unless one is deaf."""

    def __init__(self):
        super().__init__()
        self.said = {url: {} for url in URLS}
        self.dead, self.deaf, self.asked = set(), set(), []

    def hold(self, name, partition, offset, *urls):
        for url in urls or URLS:
            self.said[url].setdefault(name, {})[spell_identity(partition)] = Offset(partition, offset)

    def read_offsets(self, name, url=None):
        self.asked.append(url)
        if url in self.dead:
            raise UnreachableError(f"{url} does not answer")
        return tuple(self.said[url or URLS[0]].get(name, {}).values())

    def patch_offsets(self, name, offsets):
        assert self.states[name] == "STOPPED"
        for url in set(URLS) - self.deaf:
            for one in offsets:
                held = self.said[url].setdefault(name, {})
                held.pop(spell_identity(one.partition), None)
                if one.offset is not None:
                    held[spell_identity(one.partition)] = one

    def find_silent(self, workers, **_):
        return ()


class Here:
    def __init__(self, folder, *, urls=URLS):
        self.game = Workers()
        context = living_context(folder, urls=urls, group_id=None, offsets_topic=None)
        context = replace(context, kafka=KafkaSettings({}), verify=Verify.REST)
        self.fleet = Fleet(
            context,
            build_connect=lambda settings: self.game,
            build_kafka=lambda settings: StubKafka(),
            open_journal=lambda opened: FileJournal(opened.journal.folder),
        )
        self.game.add("fs", SOURCE_CONFIG)
        self.game.hold("fs", FILE, {"position": 100})
        self.game.add("lake", SINK_CONFIG)
        self.game.hold("lake", SPOT, {"kafka_offset": 8})

    def held(self, name):
        return [one.offset for one in self.game.said[URLS[0]][name].values()]

    def apply(self, planned):
        result = self.fleet.apply(planned)
        assert result.is_done, result.failures
        return result


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setattr("seamark.offsets.read.rest._AGREE_SECONDS", 0.2)
    monkeypatch.setattr("seamark.offsets.read.rest._PAUSE_SECONDS", 0.05)
    made = Here(tmp_path)
    with made.fleet:
        yield made


@pytest.mark.parametrize(
    ("name", "where", "after"),
    [
        ("fs", {"to": 40}, {"position": 40}),
        ("fs", {"shift": -30}, {"position": 70}),
        ("lake", {"to": 3}, {"kafka_offset": 3}),
        ("lake", {"shift": -5}, {"kafka_offset": 3}),
        ("lake", {"shift": -50, "topics": ["t:0"]}, {"kafka_offset": 0}),
        ("lake", None, None),
    ],
)
def test_it_is_moved_and_put_back(here, name, where, after):
    before = here.held(name)
    planned = here.fleet.offsets.reset(name) if where is None else here.fleet.offsets.move(name, **where)
    said = " ".join(planned.plan.notes)
    assert "two workers must agree" in said
    assert "not as bytes" in said
    assert "locks don't exclude processes on other machines" in said
    result = here.apply(planned)
    assert here.held(name) == ([] if after is None else [after])
    assert here.game.states[name] == "RUNNING"
    assert {*URLS[:2]} <= {*here.game.asked}
    here.apply(here.fleet.undo(result.change))
    assert here.held(name) == before


def test_an_import_and_a_copy(here, tmp_path):
    here.game.add("fs2", SOURCE_CONFIG)
    here.apply(here.fleet.offsets.copy("fs", "fs2"))
    assert here.held("fs2") == [{"position": 100}]
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"lake": [{"partition": SPOT, "offset": {"kafka_offset": 2}}]}))
    here.apply(here.fleet.offsets.import_file(file))
    assert here.held("lake") == [{"kafka_offset": 2}]


@pytest.mark.parametrize(
    "where", [{"to": "earliest"}, {"to": "latest"}, {"back": "1h"}, {"to": "2026-01-01T00:00:00Z"}]
)
def test_what_only_brokers_know_says_so(here, where):
    with pytest.raises(UnsupportedError, match=r"the context has no kafka\.bootstrap\.servers"):
        here.fleet.offsets.move("lake", **where)
    with pytest.raises(MissingSettingError):
        here.fleet.offsets.move("group/g", to=1)


def test_a_moment_needs_the_stores(here):
    with pytest.raises(UnsupportedError, match="unknown through REST"):
        here.fleet.offsets.restore("2026-01-01", ["fs"])


def test_workers_that_differ_on_a_stopped_connector_are_refused_and_nothing_is_called_done(here):
    here.game.states["fs"] = "STOPPED"
    here.game.hold("fs", FILE, {"position": 90}, URLS[1])
    with pytest.raises(RefusedError, match="two workers returned different offsets"):
        here.fleet.offsets.move("fs", to=40)
    # While it runs, one of them is only later than the other.
    here.game.states["fs"] = "RUNNING"
    assert not here.fleet.offsets.move("fs", to=40).is_empty


def test_a_worker_that_does_not_hear_of_the_write_keeps_it_from_being_done(here, monkeypatch):
    monkeypatch.setattr("seamark.offsets.write.steps.WriteOffsets.settle_seconds", 1.0)
    planned = here.fleet.offsets.move("fs", to=40)
    here.game.deaf.add(URLS[1])
    result = here.fleet.apply(planned)
    assert not result.is_done


def test_a_dead_worker_is_no_witness_and_another_one_is_asked(here):
    here.game.dead.add(URLS[0])
    planned = here.fleet.offsets.move("fs", to=40)
    assert not planned.is_empty
    here.game.dead.add(URLS[1])
    with pytest.raises(UnreachableError, match="1 of 2 workers"):
        here.fleet.offsets.move("fs", to=40)


def test_one_worker_alone_is_told(tmp_path):
    alone = Here(tmp_path, urls=URLS[:1])
    with alone.fleet:
        planned = alone.fleet.offsets.move("fs", to=40)
        assert "the context has one worker URL" in " ".join(planned.plan.notes)
        alone.apply(planned)


def test_a_partition_without_an_offset_is_a_doubt(here):
    here.game.hold("fs", FILE, None)
    with pytest.raises(RefusedError, match="can't determine which record"):
        here.fleet.offsets.move("fs", to={"position": 4}, partitions=[json.dumps(FILE)])


@pytest.mark.parametrize("way", ["import", "move"])
def test_the_ids_in_an_export_are_not_asked_of_brokers_that_are_not_there(here, tmp_path, way):
    owner = OwnerExport("game/lake", (Offset(SPOT, {"kafka_offset": 3}),))
    export = OffsetExport("2026-11-01T00:00:00Z", {"context": "dev"}, (owner,), topics={"t": "id-1"})
    write_export(export, tmp_path / "old.json")
    if way == "import":
        planned = here.fleet.offsets.import_file(tmp_path / "old.json", wait_seconds=0)
    else:
        planned = here.fleet.offsets.move("lake", source=tmp_path / "old.json", wait_seconds=0)
    assert any("the context has no kafka.bootstrap.servers" in note for note in planned.plan.notes)
    here.apply(planned)
    assert here.held("lake") == [{"kafka_offset": 3}]
