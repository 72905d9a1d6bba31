"""Every field of every kind of action and step, edited: the edit is refused, or the text of the plan shows it.

A plan file is refused by its registration, and a journal entry by its signature. These tests look behind that: they
edit as somebody could who has the journal's key.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import seamark.kafka.transaction
from seamark.changes.action import _KINDS
from seamark.changes.codec import _find_schema
from seamark.changes.file_journal import FileJournal
from seamark.changes.history import read_past
from seamark.changes.journal import Entry, EntryKind, Opening
from seamark.changes.plan import Plan, PlannedChange, build_tasks, read_plan_file
from seamark.changes.registration import check_expected
from seamark.changes.signing import SIGNATURE, KeyRing, SealKey, SignedJournal, _sign, check_signatures
from seamark.changes.step import Step
from seamark.dead_letters.records import SinkRecords
from seamark.dead_letters.steps import RECORDS
from seamark.errors import RefusedError, SeamarkError, TamperedJournalError, UsageError
from seamark.fleet.identity import check_coverage
from seamark.fleet.kinds import STEPS
from seamark.kafka.model import HeldRecord
from seamark.lifecycle.relocate import CopyOffsetRecords
from seamark.offsets.codec.codec import decode_key
from seamark.offsets.port import LEFT_OFFSETS, OFFSETS
from seamark.offsets.read.connector import ConnectorOffsets, OrphanedOffsets
from seamark.offsets.stores.topic import check_record_topic
from seamark.offsets.write.records import WriteRecords
from seamark.offsets.write.steps import WriteOffsets
from tests.unit.changes.example_plans import KINDS, Example, build_file, find_examples, open_example
from tests.unit.fleet.living import SOURCE_CONFIG
from tests.unit.json_edits import edit_everywhere, put_place, random_edits

EDITS = 2000
EXAMPLES = find_examples()
EACH = pytest.mark.parametrize(("kind", "scenario"), EXAMPLES, ids=[f"{kind}-{one.name}" for kind, one in EXAMPLES])
# What a plan file can't change: when and by whom it was made. `preconditions` are compared with what is there now.
NOT_DONE = {"made_at": "", "made_by": "", "preconditions": (), "id": "", "actions": ()}
# All examples together draw 2,000.
RANDOM = settings(
    max_examples=-(-EDITS // len(EXAMPLES)),
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
FORBIDDEN = ("connect-configs", "connect-status", "seamark-journal", "seamark-journal-heads", "__consumer_offsets")
# The scenarios replace both.
WRITE_OFFSETS, WRITE_LEFT = ConnectorOffsets.write, OrphanedOffsets.write


KEY = SealKey(b"the journal's key")
seal = KEY.seal


def describe(planned: PlannedChange) -> tuple[Any, ...]:
    """Return all that a plan does: its steps with their secrets, its locks, what is recorded of it."""
    return planned.steps, dataclasses.replace(planned.plan, **NOT_DONE)


def list_values(value: Any, kind: type) -> Iterator[Any]:
    """Yield every value of a class within dataclasses and tuples."""
    if isinstance(value, kind):
        yield value
    if dataclasses.is_dataclass(value):
        for one in dataclasses.fields(value):
            yield from list_values(getattr(value, one.name), kind)
    elif isinstance(value, tuple):
        for one in value:
            yield from list_values(one, kind)


def check_records(planned: PlannedChange, context: Any) -> None:
    """Fail if a step would write a record outside the topics of its connector, or under a key of another one."""
    topics = {one.offsets_topic for one in context.connect.values()}
    for step in [one for one in planned.steps if one.acts]:
        owners = {*getattr(step, "owners", ()), getattr(step, "name", "")}
        for record in list_values(step, HeldRecord):
            assert record.topic in topics, step
            assert decode_key(record.key).connector in owners, step
        if step.kind == "relocate-records":
            check_record_topic(step.target, context, is_for_offsets=True)
        if step.kind == "send-dead-letter":
            check_record_topic(step.topic, context)


class Oracle:
    """Decides for an edited plan file whether it is refused, shown, or without any effect."""

    def __init__(self, example: Example) -> None:
        self.example = example
        base = example.review(example.body)
        self.text, self.done = str(base), describe(base)
        check_records(base, example.changes._context)

    def judge(self, body: dict[str, Any], what: object) -> str:
        try:
            planned = self.example.review(body)
        except SeamarkError:
            return "refused"
        check_records(planned, self.example.changes._context)
        if str(planned) != self.text:
            return "shown"
        assert describe(planned) == self.done, f"the text doesn't show this edit: {what}"
        return "no effect"


def test_every_kind_of_action_has_an_example():
    assert {kind for kind in _KINDS if not kind.startswith("test-")} == set(KINDS)


def test_every_kind_of_step_is_in_an_example(tmp_path):
    seen: set[str] = set()
    for number, (kind, scenario) in enumerate(EXAMPLES):
        with open_example(kind, scenario, tmp_path / str(number)) as example:
            seen |= {step.kind for step in example.plan.steps}
    assert {kind for kind in STEPS if not kind.startswith("test-")} == seen


# --- saved plans


@EACH
def test_every_edit_of_an_action_is_refused_or_shown(kind, scenario, tmp_path):
    with open_example(kind, scenario, tmp_path / "x") as example:
        oracle, count = Oracle(example), Counter()
        action = example.body["actions"][example.place]
        assert {*_find_schema(_KINDS[kind]).codecs, "action"} == set(action)
        for edit in edit_everywhere(action):
            if edit.value != action:
                count[oracle.judge(example.replace_action(edit.value), edit[:2])] += 1
    assert count["refused"] > len(action)


@EACH
def test_random_edits_of_an_action_are_refused_or_shown(kind, scenario, tmp_path):
    with open_example(kind, scenario, tmp_path / "x") as example:
        oracle = Oracle(example)
        action = example.body["actions"][example.place]

        @given(edited=random_edits(action))
        @RANDOM
        def judge(edited: Any) -> None:
            oracle.judge(example.replace_action(edited), edited)

        judge()


@pytest.mark.parametrize("name", ["apply-update", "apply-pipeline", "connectors-rename", "offsets-move-source-to"])
def test_every_edit_of_the_rest_of_a_plan_is_refused_or_shown(name, tmp_path):
    kind, scenario = next(one for one in EXAMPLES if one[1].name == name)
    with open_example(kind, scenario, tmp_path / "x") as example:
        oracle, count = Oracle(example), Counter()
        body = example.body
        for edit in edit_everywhere({**body, "actions": None}):
            if not isinstance(edit.value, dict) or edit.path in (".actions", ".id"):
                continue
            count[oracle.judge({**edit.value, "actions": body["actions"]}, edit[:2])] += 1
        for actions in (body["actions"] * 2, [], None, body["actions"][0]):
            count[oracle.judge({**body, "actions": actions}, actions)] += 1
    assert count["refused"] > 20


def test_edited_file_without_a_registration_is_refused(fleet, game, tmp_path):
    game.add("a", SOURCE_CONFIG)
    path = tmp_path / "plan.json"
    fleet.save(fleet.connectors.set("a", {"tasks.max": "2"}), path)
    saved = json.loads(path.read_text())
    count = 0
    for edit in edit_everywhere({key: value for key, value in saved.items() if key != "sha256"}):
        if not isinstance(edit.value, dict):
            continue
        for content in (json.dumps({**edit.value, "sha256": saved["sha256"]}).encode(), build_file(edit.value)):
            path.write_bytes(content)
            with pytest.raises(SeamarkError):
                fleet.review(read_plan_file(path))
            count += 1
    assert count > 300
    assert game.writes == 0


def test_file_with_a_key_twice_is_refused(fleet, game, tmp_path):
    game.add("a", SOURCE_CONFIG)
    path = tmp_path / "plan.json"
    fleet.save(fleet.connectors.set("a", {"tasks.max": "2"}), path)
    saved = path.read_text()
    lines = [line for line in saved.splitlines() if '": ' in line]
    assert len(lines) > 20
    for line in lines:
        key, _, value = line.partition('": ')
        # The second one is what was saved: the content, and so its hash, is the same for a lenient parser.
        first = f'{key}": {json.dumps("innocent")},'
        twice = saved.replace(line, f"{first}\n{line}", 1)
        assert json.loads(twice) == json.loads(saved), value
        path.write_text(twice)
        with pytest.raises(UsageError) as caught:
            read_plan_file(path)
        assert "twice" in caught.value.cause


def test_edited_proposal_is_refused(tmp_path):
    kind, scenario = next(one for one in EXAMPLES if one[1].name == "apply-update")
    with open_example(kind, scenario, tmp_path / "x") as example:
        body = example.body
        check_expected(example.plan, Plan.from_dict(body))
        edited = [example.replace_action(edit.value) for edit in edit_everywhere(body["actions"][example.place])]
        for one in [*edited, {**body, "actions": body["actions"] * 2}, {**body, "actions": []}]:
            if one == body:
                continue
            try:
                plan = Plan.from_dict(one)
            except (SeamarkError, KeyError, TypeError, ValueError, AttributeError):
                continue
            if [action.to_dict() for action in plan.actions] == body["actions"]:
                # What is deleted was a default.
                continue
            with pytest.raises(RefusedError, match="differs from the expected one"):
                check_expected(example.plan, plan)


# --- journal entries


def build_entries(plan: Plan, folder: Path) -> tuple[Entry, ...]:
    """Return the signed entries of a change: opened, one step intended, done, and closed."""
    journal = SignedJournal(FileJournal(folder), lambda: KeyRing(KEY))
    body = {"plan": json.loads(json.dumps(plan.to_dict()))}
    writer = journal.begin(Opening("0" + "1" * 25, plan.title, "a@h:1", "2026-01-01T00:00:00Z", "n", ("x",), body))
    intent = {"step": 0, "before": {"state": "RUNNING"}, "after": {"state": "PAUSED"}, "extra": None}
    writer.append_all([(EntryKind.INTENT, intent), (EntryKind.OUTCOME, {"step": 0, "outcome": "done"})])
    writer.append(EntryKind.CLOSE, {"ending": "done"})
    writer.release()
    return journal.read("0" + "1" * 25)


@EACH
def test_every_edit_of_an_entry_is_refused(kind, scenario, tmp_path):
    with open_example(kind, scenario, tmp_path / "x") as example:
        entries = build_entries(example.plan, tmp_path / "j")
    check_signatures(entries, seal)
    for place, entry in enumerate(entries):
        signed = {key: value for key, value in entry.body.items() if key not in ("nonce", "signature")}
        for edit in edit_everywhere(signed):
            if not isinstance(edit.value, dict) or edit.value == signed:
                continue
            edited = dataclasses.replace(entry, body={**edit.value, "signature": entry.body["signature"]})
            with pytest.raises(TamperedJournalError):
                check_signatures([*entries[:place], edited], seal)


def find_steps(body: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the first step of each kind with its number."""
    seen: set[str] = set()
    for number, step in enumerate(body["plan"]["steps"]):
        if step["kind"] not in seen:
            seen.add(step["kind"])
            yield number, step


