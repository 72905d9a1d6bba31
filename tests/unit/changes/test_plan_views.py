"""Plans, results and the journal as people and programs get them."""

from __future__ import annotations

import json

import pytest

from seamark.changes.effect import ChangeKind, Effect, FieldChange
from seamark.changes.journal import Ending, Entry, EntryKind, Head
from seamark.changes.journal_views import build_changes_view, build_entries_view, build_setup_view
from seamark.changes.outcome import ChangeResult, Outcome, StepResult
from seamark.changes.plan import Plan
from seamark.changes.setup import JournalSetup, SetupItem
from seamark.changes.step import StepData
from seamark.changes.views import build_change_view, build_plan_view
from seamark.errors import RejectedError
from seamark.report.data import OutputFormat
from seamark.report.listing import render_view
from seamark.report.text import Screen

PLAN = Plan(
    "change 3 connectors",
    context="dev",
    made_at="2026-11-14T12:04:31.000Z",
    made_by="ops@host:1",
    steps=(
        StepData("put-config", "connector/game/a", {"config": {"url": "jdbc:x://u:hunter2@h/d", "tasks.max": "4"}}),
    ),
    locks=("source.offsets.a@workers",),
    notes=("legacy: 3 source offsets stay in offsets",),
)
EFFECTS = (
    Effect(ChangeKind.CREATE, "connector/game/new", "create, RUNNING", (FieldChange("file", None, "/in"),)),
    Effect(
        ChangeKind.CHANGE,
        "connector/game/a",
        "restarts 2 tasks",
        (
            FieldChange("connection.password", "(sensitive)", "(sensitive)", is_sensitive=True),
            FieldChange("extra", None, "1"),
            FieldChange("gone", "x", None),
            FieldChange("tasks.max", "6", "4"),
        ),
        tasks=2,
    ),
    Effect(ChangeKind.DELETE, "connector/game/legacy", "delete: 1 task ends"),
)


def show(view, form=OutputFormat.TABLE, **screen):
    return render_view(view, form, Screen(**screen))


def test_a_plan_for_people():
    assert show(build_plan_view(PLAN, EFFECTS)).splitlines() == [
        "Plan for context dev: change 3 connectors",
        "  + connector/game/new      create, RUNNING",
        "  ~ connector/game/a        restarts 2 tasks",
        "      connection.password  (sensitive) changed",
        '      extra                (not set) → "1"',
        '      gone                 "x" → (removed)',
        '      tasks.max            "6" → "4"',
        "  - connector/game/legacy   delete: 1 task ends",
        "! legacy: 3 source offsets stay in offsets",
        "+ create  ~ change  - delete",
        "Plan: 1 to create, 1 to change, 1 to delete. 2 tasks start or restart.",
    ]


def test_a_preview_ends_with_no_changes_were_made():
    text = show(build_plan_view(PLAN, EFFECTS, is_preview=True))
    assert text.endswith("2 tasks start or restart. No changes were made.\n")
    empty = Plan("pause a", context="dev", made_at="", made_by="", steps=())
    assert "No changes were made" not in show(build_plan_view(empty, (), is_preview=True))


def test_signs_have_a_legend_if_there_are_several():
    assert show(build_plan_view(PLAN, EFFECTS[1:])).splitlines()[-2] == "~ change  - delete"
    assert show(build_plan_view(PLAN, EFFECTS[2:])).splitlines()[-2] == "! legacy: 3 source offsets stay in offsets"


def test_wide_shows_the_config_of_a_new_connector():
    assert '      file  (not set) → "/in"' in show(build_plan_view(PLAN, EFFECTS), OutputFormat.WIDE)


def test_long_values_are_cut_on_a_terminal_only():
    long = (
        Effect(ChangeKind.CHANGE, "connector/game/a", "restarts 1 task", (FieldChange("query", "x" * 300, "y" * 300),)),
    )
    assert max(map(len, show(build_plan_view(PLAN, long), width=80).splitlines()[2:3])) == 80
    assert "y" * 300 in show(build_plan_view(PLAN, long))


def test_a_plan_for_programs_holds_no_secret():
    document = json.loads(show(build_plan_view(PLAN, EFFECTS), OutputFormat.JSON))
    assert (document["kind"], document["format_version"], document["locks"]) == ("Plan", 3, list(PLAN.locks))
    assert [effect["action"] for effect in document["effects"]] == ["create", "change", "delete"]
    assert document["effects"][1]["fields"][3] == {"key": "tasks.max", "before": "6", "after": "4", "sensitive": False}
    assert "hunter2" not in json.dumps(document)


