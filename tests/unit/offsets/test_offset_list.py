"""The list of every owner's offsets: who is in it, with which findings, in every format and within its bounds."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.errors import UnreachableError
from seamark.offsets.codec.codec import encode_key
from seamark.offsets.list_views import build_list_view
from seamark.offsets.read.listing import OffsetList, _OwnerRows
from seamark.offsets.stores.topic import TopicStore
from seamark.report.data import OutputFormat, build_cell, render_json_value
from tests.fakes.offsets.large_list import measure
from tests.unit.changes.brokers import FakeBrokers
from tests.unit.cli.stubs import NOON, Outcome
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG, LivingConnect, open_living_fleet
from tests.unit.offsets.scans import FakeScan


class Desk:
    """Two sources, two sinks, a group, an orphan, and a topic with a damaged record."""

    def __init__(self, folder):
        self.folder = folder
        self.game, self.brokers, self.scan = LivingConnect(), FakeBrokers(), FakeScan()
        self.game.add("in", SOURCE_CONFIG)
        self.game.add("other", SOURCE_CONFIG)
        self.game.add("lake", SINK_CONFIG)
        self.game.add("idle", SINK_CONFIG)
        self.brokers.add_topic("t", partitions=2, records=10)
        self.brokers.add_group("connect-lake", {("t", 0): 4, ("t", 1): 5})
        self.brokers.add_group("billing", {("t", 0): 7})
        self.brokers.add_group("seamark-pipeline-raid", {("t", 0): 7})
        self.scan.put(("in", {"filename": "/b"}), {"position": 2})
        self.scan.put(("in", {"filename": "/a"}), {"position": 1})
        self.scan.put(("other", {"filename": "/o"}), {"position": 3})
        self.scan.put(("gone", {"filename": "/g"}), {"position": 4})

    def fleet(self):
        return open_living_fleet(self.folder, self.game, brokers=self.brokers, scan=self.scan)

    def run(self, *argv):
        out, err = io.StringIO(), io.StringIO()
        session = Session(out=out, err=err, now=lambda: NOON, open_fleet=lambda name: self.fleet())
        return Outcome(execute(("offsets", "list", *argv), session=session), out.getvalue(), err.getvalue())

    def rows(self, *argv):
        ended = self.run(*argv, "-o", "json")
        assert ended.code == 0, ended.err
        return [(item["owner"], item["offset"]) for item in json.loads(ended.out)["items"]]


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


EVERYTHING = [
    ("game/gone", {"position": 4}),
    ("game/in", {"position": 1}),
    ("game/in", {"position": 2}),
    ("game/lake", {"kafka_offset": 4}),
    ("game/lake", {"kafka_offset": 5}),
    ("game/other", {"position": 3}),
    ("group/billing", {"kafka_offset": 7}),
]


def test_every_owner_is_listed_from_one_scan_and_one_request(desk):
    asked = []
    read = desk.brokers.read_committed
    desk.brokers.read_committed = lambda groups, **how: asked.append(sorted(groups)) or read(groups, **how)
    assert desk.rows() == EVERYTHING
    assert desk.scan.reads == 1
    assert asked == [["billing", "connect-lake"]]
    assert desk.game.calls["read_connectors"] == 1


def test_an_item_has_its_store_its_record_and_its_age(desk):
    items = json.loads(desk.run("in", "lake", "-o", "json").out)["items"]
    source, sink = items[0], items[-1]
    written = source.pop("written"), source.pop("age_seconds")
    assert written[0].startswith("2023-11-14T22:13:2")
    assert written[1] > 0
    assert source == {
        "owner": "game/in",
        "partition": {"filename": "/a"},
        "offset": {"position": 1},
        "store": "topic connect-offsets",
        "record": source["record"],
        "findings": [],
    }
    assert source["record"].startswith("connect-offsets-")
    assert (sink["store"], sink["record"], sink["written"]) == ("group connect-lake", None, None)


@pytest.mark.parametrize(
    ("argv", "owners"),
    [
        (["in"], ["game/in", "game/in"]),
        (["game/o*"], ["game/other"]),
        (["group/billing", "lake"], ["game/lake", "game/lake", "group/billing"]),
        (["group/connect-lake"], ["group/connect-lake", "group/connect-lake"]),
        (["gone"], ["game/gone"]),
        (["idle"], []),
        (["--finding", "orphaned"], ["game/gone"]),
        (["in", "--finding", "orphaned"], []),
        (["none*"], []),
    ],
)
def test_owners_and_findings_are_chosen(desk, argv, owners):
    assert [owner for owner, _ in desk.rows(*argv)] == owners


def test_a_misspelled_owner_is_an_error(desk):
    ended = desk.run("lkae", "in", "-o", "name")
    assert (ended.code, ended.out) == (3, "game/in\ngame/in\n")
    assert "error: owner lkae does not exist" in ended.err


def test_findings_of_damaged_records_are_in_their_rows(desk):
    raw = encode_key("in", {"filename": "/a"})
    desk.scan.put(raw, {"position": 9}, partition=(desk.scan.log[1].partition + 1) % 5)
    desk.scan.put(b'["other", {"filename":"/o"}]', {"position": 8})
    desk.scan.put(b"not json", {"position": 8})
    items = json.loads(desk.run("-o", "json").out)["items"]
    found = {(item["owner"], json.dumps(item["partition"])): item["findings"] for item in items}
    assert found["game/in", '{"filename": "/a"}'] == ["misplaced"]
    assert found["game/in", '{"filename": "/b"}'] == []
    assert found["game/other", '{"filename": "/o"}'] == ["duplicate-encoding", "unreadable-key"]
    assert [names for (_, partition), names in found.items() if partition == "null"] == [["bad-key"]]
    assert [owner for owner, _ in desk.rows("--finding", "misplaced")] == ["game/in"]


def test_an_open_transaction_is_noted(desk):
    desk.scan.held_back = {1: (5, 9)}
    assert "an open transaction hides offsets 5 to 8" in json.loads(desk.run("-o", "json").out)["notes"][0]
    assert "! connect-offsets-1: an open transaction hides" in desk.run().out


def test_without_connect_nothing_is_called_orphaned_and_the_rest_is_listed(desk):
    desk.game.failing["read_connectors", ""] = UnreachableError("down")
    ended = desk.run("-o", "json")
    assert ended.code == 3
    items = json.loads(ended.out)["items"]
    assert {item["owner"] for item in items} == {
        "game/gone",
        "game/in",
        "game/other",
        "group/billing",
        "group/connect-lake",
    }
    assert all(item["findings"] == [] for item in items)


def test_a_source_with_a_topic_of_its_own_is_listed_from_there(desk):
    desk.game.add("own", {**SOURCE_CONFIG, "offsets.storage.topic": "own-offsets"})
    desk.scan.put(("own", {"filename": "/own"}), {"position": 5})
    own = FakeScan("own-offsets").put(("own", {"filename": "/own"}), {"position": 6})
    fleet = desk.fleet()
    fleet._open_scan = lambda config, topic, committed: own if topic == "own-offsets" else desk.scan
    desk.fleet = lambda: fleet
    (item,) = json.loads(desk.run("own", "-o", "json").out)["items"]
    assert (item["offset"], item["store"], item["findings"]) == (
        {"position": 6},
        "topic own-offsets",
        ["copy-differs"],
    )


def test_every_format_has_the_same_rows(desk):
    assert desk.run("-o", "name").out.split() == [owner for owner, _ in EVERYTHING]
    sheet = list(csv.DictReader(io.StringIO(desk.run("-o", "csv").out)))
    assert [(row["owner"], json.loads(row["offset"])) for row in sheet] == EVERYTHING
    table = desk.run().out.splitlines()
    assert table[0].split() == ["OWNER", "PARTITION", "OFFSET", "STORE", "WRITTEN", "FINDINGS"]
    assert len(table) == 1 + len(EVERYTHING)
    assert table[4].split()[:3] == ["game/lake", "t-0", "4"]
    shown = desk.run("-o", "yaml").out
    assert shown.count("  - owner: ") == len(EVERYTHING)
    assert shown.endswith("notes: []\nfailures: []\n")


def test_a_record_time_after_the_year_9999_is_listed(desk):
    desk.scan.put(("in", {"filename": "/c"}), {"position": 9})
    desk.scan.log[-1] = desk.scan.log[-1]._replace(timestamp_ms=2**62)
    items = json.loads(desk.run("in", "-o", "json").out)["items"]
    (written,) = (item["written"] for item in items if item["partition"] == {"filename": "/c"})
    assert written.startswith("9999-12-31T23:59:")
    assert "/c" in desk.run("in").out


def test_an_empty_list_is_a_whole_document(desk):
    assert json.loads(desk.run("none*", "-o", "json").out)["items"] == []
    assert "items: []\n" in desk.run("none*", "-o", "yaml").out
    assert desk.run("none*").err == "no offsets\n"


NAMES = st.text("ab.,:{}", max_size=4)
# What Connect writes in plain JSON, but for some decimals.
PLAIN = st.one_of(NAMES, st.integers(-(10**18) + 1, 10**18 - 1), st.booleans(), st.none())


@settings(deadline=None)
@example({"table": ":a,", ",": "", ":": 1}, {"a": 1e10, "b": 0.5, "c": ","})
@given(
    st.dictionaries(NAMES, PLAIN, max_size=4),
    st.dictionaries(NAMES, st.one_of(PLAIN, st.floats(0, 1e17, allow_subnormal=False)), max_size=4),
)
def test_copied_json_is_what_encoding_it_again_gives(partition, offset):
    scan = FakeScan().put(("in", partition), offset)
    plain, _ = TopicStore(scan).read_plain(lambda name: True)
    assume(plain)
    (row,) = OffsetList({"game/in": [_OwnerRows("topic t", plain=plain)]})
    assert row.written is not None
    columns = build_list_view(OffsetList({})).listing.columns
    for column in columns:
        assert column.choose_json()(row) == render_json_value(column.value(row)), column.key
        assert column.choose_cell()(row) == build_cell(column.value(row)), column.key


@pytest.mark.parametrize("form", [OutputFormat.JSON, OutputFormat.CSV, OutputFormat.TABLE])
def test_fifty_thousand_offsets_stay_within_a_tenth_of_the_bounds(form):
    # A tenth of 15 s and 600 MiB for 500,000; the time is generous, because the machine may be busy.
    seconds, mebibytes, _ = measure(form, connectors=1000)
    assert mebibytes < 60
    assert seconds < 4