def put_step(body: dict[str, Any], number: int, step: Any) -> dict[str, Any]:
    return put_place(body, ("plan", "steps", number), step)


@EACH
def test_every_edit_of_a_step_that_is_signed_again_stays_with_its_action(kind, scenario, tmp_path):
    """Entries of a holder of the key: what is decoded belongs to its action and to the clusters of the plan."""
    seen: Counter[str] = Counter()
    with open_example(kind, scenario, tmp_path / "x") as example, pytest.MonkeyPatch.context() as patch:
        entries = build_entries(example.plan, tmp_path / "j")
        body = entries[0].body
        resume = Resume(example, entries, patch)
        assert resume.judge(body) == "decoded"
        for number, step in find_steps(body):
            assert {*_find_schema(STEPS[step["kind"]]).codecs} == set(step["arguments"])
            for edit in edit_everywhere(step):
                if edit.value != step:
                    seen[resume.judge(put_step(body, number, edit.value))] += 1
        steps = body["plan"]["steps"]
        for wrong in (steps[1:], [*steps, steps[0]], [], [{**one, "lane": "another"} for one in steps]):
            assert resume.judge(put_place(body, ("plan", "steps"), wrong)) == "refused"
        counts = body["plan"]["step_counts"]
        for wrong in ([*counts, 0], counts[1:], [counts[0] + 1, *counts[1:]], [str(counts[0])], [True]):
            if wrong != counts:
                assert resume.judge(put_place(body, ("plan", "step_counts"), wrong)) == "refused"
    assert seen["refused"] > 5


