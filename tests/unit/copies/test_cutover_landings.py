"""Pipelines in a cut-over: shut out, carried over, found where somebody starts them again, and taken back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seamark.changes.file_journal import FileJournal
from seamark.changes.interruption import set_hook
from seamark.changes.journal import EntryKind
from seamark.changes.step import STEPS, Intent, build_step
from seamark.connect.api import STATUSES
from seamark.copies.cutover.action import CutoverGroup
from seamark.copies.cutover.translation import TranslatedGroup
from seamark.errors import FencedError
from seamark.offsets.stores.ledger import fence_ledger, read_epochs
from seamark.tables.model import LedgerEntry
from tests.unit.copies.harbour import BACK, TIMING, Harbour
from tests.unit.offsets.ledger_in_memory import MemoryLedger, route

OWNER = "pipeline/orders"


class LandingHarbour(Harbour):
    """A harbour with a landing of the source. What it stands for in the target is the sum of its places."""

    def __init__(self, folder):
        super().__init__(folder)
        self.old_id = self.brokers.topics["orders"].id
        self.ledger = MemoryLedger(
            LedgerEntry("orders", self.old_id, 0, next_offset=7, epoch=100),
            LedgerEntry("orders", self.old_id, 1, next_offset=4, epoch=100),
        )
        self.on_look = []

    def kafka(self):
        return route(self.brokers, {OWNER: self.ledger})

    def shut_out(self, owner, topic):
        self.log.append(f"shut out {owner}")
        return fence_ledger(self.kafka(), owner, topic)

    def read_epochs(self, owner, topic):
        if self.on_look:
            self.on_look.pop()()
        return read_epochs(self.kafka(), owner, topic)

    def translate(self, copy, groups, *, missing):
        others = [group for group in groups if group != OWNER]
        found = super().translate(copy, others, missing=missing)
        topic = "orders-1" if copy == BACK else "orders"
        (held,) = self.kafka().read_committed({OWNER: None}).items
        place = sum(commit.offset for spot, commit in held.offsets.items() if spot[0] == topic)
        return {**found, OWNER: TranslatedGroup({0: place}, to_read=9, replayed_least=3, replayed_most=3)}

    def build_cutover(self, **changes):
        built = super().build_cutover(**changes)
        return replace(built, groups=(*built.groups, CutoverGroup(OWNER, sees_aborted=False)))

    def claim_again(self):
        self.ledger.claim([entry for entry in self.ledger.read().values() if entry.topic_id == self.old_id])

    @property
    def places(self):
        return {(topic, number): at for (topic, _, number), at in self.ledger.offsets.items()}


@pytest.fixture
def harbour(tmp_path):
    return LandingHarbour(tmp_path)


def find_failed(result):
    return [(step.kind, step.subject) for step in result.steps if step.error is not None]


def test_landing_is_shut_out_late_and_gets_its_place_in_the_target(harbour):
    result = harbour.apply(harbour.plan(harbour.build_cutover()))
    assert str(result.ending) == "done"
    assert harbour.places == {("orders", 0): 7, ("orders", 1): 4, ("orders-1", 0): 11}
    log = harbour.log
    assert log.index("verify standard") < log.index(f"shut out {OWNER}") < log.index("put lake")
    notes = {step.subject: step.note for step in result.steps if step.kind == "translate-group"}
    assert notes[OWNER] == "9 records to read, 3 records to reprocess"
    # Whoever held the source holds it no more.
    assert all(entry.epoch > 100 for entry in harbour.ledger.read().values() if entry.topic == "orders")


def test_run_that_somebody_starts_again_is_found(harbour):
    # The first look is that of the intent, before the landing is shut out.
    harbour.on_look = [harbour.claim_again, lambda: None]
    result = harbour.apply(harbour.plan(harbour.build_cutover()))
    assert find_failed(result) == [("fence-pipeline", OWNER)]
    (error,) = [step.error for step in result.steps if step.error is not None]
    assert "supervisor" in error.hint
    assert harbour.places == {("orders", 0): 7, ("orders", 1): 4}
    assert harbour.configs["lake"]["topics"] == "orders,other"


def test_run_that_lands_more_after_its_place_was_told_is_found_before_anybody_is_turned(harbour):
    perform = harbour.ledger.place

    def place(entries, *, gone=()):
        perform(entries, gone=gone)
        harbour.ledger.move((harbour.old_id, 0), to=9)

    harbour.ledger.place = place
    result = harbour.apply(harbour.plan(harbour.build_cutover()))
    assert find_failed(result) == [("prove-translated", OWNER)]
    assert "put lake" not in harbour.log[: harbour.log.index("start lake")]
    assert harbour.states == {"lake": "RUNNING", "shop": "RUNNING"}


def test_landing_goes_on_in_the_source_when_it_is_taken_back(harbour):
    result = harbour.apply(harbour.plan(harbour.build_cutover()))
    target_id = harbour.brokers.topics["orders-1"].id
    # It has run since, and stands elsewhere.
    harbour.ledger.move((target_id, 0), to=15)
    plan, _ = harbour.undo(result.change)
    assert any("pipeline orders reads orders-1: set from.topic to orders" in note for note in plan.notes)
    assert str(harbour.apply(plan).ending) == "done"
    assert harbour.places == {("orders", 0): 7, ("orders", 1): 4}


def test_topic_made_anew_is_another_place_in_the_ledger(harbour):
    result = harbour.apply(harbour.plan(harbour.build_in_place()))
    assert str(result.ending) == "done"
    new_id = harbour.brokers.topics["orders"].id
    assert new_id != harbour.old_id
    assert harbour.ledger.offsets["orders", new_id, 0] == 11
    # What is left of the old one is nobody's place any more.
    (held,) = harbour.kafka().read_committed({OWNER: [("orders", 0), ("orders", 1)]}).items
    assert {spot: commit.offset for spot, commit in held.offsets.items()} == {("orders", 0): 11}


# --- intents: what writes, also a check, has one before it ------------------------------------------------------------


class Killed(BaseException):
    """Ends the process at hand, as far as a test can."""


def read_entries(harbour, change):
    return FileJournal(harbour.folder).read(change)


def find_kinds(entries, kind):
    steps = entries[0].body["plan"]["steps"]
    return [steps[entry.body["step"]]["kind"] for entry in entries if entry.kind is kind]


@pytest.mark.parametrize("in_place", [False, True])
def test_every_check_that_writes_has_an_intent_before_it(harbour, in_place):
    """The journal as it is whenever something is written: its newest intent is that of the step at hand."""
    seen = []

    def watch(name, kind):
        call = getattr(harbour, name)

        def watched(*args, **kwargs):
            (head,) = FileJournal(harbour.folder).open_heads()
            last = read_entries(harbour, head.change)[-1]
            seen.append((kind, find_kinds([*read_entries(harbour, head.change)[:1], last], EntryKind.INTENT)))
            return call(*args, **kwargs)

        setattr(harbour, name, watched)

    plan = harbour.plan(harbour.build_in_place() if in_place else harbour.build_cutover())
    for name, kinds in {
        "approach": ["approach"],
        "catch_up": ["catch-up"],
        "shut_out": ["fence-pipeline", "prove-translated"],
        "begin_back": ["register-copy-back"],
    }.items():
        watch(name, kinds)
    assert str(harbour.apply(plan).ending) == "done"
    found = {kind for _, intents in seen for kind in intents}
    assert all(len(intents) == 1 and intents[0] in kinds for kinds, intents in seen), seen
    expected = {"approach", "catch-up", "fence-pipeline", "prove-translated"}
    assert found == (expected | {"register-copy-back"} if in_place else expected)


def test_intent_of_a_fence_has_the_epochs_that_it_replaces(harbour):
    change = harbour.apply(harbour.plan(harbour.build_cutover())).change
    entries = read_entries(harbour, change)
    kinds = entries[0].body["plan"]["steps"]
    (fence,) = [
        entry.body
        for entry in entries
        if entry.kind is EntryKind.INTENT and kinds[entry.body["step"]]["kind"] == "fence-pipeline"
    ]
    assert (fence["before"], fence["after"]) == ({"epochs": {"0": 100, "1": 100}}, "fenced")


@pytest.mark.parametrize("kind", ["approach", "catch-up", "fence-pipeline", "prove-translated"])
@pytest.mark.parametrize("point", ["after-intent", "after-outcome"])
def test_check_whose_process_ended_is_repeated_and_not_undone(harbour, kind, point):
    plan = harbour.plan(harbour.build_cutover())
    number = next(number for number, step in enumerate(plan.steps) if step.kind == kind)

    def kill(reached, at):
        if (reached, at) == (point, number):
            raise Killed

    set_hook(kill)
    try:
        with pytest.raises(Killed):
            harbour.apply(plan)
    finally:
        set_hook(None)
    change = harbour.open_change
    began_at = harbour.time
    result = harbour.resume_change(change)
    assert str(result.ending) == "done"
    # An act whose answer was lost is waited for; a check is begun again at once.
    assert harbour.time - began_at < TIMING.quiet_seconds
    assert harbour.places == {("orders", 0): 7, ("orders", 1): 4, ("orders-1", 0): 11}
    assert str(harbour.apply(harbour.undo(change)[0]).ending) == "done"
    assert harbour.places == {("orders", 0): 7, ("orders", 1): 4}


def test_process_that_was_taken_over_shuts_nobody_out(harbour):
    plan = harbour.plan(harbour.build_cutover())
    number = next(number for number, step in enumerate(plan.steps) if step.kind == "fence-pipeline")

    def take_over(reached, at):
        if (reached, at) == ("before-intent", number):
            other = FileJournal(harbour.folder)
            other.take_over(harbour.open_change, nonce="n2", by="other", at="2026-01-01T00:00:00Z").release()

    set_hook(take_over)
    try:
        with pytest.raises(FencedError):
            harbour.apply(plan)
    finally:
        set_hook(None)
    assert f"shut out {OWNER}" not in harbour.log


# The checks that write. Every other one must not.
WRITING = {"approach", "catch-up", "register-copy-back", "fence-pipeline", "prove-translated"}


def test_checks_that_write_are_those_listed_here():
    assert {kind for kind, step in STEPS.items() if not step.acts and step.writes} == WRITING


class ReadOnly:
    """A world, or a port of it, whose every call that writes fails. What is read is handed through."""

    READS = ("read", "find", "count", "verify", "translate", "preview", "describe", "compare", "complete")

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        assert name.startswith(self.READS), f"{name} may write"
        return getattr(self._inner, name)


class ReadOnlyWorld:
    """A world of ports that only read."""

    def __init__(self, world):
        self._world = world
        self.clock = world

    def use(self, port):
        if port is STATUSES:
            return self._world.use(port)
        return lambda *args, **kwargs: ReadOnly(self._world.use(port)(*args, **kwargs))


def test_other_checks_of_a_cutover_only_read(harbour):
    plan = harbour.plan(harbour.build_cutover())
    harbour.copied = 20
    checks = [step for step in map(build_step, plan.steps) if not step.acts and step.kind not in WRITING]
    performed = set()
    for step in checks:
        harbour.states = dict.fromkeys(harbour.states, "RUNNING" if step.kind == "await-running" else "STOPPED")
        step.perform(ReadOnlyWorld(harbour), Intent(None, None))
        performed.add(step.kind)
    assert performed == {"prove-copy", "prove-quiet", "prove-stopped", "await-running"}
    with pytest.raises(AssertionError, match="shut_out may write"):
        next(step for step in map(build_step, plan.steps) if step.kind == "fence-pipeline").perform(
            ReadOnlyWorld(harbour), Intent(None, None)
        )
