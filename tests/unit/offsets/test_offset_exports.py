"""Exports, their files, comparisons, history and orphans."""

from __future__ import annotations

import json
import stat
from contextlib import suppress

import pytest

from seamark.core.offsets import Offset
from seamark.errors import (
    AlreadyExistsError,
    FormatVersionError,
    NotFoundError,
    RefusedError,
    UnreachableError,
    UnsupportedError,
    UsageError,
)
from seamark.kafka.groups import Committed
from seamark.offsets.exports import DifferenceKind
from seamark.offsets.read.export import build_comparison, read_side
from seamark.offsets.read.export_file import check_export, read_export, write_export
from tests.unit.fleet.builders import connector, sink
from tests.unit.offsets.test_offsets import FILE, OWN, SINK_OFFSET, Environment, fs, topic

SPACED = b'["fs", {"filename": "/tmp/in.txt"}]'


def make_world():
    scan = topic(fs(4), fs(8), fs(1, "gone"), (("dead", {"k": 1}), {"v": 1}), (("dead", {"k": 1}), None))
    return Environment(connector("fs"), sink("lake"), topics=[scan], groups={"connect-lake": {("t", 0): Committed(5)}})


def by_owner(export):
    return {found.owner: found.offsets for found in export.owners}


def test_all_has_sources_sinks_and_what_the_gone_have_left():
    world = make_world()
    export = world.fleet.offsets.export(everything=True)
    assert by_owner(export) == {
        "game/dead": (),
        "game/fs": (FILE,),
        "game/gone": (Offset(FILE.partition, {"position": 1}),),
        "game/lake": (SINK_OFFSET,),
    }
    assert export.failures == {}
    # A tombstone is a record too.
    assert [len(found.records) for found in export.owners] == [1, 1, 1, 1]
    assert world.topics["game-offsets"].reads == 1
    assert export.source["context"] == "dev"


def test_named_owners_alone():
    export = make_world().fleet.offsets.export(["fs", "game/lake", "group/connect-lake"])
    assert set(by_owner(export)) == {"game/fs", "game/lake", "group/connect-lake"}


@pytest.mark.parametrize(("owners", "everything"), [([], False), (["fs"], True)])
def test_it_must_be_said_whose(owners, everything):
    with pytest.raises(UsageError):
        make_world().fleet.offsets.export(owners, everything=everything)


def test_an_own_topic_replaces_the_copy():
    world = Environment(connector("fs", config=OWN), topics=[topic(fs(8), name="mine"), topic(fs(6))])
    export = world.fleet.offsets.export(everything=True)
    assert by_owner(export) == {"game/fs": (FILE,)}
    assert [found.anomaly for found in export.findings] == ["copy-differs"]
    assert export.owners[0].records[0].store == "topic mine"


def test_workers_that_are_down_leave_their_topic_readable():
    world = make_world()
    world.client.connectors = UnreachableError("no worker answers")
    export = world.fleet.offsets.export(everything=True)
    assert set(by_owner(export)) == {"game/dead", "game/fs", "game/gone"}
    assert list(export.failures) == ["connectors of game"]


def test_a_value_that_nobody_can_read_is_a_record_and_no_offset():
    scan = topic(fs(8))
    scan.put(("fs", {"filename": "b"}), b"position=4")
    (found,) = Environment(connector("fs"), topics=[scan]).fleet.offsets.export(["fs"]).owners
    assert found.offsets == (FILE,)
    assert {record.value for record in found.records} == {b'{"position":8}', b"position=4"}


# --- the file


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "offsets.json"
    scan = topic(fs(8))
    scan.put(SPACED, {"position": 4})
    world = Environment(connector("fs"), sink("lake"), topics=[scan], groups={"connect-lake": {("t", 0): Committed(5)}})
    write_export(world.fleet.offsets.export(everything=True), path)
    return path