@EACH
def test_random_edits_of_entries_are_refused(kind, scenario, tmp_path):
    with open_example(kind, scenario, tmp_path / "x") as example, pytest.MonkeyPatch.context() as patch:
        entries = build_entries(example.plan, tmp_path / "j")
        body = entries[0].body
        resume = Resume(example, entries, patch)
        steps = [number for number, _ in find_steps(body)]

        @given(data=st.data())
        @RANDOM
        def judge(data: st.DataObject) -> None:
            number = data.draw(st.sampled_from(steps))
            edited = put_step(body, number, data.draw(random_edits(body["plan"]["steps"][number])))
            if json.dumps(edited, sort_keys=True) == json.dumps(body, sort_keys=True):
                return
            with pytest.raises(TamperedJournalError):
                check_signatures([dataclasses.replace(entries[0], body=edited)], seal)
            resume.judge(edited)

        judge()


class Resume:
    """Reads the entries of a change as `resume` does, after a holder of the key has edited and signed the first."""

    def __init__(self, example: Example, entries: tuple[Entry, ...], patch: pytest.MonkeyPatch) -> None:
        self.entries = entries
        self.context, self.world = example.changes._context, example.changes._world
        self.sent: list[HeldRecord] = []
        # Undone before the example's own patches: in the other order, its function would stay for later tests.
        patch.setattr(
            seamark.kafka.transaction, "write_records", lambda config, records, **_: self.sent.extend(records)
        )

    def judge(self, body: dict[str, Any]) -> str:
        try:
            past = read_past(self._sign(body))
            tasks = build_tasks(past.plan)
            check_coverage(past.plan, [task.step for task in tasks], self.context)
        except SeamarkError:
            return "refused"
        counted = zip(past.plan.actions, past.plan.step_counts, strict=True)
        assert [task.lane for task in tasks] == [one.sequence for one, count in counted for _ in range(count)]
        for task in tasks:
            self._write(task.step)
        return "decoded"

    def _sign(self, body: dict[str, Any]) -> tuple[Entry, ...]:
        first = self.entries[0]
        content = {key: value for key, value in body.items() if key not in (SIGNATURE, "nonce")}
        signed = {**body, SIGNATURE: _sign(seal, first.change, 0, first.kind, content)}
        return (dataclasses.replace(first, body=signed), *self.entries[1:])

    def _write(self, step: Step) -> None:
        """Send the records of a step as `perform` does: those of others are refused before the first is sent."""
        self.sent.clear()
        try:
            if isinstance(step, WriteOffsets):
                WRITE_OFFSETS(self.world.use(OFFSETS)(step.cluster, step.name, kept=step.kept), step.records)
            elif isinstance(step, WriteRecords):
                WRITE_LEFT(self.world.use(LEFT_OFFSETS)(step.clusters[0]), step.owners, step.records)
            elif isinstance(step, CopyOffsetRecords):
                record = HeldRecord(step.target, 0, json.dumps([step.name, {}]).encode(), b"{}")
                WRITE_OFFSETS(self.world.use(OFFSETS)(step.cluster, step.name), [record], into=step.target)
                assert step.target not in FORBIDDEN
                return
        except SeamarkError:
            assert self.sent == []
        topics = {one.offsets_topic for one in self.context.connect.values()}
        owners = {*getattr(step, "owners", ()), getattr(step, "name", "")}
        assert all(record.topic in topics for record in self.sent)
        assert all(decode_key(record.key).connector in owners for record in self.sent)


# --- records in topics of Kafka, Connect and seamark


@pytest.mark.parametrize("topic", [*FORBIDDEN, "offsets"])
def test_no_record_goes_to_a_topic_that_something_else_uses(topic, tmp_path):
    examples = {one.name: (kind, one) for kind, one in EXAMPLES}
    with open_example(*examples["offsets-skip"], tmp_path / "skip") as example:
        action = {**example.body["actions"][example.place], "topic": topic}
        with pytest.raises(RefusedError, match=f"refusing to write records to topic {topic}"):
            example.review(example.replace_action(action))
        port = example.changes._world.use(RECORDS)("game", "lake")
        with pytest.raises(RefusedError, match=f"refusing to write records to topic {topic}"):
            SinkRecords.park(SimpleNamespace(_context=example.changes._context), topic, None, ())
        assert port.copies == []
    if topic == "offsets":
        return
    with open_example(*examples["offsets-relocate"], tmp_path / "relocate") as example:
        action = {**example.body["actions"][example.place], "target": topic}
        with pytest.raises(RefusedError, match=f"refusing to write records to topic {topic}"):
            example.review(example.replace_action(action))
