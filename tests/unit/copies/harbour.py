"""A world in memory for cut-overs: a topic, its copy, a sink, a source, a group, and a journal in a folder."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from seamark.changes.action import LOCKS, Reads
from seamark.changes.actor import Actor
from seamark.changes.executor import Executor
from seamark.changes.file_journal import FileJournal
from seamark.changes.history import read_closed
from seamark.changes.plan import Plan
from seamark.changes.planner import build_preconditions, prepare
from seamark.changes.recovery import Recovery
from seamark.changes.timing import ChangeTiming
from seamark.changes.undo import build_undo_draft, build_undo_preconditions
from seamark.connect.model import Connector, ConnectorStatus, State, Task
from seamark.copies.cutover.action import CutOver, CutoverGroup, RecreatedTopic
from seamark.copies.cutover.checks import COPY_PREVIEW
from seamark.copies.cutover.translation import TranslatedGroup
from seamark.copies.cutover.undo import CutoverConnector
from seamark.core.refs import ConnectorType
from seamark.errors import NotFoundError, RefusedError, UnknownOutcomeError
from seamark.offsets.port import PLANNING
from tests.ports import MethodPorts
from tests.unit.changes.brokers import FakeBrokers

CLUSTER, COPY, BACK = "c", "copy-1", "copy-1-back"
TIMING = ChangeTiming(
    in_flight_seconds=10.0,
    begin_seconds=100.0,
    send_seconds=10.0,
    shows_seconds=2.0,
    foreign_seconds=1.0,
    look_seconds=0.25,
)


class Harbour(MethodPorts):
    """An `Environment`. Its clock goes when somebody sleeps. What happens is written down in `log`."""

    def __init__(self, folder):
        self.time = 1_000_000.0
        self.folder = folder
        self.brokers = FakeBrokers()
        self.brokers.add_topic("orders", partitions=2, records=10)
        self.brokers.add_topic("orders-1", partitions=1, records=0, configs={"retention.ms": "-1"})
        self.brokers.add_group("connect-lake", {("orders", 0): 7, ("orders", 1): 9})
        self.brokers.add_group("report", {("orders", 0): 2, ("orders", 1): 2})
        self.configs = {"lake": {"topics": "orders,other"}, "shop": {"topic": "orders"}}
        self.types = {"lake": ConnectorType.SINK, "shop": ConnectorType.SOURCE}
        self.states = {"lake": "RUNNING", "shop": "RUNNING"}
        self.log = []
        self.failing = {}
        self.unknown = set()
        self.copied = 15
        self.proof = None

    # the world

    @property
    def clock(self):
        return self

    def now(self):
        return self.time

    def sleep(self, seconds):
        self.time += seconds

    def connect(self, _cluster):
        return self

    def kafka(self):
        return self.brokers

    def copies(self):
        return self

    def offsets(self, _cluster, name, *, kept=None):
        del kept
        return Still(self, name)

    def reveal(self, reference):
        return reference

    def seal(self, value):
        return f"seal of {len(value)}"

    # Connect

    def read_config(self, name):
        if name not in self.configs:
            raise NotFoundError(name)
        return {**self.configs[name], "name": name}

    def read_connector(self, name):
        return Connector(name, CLUSTER, self.types[name], self.read_config(name), self.read_status(CLUSTER, name))

    def read_names(self):
        return tuple(self.configs)

    def read_connectors(self):
        return tuple(map(self.read_connector, self.configs))

    def read_status(self, *where):
        state = self.states[where[-1]]
        tasks = () if state == "STOPPED" else (Task(0, self._task_state(where[-1], state)),)
        return ConnectorStatus(State(state), tasks=tasks)

    def _task_state(self, name, state):
        return State.FAILED if self.configs[name].get("fails") in self.configs[name].values() else State(state)

    def put_config(self, name, config):
        self._act(f"put {name}", lambda: self.configs.update({name: {k: v for k, v in config.items() if k != "name"}}))

    def stop(self, name):
        self._act(f"stop {name}", lambda: self.states.update({name: "STOPPED"}))

    def pause(self, name):
        self._act(f"pause {name}", lambda: self.states.update({name: "PAUSED"}))

    def resume(self, name):
        self._act(f"start {name}", lambda: self.states.update({name: "RUNNING"}))

    def _act(self, words, act):
        if words in self.failing:
            raise self.failing.pop(words)
        self.log.append(words)
        if words in self.unknown:
            self.unknown.discard(words)
            raise UnknownOutcomeError(words)
        act()

    # copies

    def begin_back(self, copy):
        assert copy == COPY
        assert len(self.brokers.topics["orders"].logs) == 1
        self.log.append("begin back")
        return f"{copy}-back"

    def approach(self, copy):
        assert copy == COPY
        assert set(self.states.values()) == {"RUNNING"}
        self.log.append("approach")
        return "nothing new"

    def _catch_up_back(self):
        if "catch up back" in self.failing:
            raise self.failing.pop("catch up back")
        self.log.append("catch up back")
        self.brokers.topics["orders"].logs[0] = [0] * 22
        return "20 records"

    def catch_up(self, copy):
        if copy == BACK:
            return self._catch_up_back()
        assert copy == COPY
        if "catch up" in self.failing:
            raise self.failing.pop("catch up")
        self.log.append("catch up")
        done, self.copied = self.copied, 20
        self.brokers.topics["orders-1"].logs[0] = [0] * 21
        return f"{20 - done} records"

    def verify(self, copy, level):
        assert copy in (COPY, BACK)
        self.log.append(f"verify {level}")
        if self.proof:
            raise RefusedError(self.proof)
        return "all the same"

    def count_left(self, copy):
        if copy == BACK:
            return 20 if not self.brokers.topics["orders"].logs[0] else 0
        assert copy == COPY
        return sum(len(log) for log in self.brokers.topics["orders"].logs) - self.copied

    def read_target_ends(self, copy):
        target = "orders" if copy == BACK else "orders-1"
        return {n: len(log) for n, log in enumerate(self.brokers.topics[target].logs)}

    def translate(self, copy, groups, *, missing):
        if copy == BACK:
            return {group: TranslatedGroup({0: self.commits[group]["orders-1", 0] + 1}, to_read=20) for group in groups}
        assert copy == COPY
        if self.copied < 20:
            raise RefusedError("the copy ends earlier")
        del missing
        places = {"connect-lake": (14, 2), "report": (3, 0)}
        return {
            group: TranslatedGroup({0: places[group][0]}, to_read=20, replayed_least=at, replayed_most=at, aborted=1)
            for group in groups
            for at in (places[group][1],)
        }

    # plans

    @property
    def reads(self):
        """What planning may read: this world, and a context with short waits."""
        planning = SimpleNamespace(
            context=SimpleNamespace(journal=SimpleNamespace(in_flight_seconds=TIMING.in_flight_seconds)),
            clusters=SimpleNamespace(client=self.connect),
        )
        locks = SimpleNamespace(find_connector=lambda _, name, __, *, kind: frozenset({f"{kind}.{name}"}))
        return Reads(self, {PLANNING: planning, LOCKS: locks, COPY_PREVIEW: self.copies})

    def build_connector(self, name, values):
        return CutoverConnector(CLUSTER, name, self.states[name], values)

    def build_cutover(self, **changes):
        cutover = CutOver(
            COPY,
            "orders",
            "orders-1",
            sinks=(self.build_connector("lake", {"topics": "orders-1,other"}),),
            sources=(self.build_connector("shop", {"topic": "orders-1"}),),
            groups=(CutoverGroup("connect-lake", sees_aborted=False), CutoverGroup("report", sees_aborted=False)),
            configs={"retention.ms": None},
            held={"retention.ms": "-1"},
        )
        return replace(cutover, **changes)

    def build_in_place(self):
        configs = {"retention.ms": "-1", "segment.bytes": "7"}
        new = RecreatedTopic(self.brokers.topics["orders"].id, partitions=1, replication_factor=1, configs=configs)
        sinks, sources = (self.build_connector("lake", {}),), (self.build_connector("shop", {}),)
        return self.build_cutover(sinks=sinks, sources=sources, recreated=new)

    def plan(self, cutover):
        prepared = prepare([cutover], self.reads)
        return prepared.fill(self._open_plan("cut over", preconditions=build_preconditions(prepared, self.reads)))

    def undo(self, change):
        """The plan that takes a change back, and its steps."""
        entries = self.build_executor().journal.read(change)
        name = entries[0].change
        draft = build_undo_draft(read_closed(entries), change=name)
        prepared = prepare(draft.actions, self.reads)
        preconditions = build_undo_preconditions(draft, prepared, self.reads, change=name)
        plan = self._open_plan("undo", preconditions=preconditions, notes=prepared.undo_notes, undoes=name)
        return prepared.fill(plan), prepared.steps

    def _open_plan(self, title, **more):
        return Plan(title=title, context="dev", made_at="2026-01-01T00:00:00Z", made_by="somebody", **more)

    def apply(self, plan):
        # As a process does that has only the journal.
        return self.build_executor().apply(Plan.from_dict(plan.to_dict()))

    def resume_change(self, change):
        return Recovery(self.build_executor()).resume(change)

    def build_executor(self):
        return Executor(FileJournal(self.folder), self, actor=Actor("me", now=self.now), timing=TIMING)

    def produce(self, topic, count=1):
        self.brokers.topics[topic].logs[0] += [0] * count

    @property
    def open_change(self):
        (head,) = FileJournal(self.folder).open_heads()
        return head.change

    @property
    def commits(self):
        return {name: {k: v.offset for k, v in group.offsets.items()} for name, group in self.brokers.groups.items()}


class Still:
    """The offsets of a connector, as the proof of a stop asks for them."""

    def __init__(self, world, name):
        self._world, self._name = world, name

    def read_members(self):
        return None

    def find_silent(self, _workers, **_):
        return ()