def test_an_empty_plan_says_so():
    empty = Plan("pause a", context="dev", made_at="", made_by="", steps=())
    assert show(build_plan_view(empty, ())) == (
        "Plan for context dev: pause a\nNo changes. Everything is as it should be.\n"
    )


def step(outcome, error=None):
    return StepResult(0, "set-run-state", "connector/game/a", "pause connector/game/a", outcome, error)


@pytest.mark.parametrize(
    ("ending", "steps", "left", "line"),
    [
        (Ending.DONE, [step(Outcome.DONE)], (), "✓ Change 01ID done in 9 s. Undo: seamark journal undo 01ID"),
        (Ending.DONE, [step(Outcome.NOTHING_TO_DO)], (), "✓ Change 01ID done in 9 s."),
        (
            Ending.PARTLY,
            [step(Outcome.DONE)],
            ("x",),
            "▲ Change 01ID partly done in 9 s: 1 of 2 steps. Undo: seamark journal undo 01ID",
        ),
        (Ending.FAILED, [step(Outcome.DID_NOT_HAPPEN)], (), "✗ Change 01ID failed in 9 s; no changes were made."),
        (None, [step(Outcome.UNKNOWN)], (), "? Change 01ID is still open."),
    ],
)
def test_the_last_line_of_a_change(ending, steps, left, line):
    result = ChangeResult("01ID", "t", ending, tuple(steps), left=left)
    assert show(build_change_view(result, seconds=9)) == f"{line}\n"


def test_a_change_for_programs_has_every_failure():
    result = ChangeResult("01ID", "t", Ending.FAILED, (step(Outcome.DID_NOT_HAPPEN, RejectedError("no")),))
    document = json.loads(show(build_change_view(result, seconds=0.1234), OutputFormat.JSON))
    assert (document["change"], document["ending"], document["seconds"]) == ("01ID", "failed", 0.123)
    assert document["steps"][0]["error"]["code"] == "REJECTED"
    assert show(build_change_view(ChangeResult("", "t", Ending.DONE, ()), seconds=0)) == "Nothing to do.\n"


def head(change="01ID", kind=EntryKind.CLOSE, ending="done"):
    return Head(change, "pause a", "ops@host:1", "T0", "T1", kind, 3, "h", ("l1", "l2"), "n0", "0 (x)", ending)


def test_changes_are_listed_with_their_state(snapshot):
    heads = [head("01C", EntryKind.INTENT, ""), head("01B", ending="partly"), head("01A", ending="failed"), head()]
    assert show(build_changes_view(heads)) == snapshot
    assert show(build_changes_view(heads), OutputFormat.WIDE) == snapshot
    assert show(build_changes_view(heads), OutputFormat.NAME) == "01C\n01B\n01A\n01ID\n"


def entry(number, kind, **body):
    return Entry("01ID", number, kind, f"T{number}", "ops@host:1", body)


def test_a_change_is_shown_entry_by_entry(snapshot):
    entries = [
        entry(0, EntryKind.OPEN, title="pause a", locks=["l1"], nonce="n0"),
        entry(1, EntryKind.INTENT, step=0, before={"config": {"a": "1"}}, after=None),
        entry(2, EntryKind.NOTE, step=0, note="still running"),
        entry(3, EntryKind.OUTCOME, step=0, outcome="did not happen", error={"message": "no"}),
        entry(4, EntryKind.TAKEN, nonce="n1"),
        entry(5, EntryKind.CLOSE, ending="partly", left=["do that"]),
    ]
    assert show(build_entries_view(entries)) == snapshot
    changed = entry(1, EntryKind.INTENT, step=0, before={"config": {"a": "1", "b": "2"}}, after={"config": {"a": "1"}})
    assert "step 0: config: b" in show(build_entries_view([entries[0], changed]))
    open_one = show(build_entries_view(entries[:-1]))
    assert "● open, held by ops@host:1" in open_one
    assert "seamark journal unlock --holder n1 01ID" in open_one
    document = json.loads(show(build_entries_view(entries), OutputFormat.JSON))
    assert (document["open"], len(document["entries"])) == (False, 6)


def test_the_setup_of_a_journal(snapshot):
    items = (
        SetupItem("j", is_there=True),
        SetupItem("j-heads", is_there=False, words="topic", settings={"cleanup.policy": "compact"}),
    )
    setup = JournalSetup("dev", "kafka", items, warnings=("j: retention.ms is 1",), access=("kafka-acls.sh …",))
    assert show(build_setup_view(setup)) == snapshot
