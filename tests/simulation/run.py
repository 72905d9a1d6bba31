"""One run: somebody applies a plan, something goes wrong, somebody recovers, and every invariant is checked.

A stopped process (SIGSTOP) is one whose call has not come back yet: the others act inside that call, on top of its
stack, and then it goes on. So what goes on is the real code in its real state, without threads, and in the one order
that the seed says.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextvars import Context

from seamark.changes.actor import Actor, ClockMark
from seamark.changes.executor import Executor
from seamark.changes.journal import JournalPort
from seamark.changes.locks import cluster_lock, connector_lock
from seamark.changes.outcome import ChangeResult, Outcome
from seamark.changes.plan import Plan
from seamark.changes.recovery import Recovery
from seamark.changes.step import Step
from seamark.connectors.run_state import SetRunState
from seamark.connectors.steps import PutConfig
from seamark.errors import (
    FencedError,
    JournalError,
    LockedError,
    RefusedError,
    SeamarkError,
)
from tests.simulation.clock import START, Timeline
from tests.simulation.cluster import Cluster
from tests.simulation.faults import FOREIGN, Fault, Killed, Kind, Process, Violation
from tests.simulation.invariants import Invariants
from tests.simulation.journal import SimJournal, Store
from tests.simulation.kafka import FUTURE_SECONDS, KafkaStore, open_kafka_journal
from tests.simulation.ledger import Ledger
from tests.simulation.scenario import (
    CREATING,
    NAMES,
    SECRET_KEYS,
    STATES,
    Built,
    Kept,
    Round,
    Scenario,
    Way,
    build_lane,
)
from tests.simulation.world import CLUSTER, TIMING, SimSpool, SimWorld, Spooled
from tests.step_list import build_step_list, plan_actions, plan_undo

WORKERS = "sim-workers"
# How wrong the wall clocks of machines are, in seconds, and by how much they are set while a process runs.
SKEWS = (0.0, 0.0, -3600.0, -200.0, 200.0, 86_400.0)
STEPS = (0.0, 0.0, 0.0, -3600.0, 3600.0)
MACHINES = 3


class Operator:
    """Somebody with a seamark: one process, with its own view of the world."""

    def __init__(
        self, simulation: Simulation, name: str, faults: tuple[Fault, ...] = (), *, is_right: bool = False
    ) -> None:
        """`is_right`: the wall clock of its machine is right, as brokers that refuse times to come need it."""
        self.process = Process(name, simulation, faults)
        timeline = simulation.timeline
        clocks = simulation.clocks
        skew, machine = 0.0 if is_right else clocks.choice(SKEWS), clocks.randrange(MACHINES)

        def read_wall_clock() -> float:
            """The wall clock of the machine: wrong, and now and then set."""
            return timeline.now + (0.0 if is_right else skew + clocks.choice(STEPS))

        def read_mark() -> ClockMark:
            """The clock since the start of the machine: even, and of no meaning to another one."""
            return ClockMark(f"machine-{machine}", timeline.now - START + machine * 5000.0)

        self.world = SimWorld(self.process, timeline, simulation.cluster, ledger=simulation.ledger, skew=skew)
        self.actor = Actor(name, now=read_wall_clock, randomness=simulation.rng.randbytes, mark=read_mark)
        store = simulation.store
        self.journal: JournalPort = (
            open_kafka_journal(self.process, store, self.world.clock, now=read_wall_clock)
            if isinstance(store, KafkaStore)
            else SimJournal(self.process, store, timeline, now=read_wall_clock)
        )
        spool = SimSpool(self.process, simulation.spooled, timeline)
        self.executor = Executor(self.journal, self.world, actor=self.actor, timing=TIMING, spool=spool)
        self.recovery = Recovery(self.executor)

    def plan(self, title: str, lanes: list[Built], *, locks: tuple[str, ...]) -> tuple[Plan, list[Step]]:
        """A plan of these lanes, and its steps with their secrets."""
        plan, prepared = plan_actions(
            [build_step_list(lane.name, lane.steps, locks=locks) for lane in lanes],
            world=self.world,
            title=title,
            context="sim",
            made_at=self.actor.timestamp(),
            made_by=self.actor.name,
        )
        return plan, list(prepared.steps)


class Simulation:
    """One run of one scenario."""

    def __init__(self, scenario: Scenario, *, counts: Counter[str] | None = None) -> None:
        self.scenario = scenario
        self.counts: Counter[str] = Counter() if counts is None else counts
        self.rng = random.Random(scenario.seed)
        # Of its own, so that a test can count calls in a run with other operators.
        self.clocks = random.Random(~scenario.seed)
        self.timeline = Timeline()
        self.cluster = Cluster(self.timeline, rng=self.rng, longest_lag=0.9 * TIMING.shows_seconds)
        self.store = _build_store(scenario, self.timeline)
        self.spooled: list[Spooled] = []
        self.ledger = Ledger(self.store, self.spooled, self.timeline, timing=TIMING, cluster=CLUSTER)
        self.invariants = Invariants(self.store, self.cluster, self.spooled)
        self.store.watch = self.invariants.check_entry
        self.hit: set[Kind] = set()
        self.first: Operator | None = None
        self._people = 0
        self._lanes = [build_lane(name, lane) for name, lane in zip(NAMES, scenario.lanes, strict=False)]

    def run(self) -> None:
        """Play it to its end. Raises Violation."""
        self._set_up()
        locks = tuple(sorted(_lock(lane.name) for lane in self._lanes))
        if self.scenario.locks_cluster:
            locks = (cluster_lock(WORKERS),)
        plan, steps = self.operator().plan("first", self._lanes, locks=locks)
        first = self.first = self.operator(self.scenario.faults)
        self.attempt(first, lambda: first.executor.apply(plan, steps))
        change = self._change_of(first.process)
        self._recover_all(self.scenario.rounds)
        if change is not None:
            self.invariants.check_reached(change, self.scenario, hit=self.hit)
            if self.scenario.undo:
                self._undo(change)
        self.timeline.drain()
        self.timeline.advance(2 * TIMING.quiet_seconds)
        self.invariants.check_end()
        self.invariants.check_read(self.operator(in_peace=True).journal)
        self.counts["runs"] += 1
        self.counts["requests sent"] += self.ledger.requests
        longest = "longest ms from an entry to its request"
        self.counts[longest] = max(self.counts[longest], int(self.ledger.longest * 1000))
        self.counts["entries"] += len(self.store.log)
        self.counts["spooled"] += len(self.spooled)

    def operator(self, faults: tuple[Fault, ...] = (), *, in_peace: bool = False) -> Operator:
        """Another person. `in_peace` they can do what they want to do."""
        self._people += 1
        is_right = in_peace and isinstance(self.store, KafkaStore) and self.store.refuses_future
        return Operator(self, f"operator-{self._people}", faults, is_right=is_right)

    def attempt(self, who: Operator, act: Callable[[], ChangeResult]) -> ChangeResult | None:
        """Let somebody do something, whatever comes of it."""
        try:
            result = act()
        except Killed:
            self.counts["killed"] += 1
            # What was carried out and not yet shown at the kill shows within the lag that seamark reckons with.
            self.cluster.hurry()
            return None
        except FencedError:
            self.counts["fenced"] += 1
            return None
        except SeamarkError as error:
            self.counts[f"raised {error.code}"] += 1
            if isinstance(error, JournalError) and (
                told := self.invariants.check_wound_up(error, process=who.process.name)
            ):
                self.counts[told] += 1
            return None
        finally:
            self.hit.update(who.process.hit)
        self._take_in(result)
        return result

    def play(self, process: Process, fault: Fault) -> None:
        """Let other people act while this process stands still. See `Stage`."""
        self.hit.add(fault.kind)
        # They act on top of its stack. What its context holds, as the deadline of its request, is not theirs.
        Context().run(self._play, process, fault)

    def take_in_unjournaled(self, name: str) -> None:
        """Take in a late request that no journal holds. See `Stage`.

        The journal failed, the process restored the run state without it, and was killed with that request in flight.
        Nobody who resumes the change can know of it: from then on the run state counts as changed by somebody else.
        """
        self.counts["landed late without the journal"] += 1
        if name in self.cluster.connectors:
            self.invariants.touch(name, "state", {"state": self.cluster.connectors[name].target})

    def _play(self, process: Process, fault: Fault) -> None:
        if fault.kind in FOREIGN:
            self._act_foreign(fault)
        elif fault.kind is Kind.RIVAL:
            self._rival(fault)
        elif fault.kind is Kind.SLEEPS:
            # Many short stops, around the times that a holder may take, and some long ones.
            self.timeline.advance(fault.size**3 * 60)
        else:
            self._take_over(process, fault)

    # --- what people do ------------------------------------------------------------------------------------------

    def _set_up(self) -> None:
        reveal = self.operator().world.reveal
        for lane, built in zip(self.scenario.lanes, self._lanes, strict=True):
            if lane.shape in CREATING:
                continue
            config = {
                key: reveal(value) if value.startswith("secret://") else value for key, value in built.config.items()
            }
            failed = frozenset(range(lane.failed)) if lane.state != "STOPPED" else frozenset()
            self.cluster.add(built.name, config, target=lane.state, failed=failed)
        self.invariants.begin(NAMES)

    def _recover_all(self, rounds: tuple[Round, ...]) -> None:
        """Recover until nothing is open: first as the scenario says, with faults, then in peace."""
        for turn in rounds:
            for stored in self.store.open_changes():
                self._recover(stored.change, turn)
        self.timeline.advance(max(0.0, self.cluster.outage_until - self.timeline.now))
        self.timeline.advance(max(0.0, self.cluster.rebalance_until - self.timeline.now))
        # What a dead process sent may still fence the first that resumes, or hold it up.
        for _ in range(3):
            for stored in self.store.open_changes():
                self._recover(stored.change, Round(Way.RESUME), in_peace=True)
        for stored in self.store.open_changes():
            self._give_up(stored.change)

    def _recover(self, change: str, turn: Round, *, in_peace: bool = False) -> ChangeResult | None:
        self.cluster.hurry()
        self.timeline.advance(self.rng.random() * 2 * TIMING.quiet_seconds if self.rng.random() < 0.5 else 0.0)
        who = self.operator(turn.faults, in_peace=in_peace)
        self.counts[f"{turn.way}s"] += 1
        if turn.way is Way.RESUME:
            return self.attempt(who, lambda: who.recovery.resume(change))
        return self.attempt(who, lambda: who.recovery.abandon(change))

    def _give_up(self, change: str) -> None:
        """Somebody else's change is in the way of resuming: leave it, by force if need be."""
        if not self.invariants.touched:
            raise Violation(f"I2: change {change} stays open, and nobody else touched anything")
        self.counts["left open by a foreign change"] += 1
        for force in (False, False, True):
            who = self.operator(in_peace=True)
            result = self.attempt(who, lambda who=who, force=force: who.recovery.abandon(change, force=force))
            if result is not None and result.ending is not None:
                self.counts["abandoned by force" if force else "abandoned"] += 1
                return
        raise Violation(f"change {change} can't be closed by force")

    def _undo(self, change: str) -> None:
        self.invariants.check_now()
        # Nobody takes a change back before they have seen what it did.
        self.cluster.hurry()
        self.timeline.advance(5)
        who = self.operator(self.scenario.undo_faults, in_peace=not self.scenario.undo_faults)
        try:
            # The faults are for the change, not for its planning, which writes nothing.
            plan = plan_undo(self.operator().recovery, change)
        except RefusedError:
            self.counts["undo refused"] += 1
            return
        if plan.is_empty:
            self.counts["nothing to undo"] += 1
            return
        result = self.attempt(who, lambda: who.executor.apply(plan))
        self._recover_all((Round(Way.RESUME),))
        back = self._change_of(who.process)
        if back is not None and self.invariants.is_done(back):
            self.counts["undone"] += 1
            self.invariants.check_undone(change)
        elif next(reversed(self.store.changes)) != (back or change):
            self.counts["undo refused: others went on"] += 1
        elif not self.scenario.undo_faults and not self.invariants.touched:
            raise Violation(f"undo of {change} ended as {result}, and nothing was in its way")

    def _take_over(self, process: Process, fault: Fault) -> None:
        """SIGSTOP: time passes, somebody resumes the change, perhaps others go on; then the process goes on."""
        self.timeline.advance(fault.size * 20)
        change = next((stored.change for stored in self.store.open_changes() if process.name in stored.writers), None)
        if change is None:
            return
        self.cluster.hurry()
        faults = (Fault(int(fault.size * 30), Kind.KILL),) if fault.size > 0.8 else ()
        who = self.operator(faults)
        self.counts["taken over from a stopped process"] += 1
        self.attempt(who, lambda: who.recovery.resume(change))
        if fault.kind is Kind.TAKEN_AND_ON or (fault.kind is Kind.STOPPED_BETWEEN and fault.size * 10 % 1 < 0.7):
            self._rival(fault)

    def _rival(self, fault: Fault) -> None:
        """Another operator wants to change the first connector."""
        who = self.operator()
        name = NAMES[0]
        truth = self.cluster.connectors.get(name)
        if truth is None:
            return
        version = f"rival-{self._people}"
        config = {"connector.class": "Sim", "tasks.max": "1", "version": version}
        put = PutConfig(CLUSTER, name, config, secret=SECRET_KEYS)
        guarded = fault.size < 0.5
        steps: list[tuple[Step, bool]] = [(put, False)]
        if guarded:
            before = truth.target
            steps = [(SetRunState(CLUSTER, name, "STOPPED"), False), *steps]
            steps.append((SetRunState(CLUSTER, name, before), True))
        held = self._find_holders(name)
        try:
            plan, made = who.plan("rival", [Built(name, tuple(steps))], locks=(_lock(name),))
            result = who.executor.apply(plan, made)
        except LockedError as error:
            self.counts["rival locked out"] += 1
            # Others may have been in the gate all the time. An opening that was on its way may have landed meanwhile.
            if "change" in error.context and not held | self._find_holders(name):
                raise Violation("a rival was locked out by nobody") from None
        except SeamarkError as error:
            self.counts[f"rival raised {error.code}"] += 1
        else:
            self.counts["rival came through"] += 1
            # A change that was held may have been closed by what was on its way.
            if held & self._find_holders(name):
                raise Violation("I7: a rival changed a connector under somebody else's lock")
            self._take_in(result)

    def _find_holders(self, name: str) -> set[str]:
        """The open changes that hold the lock of a connector, but for those of rivals."""
        return {
            stored.change
            for stored in self.store.open_changes()
            if _lock(name) in stored.locks or cluster_lock(WORKERS) in stored.locks
        }

    def _act_foreign(self, fault: Fault) -> None:
        """Somebody without seamark changes a connector."""
        name = NAMES[int(fault.size * 1000) % len(self._lanes)]
        if name not in self.cluster.connectors:
            return
        if fault.kind is Kind.FOREIGN_CONFIG:
            config = {"connector.class": "Sim", "tasks.max": "1", "version": f"foreign-{fault.size}"}
            self.cluster.put(name, config)
            self.invariants.touch(name, "config", config)
        elif fault.kind is Kind.FOREIGN_STATE:
            state = STATES[int(fault.size * 100) % 3]
            self.cluster.set_target(name, state)
            self.invariants.touch(name, "state", {"state": state})
        else:
            self.cluster.delete(name)
            self.invariants.touch(name, "config", None)
            self.invariants.touch(name, "state", None)

    # --- what became of it ---------------------------------------------------------------------------------------

    def _change_of(self, process: Process) -> str | None:
        return next(
            (stored.change for stored in self.store.changes.values() if process.name == stored.writers[0]), None
        )

    def _take_in(self, result: ChangeResult) -> None:
        self.counts[f"ended {result.ending or 'open'}"] += 1
        for step in result.steps:
            if step.outcome in (Outcome.UNKNOWN, Outcome.FOREIGN, Outcome.DID_NOT_HAPPEN):
                self.counts[f"outcome {step.outcome}"] += 1
        self.invariants.check_result(result)


def _build_store(scenario: Scenario, timeline: Timeline) -> Store:
    if scenario.journal is Kept.FILES:
        return Store(timeline)
    return KafkaStore(timeline, future_seconds=FUTURE_SECONDS if scenario.seed % 2 else None)


def _lock(name: str) -> str:
    return connector_lock(name, workers=WORKERS)
