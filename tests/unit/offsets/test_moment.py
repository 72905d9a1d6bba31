"""Back to a moment: whose word counts, what it is worth, who is refused, and that a bound never skips."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from seamark.changes.journal import EntryKind
from seamark.changes.plan import Plan
from seamark.core.offsets import Offset
from seamark.errors import NotFoundError, RefusedError, UnsupportedError, UsageError
from seamark.kafka.groups import Committed
from seamark.offsets.exports import OffsetExport, OwnerExport
from seamark.offsets.read.export_file import build_document, write_export
from seamark.offsets.restore.observations import build_observations, read_exports
from seamark.offsets.write.steps import WriteOffsets
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG
from tests.unit.offsets.moving import Place

FILE = {"filename": "/in"}
# The writes of the scan are a second apart: 22:13:20, 22:13:21 …
FIRST = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
BETWEEN = FIRST + timedelta(milliseconds=500)
LONG_AGO = FIRST - timedelta(days=1)


def spot(number, topic="t"):
    return {"kafka_topic": topic, "kafka_partition": number}


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    made.game.add("fs", SOURCE_CONFIG)
    made.scan.put(("fs", FILE), {"position": 40}).put(("fs", FILE), {"position": 100})
    made.game.add("lake", SINK_CONFIG)
    made.brokers.add_topic("t", partitions=2, records=10, starts={0: 2})
    made.brokers.add_group("connect-lake", {("t", 0): 8, ("t", 1): 6})
    with made.fleet:
        yield made


def save(folder, offsets, *, time=LONG_AGO, name="old.json", context="dev", topics=None):
    """An export of a sink or a source, as if it had been taken then."""
    owners = tuple(OwnerExport(owner, tuple(held)) for owner, held in offsets.items())
    export = OffsetExport(time.strftime("%Y-%m-%dT%H:%M:%SZ"), {"context": context}, owners, topics=topics or {})
    write_export(export, folder / name)
    return folder / name


def lake_at(*numbers):
    return {"game/lake": [Offset(spot(n), {"kafka_offset": at}) for n, at in enumerate(numbers) if at is not None]}


def targets(planned):
    return {
        (step.subject, json.dumps(one["partition"])): one["offset"]
        for step in planned.plan.steps
        if step.kind == "write-offsets"
        for one in step.arguments["offsets"]
    }


def let_pass():
    """A moment that is over when the next thing happens."""
    moment = datetime.now(UTC)
    while datetime.now(UTC) - moment < timedelta(milliseconds=5):
        pass
    return moment


def lines(planned):
    return {effect.subject: effect.words for effect in planned.effects}


def test_sources_and_sinks_go_back_in_one_plan_and_say_whose_word_it_is(place, tmp_path):
    export = save(tmp_path, lake_at(3, 2))
    planned = place.fleet.offsets.restore(BETWEEN, ["fs", "lake"], exports=[export])
    assert list(targets(planned).values()) == [{"position": 40}, {"kafka_offset": 3}, {"kafka_offset": 2}]
    said = lines(planned)
    assert "60 bytes reprocessed; exact: offsets-" in said["connector/game/fs"]
    assert said["connector/game/fs"].endswith("2023-11-14T22:13:20Z")
    assert "lower bound: export old.json" in said["connector/game/lake"]
    assert {step.lane for step in planned.plan.steps} == {"connector/game/fs", "connector/game/lake"}
    result = place.apply(planned)
    assert place.held("fs") == [{"position": 40}]
    assert place.held("lake") == [{"kafka_offset": 3}, {"kafka_offset": 2}]
    place.apply(place.fleet.undo(result.change))
    assert place.held("lake") == [{"kafka_offset": 8}, {"kafka_offset": 6}]


def test_all_and_globs(place, tmp_path):
    export = save(tmp_path, lake_at(3, 2))
    for who in ({"everything": True}, {"owners": ["f*", "la*"]}):
        planned = place.fleet.offsets.restore(BETWEEN, exports=[export], **who)
        assert set(lines(planned)) == {"connector/game/fs", "connector/game/lake"}
    with pytest.raises(UsageError, match="no owner given"):
        place.fleet.offsets.restore(BETWEEN)
    with pytest.raises(NotFoundError):
        place.fleet.offsets.restore(BETWEEN, ["x*"])


def test_who_is_unknown_is_refused_by_name_unless_left_out(place):
    with pytest.raises(RefusedError, match="1 of 2 owners") as refused:
        place.fleet.offsets.restore(BETWEEN, ["fs", "lake"])
    assert "no history of game/lake" in refused.value.cause
    assert "--by-record-time" in refused.value.hint
    planned = place.fleet.offsets.restore(BETWEEN, ["fs", "lake"], skip_unknown=True)
    assert set(lines(planned)) == {"connector/game/fs"}
    assert any(note.startswith("game/lake is not changed: no history") for note in planned.plan.notes)
    with pytest.raises(RefusedError, match="2 of 2"):
        place.fleet.offsets.restore(LONG_AGO, ["fs", "lake"], skip_unknown=True)


def test_a_moment_that_is_yet_to_come_is_refused(place):
    with pytest.raises(UsageError, match="in the future"):
        place.fleet.offsets.restore(datetime.now(UTC) + timedelta(hours=1), ["fs"])


def test_by_record_time_a_sink_stood_there_or_before(place):
    # Record N of the log is of second N after the epoch.
    planned = place.fleet.offsets.restore("1970-01-01T00:00:05Z", ["lake"], by_record_time=True)
    assert list(targets(planned).values()) == [{"kafka_offset": 5}, {"kafka_offset": 5}]
    assert "upper bound: the first record of that time or later" in str(planned)
    # It stands before that already: nothing is skipped.
    planned = place.fleet.offsets.restore("1970-01-01T00:00:07Z", ["lake"], by_record_time=True)
    assert list(targets(planned).values()) == [{"kafka_offset": 7}]
    assert any(
        "t-1" in note and "the current offset is lower, and is not changed" in note for note in planned.plan.notes
    )


def test_a_bound_never_skips_and_an_exact_word_may(place, tmp_path):
    export = save(tmp_path, lake_at(9, 2))
    planned = place.fleet.offsets.restore(BETWEEN, ["lake"], exports=[export])
    assert list(targets(planned).values()) == [{"kafka_offset": 2}]
    place.scan.put(("fs", FILE), {"position": 10})
    planned = place.fleet.offsets.restore(FIRST + timedelta(seconds=1), ["fs"])
    assert list(targets(planned).values()) == [{"position": 100}]


def test_a_sink_that_stands_where_it_stood_is_exact_and_left_alone(place, tmp_path):
    export = save(tmp_path, lake_at(8, 6))
    planned = place.fleet.offsets.restore(BETWEEN, ["lake"], exports=[export])
    assert planned.is_empty
    assert any("game/lake already has these offsets: exact" in note for note in planned.plan.notes)


def test_the_newest_export_by_then_counts_and_one_that_is_younger_does_not(place, tmp_path):
    folder = tmp_path / "exports"
    folder.mkdir()
    save(folder, lake_at(3, 3), name="a.json")
    save(folder, lake_at(4, 4), name="b.json", time=LONG_AGO + timedelta(hours=1))
    save(folder, lake_at(5, 5), name="c.json", time=BETWEEN + timedelta(hours=1))
    save(folder, lake_at(1, 1), name="d.json", time=LONG_AGO + timedelta(hours=2), context="prod")
    (folder / "bare.json").write_text('{"lake": []}')
    planned = place.fleet.offsets.restore(BETWEEN, ["lake"], exports=[folder])
    assert list(targets(planned).values()) == [{"kafka_offset": 4}, {"kafka_offset": 4}]
    notes = " ".join(planned.plan.notes)
    assert "bare.json was ignored" in notes
    assert "d.json was ignored: it was created in context prod" in notes
    with pytest.raises(UsageError, match="is not usable with --exports"):
        place.fleet.offsets.restore(BETWEEN, ["lake"], exports=[folder / "bare.json"])


def test_an_export_that_was_changed_is_refused(place, tmp_path):
    path = save(tmp_path, lake_at(3, 2))
    path.chmod(0o600)
    path.write_text(path.read_text().replace('"kafka_offset": 3', '"kafka_offset": 1'))
    with pytest.raises(RefusedError, match="was changed after it was exported"):
        place.fleet.offsets.restore(BETWEEN, ["lake"], exports=[path])


def test_what_an_export_does_not_hold_was_not_held(place, tmp_path):
    export = save(tmp_path, lake_at(3, None))
    planned = place.fleet.offsets.restore(BETWEEN, ["lake"], exports=[export])
    assert list(targets(planned).values()) == [{"kafka_offset": 3}, {"kafka_offset": 0}]


def test_it_stays_within_the_log_and_says_so(place, tmp_path):
    export = save(tmp_path, lake_at(1, 2))
    planned = place.fleet.offsets.restore(BETWEEN, ["lake"], exports=[export])
    assert list(targets(planned).values()) == [{"kafka_offset": 2}, {"kafka_offset": 2}]
    assert any("1 is outside of the log (2 to 10): 2 is used instead" in note for note in planned.plan.notes)


@pytest.mark.parametrize("case", ["id", "end", "younger", "gone"])
def test_a_topic_that_was_made_anew_is_a_refusal_with_the_reason(place, tmp_path, case):
    topics = {"t": "id-0"} if case == "id" else {"t": "id-1"}
    export = save(tmp_path, lake_at(12 if case == "end" else 3, 2), topics=topics)
    if case == "younger":
        place.brokers.topics["t"].starts = {}
        place.brokers.topics["t"].logs[0] = [round((FIRST.timestamp() + n) * 1000) for n in range(10)]
    if case == "gone":
        del place.brokers.topics["t"]
    with pytest.raises(UnsupportedError, match="topic t was recreated") as refused:
        place.fleet.offsets.restore(BETWEEN, ["lake"], exports=[export])
    why = {
        "id": "its topic ID was id-0",
        "end": "the log ends at 10",
        "younger": "first record of t-0",
        "gone": "does not exist",
    }
    assert why[case] in refused.value.cause


def test_the_journal_saw_what_was_held_before_and_after_a_change(place):
    before = datetime.now(UTC)
    result = place.apply(place.fleet.offsets.move("lake", to=4))
    after = let_pass()
    # The sink reads on, and only the journal knows of the 4.
    place.brokers.groups["connect-lake"].offsets[("t", 0)] = Committed(9)
    planned = place.fleet.offsets.restore(after, ["lake"], partitions=["t:0"])
    assert list(targets(planned).values()) == [{"kafka_offset": 4}]
    assert f"lower bound: after change {result.change}" in str(planned)
    with pytest.raises(UnsupportedError, match="no history"):
        place.fleet.offsets.restore(before - timedelta(seconds=1), ["lake"])
    # Where it did not read on, it stood there all the while.
    planned = place.fleet.offsets.restore(after, ["lake"], partitions=["t:1"])
    assert planned.is_empty
    assert "already has these offsets: exact" in " ".join(planned.plan.notes)


def test_a_change_in_the_group_of_a_sink_was_seen_too(place, tmp_path):
    """Before 3.6 sinks are moved in their groups. Without that word it stood at 8 before and after, so all along."""
    place.game.version = "3.5.2"
    export = save(tmp_path, lake_at(8, 6))
    result = place.apply(place.fleet.offsets.move("lake", to=4, wait_seconds=0))
    after = let_pass()
    place.apply(place.fleet.undo(result.change))
    assert place.held("lake") == [{"kafka_offset": 8}, {"kafka_offset": 6}]
    planned = place.fleet.offsets.restore(after, ["lake"], exports=[export])
    assert list(targets(planned).values()) == [{"kafka_offset": 4}, {"kafka_offset": 4}]
    assert f"exact: after change {result.change}" in str(planned)


def test_a_group_that_was_deleted_held_nothing_then(place, tmp_path):
    place.brokers.add_group("g", {("t", 0): 8})
    export = save(tmp_path, {"group/g": [Offset(spot(0), {"kafka_offset": 8})]})
    result = place.apply(place.fleet.groups.delete("g"))
    after = let_pass()
    place.apply(place.fleet.undo(result.change))
    assert place.held("group/g") == [{"kafka_offset": 8}]
    planned = place.fleet.offsets.restore(after, ["group/g"], exports=[export])
    assert not planned.is_empty
    assert f"exact: after change {result.change}" in str(planned)
    # Who holds nothing begins at the first record.
    place.apply(planned)
    assert place.held("group/g") == [{"kafka_offset": 2}]


def test_a_write_that_was_repeated_is_no_word_on_the_half_of_it():
    partition = json.dumps(FILE)
    step = WriteOffsets("game", "fs", (Offset(FILE, {"position": 4}),)).to_data()
    plan = Plan("t", "dev", "2023-11-14T22:00:00Z", "me", steps=(step,))
    intent = {
        "step": 0,
        "before": {"offsets": {partition: '{"position":8}'}},
        "after": {"offsets": {partition: '{"position":4}'}},
        "extra": None,
    }
    bodies = [
        (EntryKind.OPEN, {"plan": plan.to_dict()}),
        (EntryKind.INTENT, intent),
        (EntryKind.INTENT, intent),
        (EntryKind.OUTCOME, {"step": 0, "outcome": "done"}),
    ]
    entries = [
        SimpleNamespace(kind=kind, body=body, at=f"2023-11-14T22:00:0{number}Z", change="c")
        for number, (kind, body) in enumerate(bodies)
    ]
    seen = [(one.offset, one.at_ms) for _, one in build_observations(entries)]
    first = round(datetime(2023, 11, 14, 22, 0, 1, tzinfo=UTC).timestamp() * 1000)
    assert seen == [({"position": 8}, first), ({"position": 4}, first + 2000)]


def test_groups_go_back_too(place, tmp_path):
    place.brokers.add_group("g", {("t", 0): 8})
    held = {"group/g": [Offset(spot(0), {"kafka_offset": 5})]}
    planned = place.fleet.offsets.restore(BETWEEN, ["group/g"], exports=[save(tmp_path, held)])
    assert "3 records reprocessed, 0 records skipped; lower bound" in str(planned)
    place.apply(planned)
    assert place.held("group/g") == [{"kafka_offset": 5}]
    planned = place.fleet.offsets.restore("1970-01-01T00:00:07Z", ["group/g"], by_record_time=True)
    assert planned.is_empty
    assert planned.plan.notes == ("group/g, t-0: the current offset is lower, and is not changed",)


def test_what_was_forgotten_then_is_forgotten_and_what_nobody_can_read_is_not(place):
    place.scan.put(("fs", FILE), None).put(("fs", FILE), {"position": 7})
    planned = place.fleet.offsets.restore(FIRST + timedelta(seconds=2), ["fs"])
    assert list(targets(planned).values()) == [None]
    place.scan.put(("fs", FILE), b"what?").put(("fs", FILE), {"position": 9})
    planned = place.fleet.offsets.restore(FIRST + timedelta(seconds=4), ["fs"])
    assert list(targets(planned).values()) == [{"position": 7}]
    assert "; lower bound: " in str(planned)


def test_a_source_out_of_the_journal_where_its_topic_was_compacted(place):
    place.apply(place.fleet.offsets.move("fs", to=70))
    after = let_pass()
    # Its later writes have pushed out the one of the change.
    del place.scan.log[:]
    place.scan.put(("fs", FILE), {"position": 500})
    last = place.scan.log[-1]
    place.scan.log[-1] = last._replace(timestamp_ms=round(after.timestamp() * 1000) + 60_000)
    planned = place.fleet.offsets.restore(after, ["fs"])
    assert list(targets(planned).values()) == [{"position": 70}]
    assert "lower bound: after change" in str(planned)


def test_an_export_of_a_topic_that_was_made_anew_is_not_imported(place, tmp_path):
    export = place.fleet.offsets.export(["fs", "lake"])
    write_export(export, tmp_path / "now.json")
    assert place.fleet.offsets.import_file(tmp_path / "now.json").is_empty
    write_export(replace(export, topics={"t": "id-0"}), tmp_path / "then.json")
    with pytest.raises(RefusedError, match="1 of 2 owners") as refused:
        place.fleet.offsets.import_file(tmp_path / "then.json")
    assert "game/lake: topic t was recreated or belongs to another Kafka cluster" in refused.value.cause
    assert "the topic ID of t is id-1, the file has id-0" in refused.value.cause
    assert place.fleet.offsets.import_file(tmp_path / "then.json", owners=["fs"]).is_empty


def test_an_export_tells_the_ids_of_its_topics(place, tmp_path):
    export = place.fleet.offsets.export(["fs", "lake"])
    assert export.topics == {"t": "id-1"}
    write_export(export, tmp_path / "now.json")
    (read,), _ = read_exports([tmp_path / "now.json"], context="dev")
    assert read.topics == {"t": "id-1"}
    # Older exports have none, and are good all the same.
    document = build_document(export)
    assert document["topics"] == {"t": "id-1"}