def test_the_file_has_the_envelope_and_the_shape(file):
    body = json.loads(file.read_text())
    assert (body["apiVersion"], body["kind"], body["format_version"]) == ("seamark/v1", "OffsetExport", 1)
    assert body["offsets"]["game/fs"] == [{"partition": {"filename": "/tmp/in.txt"}, "offset": {"position": 8}}]
    assert len(body["records"]["game/fs"]) == 2
    assert {found["finding"] for found in body["findings"]} == {"duplicate-encoding", "unreadable-key"}
    assert set(body["checksums"]) == {"game/fs", "game/lake"}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_file_is_read_back_and_is_well(file):
    export, problems = read_export(file)
    assert problems == ()
    assert by_owner(export) == {"game/fs": (FILE,), "game/lake": (SINK_OFFSET,)}
    found = check_export(file)
    assert (found.owners, found.offsets, found.records, found.findings, found.problems) == (2, 2, 3, 2, ())


def test_each_offset_and_record_has_its_line(tmp_path):
    scan = topic(fs(8))
    # Texts that look like the border between two items.
    for text in ('}, {"partition": ', '"}, {"store": "', '\\"}, {"partition": \\'):
        scan.put(("fs", {"filename": text}), {"position": text})
    path = tmp_path / "o"
    export = Environment(connector("fs"), topics=[scan]).fleet.offsets.export(["fs"])
    write_export(export, path)
    back, problems = read_export(path)
    assert (problems, by_owner(back)) == ((), by_owner(export))
    assert len(back.owners[0].offsets) == 4
    lines = path.read_text().splitlines()
    assert sum(line.startswith('  {"partition": ') for line in lines) == 4
    assert sum(line.startswith('  {"store": ') for line in lines) == 4


def test_no_file_is_ever_replaced(file):
    before = file.read_bytes()
    with pytest.raises(AlreadyExistsError):
        write_export(make_world().fleet.offsets.export(["fs"]), file)
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == ["offsets.json"]


def spoil(file, change):
    body = json.loads(file.read_text())
    change(body)
    file.chmod(0o600)
    file.write_text(json.dumps(body))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            lambda body: body["offsets"]["game/fs"][0]["offset"].update(position=9),
            "game/fs: the checksum of its offsets and records",
        ),
        (lambda body: body["records"]["game/lake"].pop(), "game/lake: the checksum of its offsets and records"),
        (lambda body: body["offsets"].pop("game/fs"), "game/fs: offsets, records or checksum missing"),
        (lambda body: body.update(time="2020-01-01T00:00:00Z"), "the checksum of the fields beside the offsets"),
        (lambda body: body.update(checksum="sha256:0"), "the checksum of the fields beside the offsets"),
    ],
)
def test_what_was_changed_is_named(file, change, problem):
    spoil(file, change)
    problems = check_export(file).problems
    assert any(problem in one for one in problems), problems


def test_every_byte_that_is_flipped_is_noticed(file):
    data = file.read_bytes()
    clean = json.loads(data)
    noticed = 0
    for at in range(0, len(data), 7):
        file.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        try:
            changed = json.loads(file.read_bytes()) != clean
        except ValueError:
            changed = True
        if not changed:
            continue
        noticed += 1
        with suppress(UsageError, FormatVersionError):
            assert check_export(file).problems, at
    assert noticed > 100


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"kind":"OffsetExport","format_version":1}', "\x00", "[" * 100_000])
def test_what_is_no_export_is_refused(tmp_path, text):
    path = tmp_path / "x"
    path.write_text(text)
    with pytest.raises(UsageError):
        check_export(path)


def test_offsets_that_no_record_says_are_named(file):
    import hashlib  # noqa: PLC0415

    def digest(body):
        text = json.dumps(body, sort_keys=True, separators=(",", ":"))
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    def lie(body):
        body["offsets"]["game/fs"][0]["offset"]["position"] = 9
        body["checksums"]["game/fs"] = digest([body["offsets"]["game/fs"], body["records"]["game/fs"]])
        rest = {name: value for name, value in body.items() if name not in ("offsets", "records", "checksum")}
        body["checksum"] = digest(rest)

    spoil(file, lie)
    (problem,) = check_export(file).problems
    assert "no record contains" in problem


