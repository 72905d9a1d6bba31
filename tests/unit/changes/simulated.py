"""A small stage for tests of the executor, recovery and steps: the simulated world with a few connectors in it."""

from __future__ import annotations

from collections.abc import Sequence

from seamark.changes.journal import EntryKind
from seamark.changes.plan import Plan
from seamark.changes.step import Step
from tests.simulation.faults import Fault
from tests.simulation.run import Operator, Simulation
from tests.simulation.scenario import Built, Kept, Scenario
from tests.simulation.world import CLUSTER

CONFIG = {"connector.class": "Sim", "tasks.max": "2", "version": "0"}
NEW = CONFIG | {"version": "1"}
NAMES = ("orders", "stock", "nothing")
SUBJECT = f"connector/{CLUSTER}/orders"


class Stage(Simulation):
    """A simulation that a test plays itself."""

    def __init__(self, *, seed: int = 1, journal: Kept = Kept.FILES) -> None:
        super().__init__(Scenario(seed, (), journal=journal))
        self.invariants.begin(NAMES)

    def plan(self, *lanes: Sequence[Step | tuple[Step, bool]], locks: tuple[str, ...] = ("source.t.orders@w",)):
        """A plan of lanes; a step in a pair with True is an `always` one."""
        built = [
            Built(f"lane-{number}", tuple(step if isinstance(step, tuple) else (step, False) for step in lane))
            for number, lane in enumerate(lanes)
        ]
        return self.operator().plan("a change", built, locks=locks)

    def apply(self, *lanes, faults: tuple[Fault, ...] = (), who: Operator | None = None, **kwargs):
        """Plan and apply."""
        plan, steps = self.plan(*lanes, **kwargs)
        return (who or self.operator(faults)).executor.apply(plan, steps)

    def apply_plan(self, plan: Plan):
        """Apply a plan that was made elsewhere."""
        return self.operator().executor.apply(plan)

    def kinds(self, change: str | None = None) -> list[str]:
        """The kinds of a change's entries, the last change's unless it is named."""
        return [str(entry.kind) for entry in self.entries(change)]

    def entries(self, change: str | None = None):
        """A change's entries."""
        return self.store.changes[change or next(reversed(self.store.changes))].entries

    def outcomes(self, change: str | None = None) -> list[tuple[int, str]]:
        """The outcomes in the journal, in their order."""
        found = [entry.body for entry in self.entries(change) if entry.kind is EntryKind.OUTCOME]
        return [(body["step"], body["outcome"]) for body in found]

    @property
    def change(self) -> str:
        """The id of the newest change."""
        return next(reversed(self.store.changes))

    def state(self, name: str = "orders") -> str:
        """What a connector is really meant to do."""
        return self.cluster.connectors[name].target

    def config(self, name: str = "orders") -> dict[str, str]:
        """What a connector's config really is."""
        return self.cluster.connectors[name].config


def new_stage(
    state: str = "RUNNING", *, config: dict[str, str] | None = None, seed: int = 1, journal: Kept = Kept.FILES
) -> Stage:
    """A stage with two connectors, `orders` as told and `stock` running."""
    stage = Stage(seed=seed, journal=journal)
    stage.cluster.add("orders", config or CONFIG, target=state)
    stage.cluster.add("stock", CONFIG, target="RUNNING")
    stage.invariants.begin(NAMES)
    return stage
