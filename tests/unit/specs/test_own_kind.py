"""A kind of resource is added to spec files by one module: this one.

The kind is the retention of topics that seamark doesn't create. Everything that spec files need of it is here: its
section and keys, its declarations, its action, and the comparison with what runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from seamark.changes import spec_kind
from seamark.changes.action import StandaloneStep, action_kind, needs_permission
from seamark.changes.effect import ChangeKind, Effect
from seamark.changes.locks import topic_lock
from seamark.changes.spec_kind import (
    CONNECTOR_PHASE,
    SectionKind,
    SectionPlan,
    build_table_schema,
    register_spec_kind,
)
from seamark.changes.step import Intent, compare_image, step_kind
from seamark.core.files import FileLocation
from seamark.core.time import parse_duration
from seamark.errors import RefusedError, SpecError, UsageError
from seamark.kafka.api import BROKERS
from seamark.policy.permissions import Permission
from seamark.specs.keys import build_schema, list_kinds
from tests.unit.changes.brokers import FakeBrokers
from tests.unit.fleet.living import LivingConnect, open_living_fleet, register

KEY = "retention.ms"
KEYS = {"keep": "How long records are kept, as 7d."}


@dataclass(frozen=True, slots=True)
class DesiredRetention:
    name: str
    place: FileLocation
    keep_ms: str


@action_kind("test-set-retention")
@needs_permission(Permission.CHANGE_CONFIG)
@step_kind("test-set-retention")
@dataclass(frozen=True, slots=True)
class SetRetention(StandaloneStep):
    """Sets the retention of a topic; None restores the default of the brokers."""

    aspect: ClassVar[str] = "retention"
    declares: ClassVar[bool] = True

    name: str
    keep_ms: str | None

    @property
    def subject(self):
        return f"retention/{self.name}"

    def describe(self):
        return f"set {self.subject}"

    @classmethod
    def find_locks(cls, actions, reads):
        return [frozenset({topic_lock(one.name)}) for one in actions]

    def build_effect(self, seen):
        words = f"keep {seen.intent.before or 'the default'} → {seen.intent.after or 'the default'}"
        return Effect(ChangeKind.CHANGE, self.subject, words)

    def _read(self, world):
        (topic,) = world.use(BROKERS)().read_topics([self.name]).items
        return topic.own_configs.get(KEY)

    def intend(self, world):
        return Intent(before=self._read(world), after=self.keep_ms)

    def perform(self, world, intent):
        values = {} if self.keep_ms is None else {KEY: self.keep_ms}
        world.use(BROKERS)().alter_topic_config(self.name, values=values, remove=() if values else (KEY,))

    def observe(self, world, intent):
        return compare_image(self._read(world), intent)

    def undo(self, intent):
        return SetRetention(self.name, intent.before)


class RetentionKind(SectionKind[DesiredRetention]):
    section = "retention"
    noun = "retention"
    summary = "Retention of topics: name: {keep}."
    # After the section `topics`, which may create the topic, and before connectors.
    phase = CONNECTOR_PHASE - 5
    is_owned = True

    def build_schema(self):
        return build_table_schema(KEYS, {"keep": {"type": "string"}}, required=["keep"])

    def read(self, file):
        entries = file.read_table(self.section)
        for key in entries:
            table = entries.read_table(key, what=f"retention {entries.read_name(key)}")
            table.check_keys(KEYS, what="a retention")
            try:
                keep = parse_duration(table.read_text("keep"))
            except ValueError:
                raise table.build_error("keep must be a length of time", key="keep", hint="as in keep: 7d") from None
            yield DesiredRetention(entries.read_name(key), entries.find_place(key), str(int(keep * 1000)))

    def build_from_program(self, name, place, fields):
        keep = fields.get("keep_ms")
        return DesiredRetention(name, place, keep) if isinstance(keep, str) else None

    def check(self, wanted, context):
        for one in wanted:
            if one.keep_ms == "0":
                raise SpecError(f"retention {one.name} keeps nothing", cause=str(one.place), hint="write keep: 7d")

    def plan(self, wanted, request):
        steps = [SetRetention(one.name, one.keep_ms) for one in wanted]
        names, others = {one.name for one in wanted}, request.ownership.others()
        if taken := [one.subject for one in steps if one.subject in others and not request.adopt]:
            raise RefusedError(f"another spec has {', '.join(taken)}", hint="take it over: --adopt")
        owned = [owner.partition("/")[2] for owner in request.ownership.own if owner.startswith("retention/")]
        gone = [name for name in owned if name not in names and f"retention/{name}" not in others]
        steps += [SetRetention(name, None) for name in gone]
        return SectionPlan(tuple(steps), tuple(SetRetention.inspect(steps, request.reads)))


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """Registered for one test only: other tests compare the registry with the documentation."""
    # seamark's own kinds are registered at the first call: before the registry is replaced.
    known = {kind.section: kind for kind in list_kinds()}
    monkeypatch.setattr(spec_kind, "_KINDS", known)
    register_spec_kind(RetentionKind())


@pytest.fixture
def brokers():
    found = FakeBrokers()
    for name in ("orders", "clicks"):
        found.add_topic(name)
    return found


@pytest.fixture
def fleet(tmp_path, brokers):
    with open_living_fleet(tmp_path, LivingConnect(), brokers=brokers) as opened:
        yield opened


def show(planned):
    return [(effect.subject, effect.words) for effect in planned.effects]


def read_retention(brokers):
    return {name: topic.configs.get(KEY) for name, topic in brokers.topics.items()}


def test_entries_are_planned_applied_removed_and_undone(fleet, brokers, folder):
    folder.write("_defaults.yaml", "spec: shop\n")
    file = folder.write("retention.yaml", "retention: {orders: {keep: 1d}, clicks: {keep: 2h}}\n")
    planned = fleet.plan(folder.path)
    assert show(planned) == [
        ("retention/orders", "keep the default → 86400000"),
        ("retention/clicks", "keep the default → 7200000"),
    ]
    assert planned.plan.locks == ("data.clicks", "data.orders")
    assert fleet.apply(register(fleet, planned.plan)).is_done
    assert read_retention(brokers) == {"orders": "86400000", "clicks": "7200000"}
    assert fleet.plan(folder.path).is_empty

    file.write_text("retention: {orders: {keep: 3d}}\n")
    planned = fleet.plan(folder.path)
    assert show(planned) == [
        ("retention/orders", "keep 86400000 → 259200000"),
        ("retention/clicks", "keep 7200000 → the default"),
    ]
    second = fleet.apply(planned)
    assert read_retention(brokers) == {"orders": "259200000", "clicks": None}
    assert fleet.apply(fleet.undo(second)).is_done
    assert read_retention(brokers) == {"orders": "86400000", "clicks": "7200000"}


def test_entries_of_another_spec_are_reported_by_the_ownership(fleet, folder):
    folder.write("_defaults.yaml", "spec: shop\n")
    folder.write("retention.yaml", "retention: {orders: {keep: 1d}}\n")
    assert fleet.apply(fleet.plan(folder.path)).is_done
    folder.write("_defaults.yaml", "spec: warehouse\n")
    with pytest.raises(RefusedError, match="another spec has retention/orders"):
        fleet.plan(folder.path)
    assert fleet.plan(folder.path, adopt=True).is_empty


def test_actions_are_ordered_by_phase(fleet, folder):
    config = "{connector.class: org.apache.kafka.connect.file.FileStreamSourceConnector, file: /in, topic: t}"
    folder.write(
        "all.yaml",
        f"connectors: [{{name: a, config: {config}}}]\nretention: {{orders: {{keep: 1d}}}}\ntopics: {{t: {{}}}}\n",
    )
    planned = fleet.plan(folder.path)
    assert [effect.subject for effect in planned.effects] == ["topic/t", "retention/orders", "connector/game/a"]
    by_name = fleet.plan(folder.path, names=["a"])
    assert [effect.subject for effect in by_name.effects] == ["connector/game/a"]
    assert "retention are not part of a plan by names: orders" in by_name.plan.notes


def test_a_program_can_declare_entries(folder):
    program = (
        "from seamark.specs.program import Resource\n"
        "def resources(env):\n"
        "    yield Resource('retention', 'orders', {})\n"
    )
    folder.write("retention.py", program.replace("{}", "{'keep_ms': '5'}"))
    (made,) = folder.load(allow_python=True).find("retention")
    assert (made.name, made.keep_ms) == ("orders", "5")
    folder.write("retention.py", program)
    assert "returned an invalid resource" in folder.fail(allow_python=True).cause


def test_invalid_entries_are_refused_with_their_place(fleet, folder):
    folder.write("retention.yaml", "retention:\n  orders: {keep: long}\n")
    error = folder.fail()
    assert (error.cause, error.hint) == ("retention.yaml:2:18: keep must be a length of time", "as in keep: 7d")
    folder.write("retention.yaml", "retention:\n  orders: {kep: 1d}\n")
    assert folder.fail().hint == "use keep"
    folder.write("retention.yaml", "retention:\n  orders: {keep: 0s}\n")
    for refuse in (fleet.plan, fleet.check):
        with pytest.raises(SpecError, match="retention orders keeps nothing"):
            refuse(folder.path)
    folder.write("more.yaml", "retention: {orders: {keep: 1d}}\n")
    assert folder.fail().message == "retention orders is defined twice"


def test_editors_know_the_section():
    schema = build_schema()
    assert schema["properties"]["retention"]["description"] == RetentionKind.summary
    assert schema["definitions"]["retention"]["required"] == ["keep"]


def test_two_kinds_with_one_name_are_refused():
    class Other(RetentionKind):
        section = "retentions"

    with pytest.raises(ValueError, match="two kinds"):
        register_spec_kind(Other())
    assert [kind.section for kind in list_kinds()] == ["topics", "retention", "connectors", "pipelines"]


def test_a_connect_cluster_with_the_name_of_an_owned_kind_is_refused(tmp_path, folder):
    folder.write("retention.yaml", "retention: {orders: {keep: 1d}}\n")
    clusters = [LivingConnect(cluster=name) for name in ("game", "retention")]
    with (
        open_living_fleet(tmp_path / "home", *clusters, brokers=FakeBrokers()) as fleet,
        pytest.raises(UsageError, match="invalid name of a Connect cluster: retention"),
    ):
        fleet.plan(folder.path)