# --- comparing


def test_a_file_and_what_is_held_now(file):
    world = Environment(
        connector("fs"), sink("lake"), topics=[topic(fs(9))], groups={"connect-lake": {("t", 0): Committed(5)}}
    )
    found = world.fleet.offsets.compare(file)
    (one,) = found.differences
    assert (one.owner, one.difference, one.before, one.after) == (
        "game/fs",
        DifferenceKind.CHANGED,
        {"position": 8},
        {"position": 9},
    )
    assert (found.equal, found.after) == (1, "now")


def test_a_connector_that_is_gone_is_compared_with_what_it_left(file):
    world = Environment(topics=[topic(fs(8))])
    (one,) = world.fleet.offsets.compare(file).differences
    assert (one.owner, one.difference) == ("game/lake", DifferenceKind.REMOVED)


def test_added_removed_and_types():
    a = {"c": (Offset({"k": 1}, {"v": 1}), Offset({"k": 2}, {"v": 1}), Offset({"k": 4}, None))}
    b = {"c": (Offset({"k": 1}, {"v": 1.0}), Offset({"k": 3}, {"v": 1}))}
    found = build_comparison(a, b, names=("a", "b"))
    assert [(one.difference, dict(one.partition)) for one in found.differences] == [
        (DifferenceKind.CHANGED, {"k": 1}),
        (DifferenceKind.REMOVED, {"k": 2}),
        (DifferenceKind.ADDED, {"k": 3}),
    ]


def test_bare_json_is_a_side_and_a_spoiled_export_is_none(tmp_path, file):
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps({"fs": [{"partition": dict(FILE.partition), "offset": dict(FILE.offset)}]}))
    assert read_side(bare) == {"fs": (FILE,)}
    for text in ('{"fs": 1}', '{"fs": [{"partition": {}}]}', "[1]", '{"fs": [{"partition": 1, "offset": null}]}'):
        bare.write_text(text)
        with pytest.raises(UsageError):
            read_side(bare)
    spoil(file, lambda body: body["offsets"]["game/fs"][0]["offset"].update(position=9))
    with pytest.raises(RefusedError):
        read_side(file)


# --- history and orphans


def test_history_is_a_timeline_over_partitions():
    scan = topic(fs(4), (("fs", {"filename": "b"}), {"position": 1}), fs(8), fs(None), fs(9, "other"))
    entries = Environment(connector("fs"), topics=[scan]).fleet.offsets.history("fs")
    assert [entry.offset for entry in entries] == [{"position": 4}, {"position": 1}, {"position": 8}, None]
    times = [entry.evidence.timestamp_ms for entry in entries]
    assert times == sorted(times)
    assert entries[-1].evidence.is_tombstone


def test_the_gone_have_a_history_and_sinks_have_none():
    world = make_world()
    assert [entry.offset for entry in world.fleet.offsets.history("gone")] == [{"position": 1}]
    with pytest.raises(UnsupportedError) as caught:
        world.fleet.offsets.history("lake")
    assert "group connect-lake" in caught.value.cause


def test_orphans_are_those_that_no_cluster_has():
    reading = make_world().fleet.offsets.orphans()
    (orphan,) = reading.items
    assert (orphan.owner, orphan.store) == ("game/gone", "topic game-offsets")
    assert orphan.offsets == (Offset(FILE.partition, {"position": 1}),)
    assert orphan.written_ms == 1_700_000_002_000


def test_nothing_is_an_orphan_where_the_workers_do_not_answer():
    world = make_world()
    world.client.connectors = UnreachableError("no worker answers")
    reading = world.fleet.offsets.orphans()
    assert reading.items == ()
    assert list(reading.failures) == ["game"]


def test_an_owner_that_is_nowhere_is_an_error():
    with pytest.raises(NotFoundError):
        make_world().fleet.offsets.export(["nobody"])
