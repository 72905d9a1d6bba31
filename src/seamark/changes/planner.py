"""Steps → a plan: look at every subject, leave out what is so already, and write down what must still be so later."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from seamark.changes.action import Action, Reads
from seamark.changes.actor import Actor
from seamark.changes.identity import Identity
from seamark.changes.patience import plan_patiently
from seamark.changes.plan import Plan
from seamark.changes.planned import Planned
from seamark.changes.prepare import Prepared, build_preconditions, prepare
from seamark.changes.snapshot import SnapshotWorld
from seamark.changes.world import World
from seamark.core.plugin_keys import PLUGIN_KEYS
from seamark.core.ports import Port

# Reading a whole cluster costs about as much as a dozen single looks.
_MANY = 12


class Planner:
    """Makes the plans of one context."""

    def __init__(
        self,
        context: str,
        world: World,
        *,
        actor: Actor,
        find_identity: Callable[[Collection[str]], Identity],
        ports: Mapping[Port[Any], Any] | None = None,
        open_world: Callable[[], World] | None = None,
    ) -> None:
        """`open_world` opens what one plan reads from, which may keep answers; by default the live `world`."""
        self._context = context
        self._world = world
        self._actor = actor
        self._find_identity = find_identity
        self._ports = ports
        self._open_world = open_world or (lambda: world)

    @property
    def world(self) -> World:
        """What its steps look at."""
        return self._world

    def plan(
        self,
        title: str,
        actions: Sequence[Action],
        *,
        notes: Iterable[str] = (),
        spec: Mapping[str, Any] | None = None,
        reads: Reads | None = None,
        known: Mapping[int, Any] | None = None,
    ) -> Planned:
        """Create the plan of these actions. Those with nothing to do are left out.

        `known` has what is read already, by the number of the action.
        """
        prepared, reads = self._prepare(actions, reads, known=known)
        notes = (*notes, *_build_type_notes(actions))
        plan = Plan(
            title=title,
            context=self._context,
            made_at=self._actor.timestamp(),
            made_by=self._actor.name,
            preconditions=build_preconditions(prepared, reads),
            notes=(*notes, *prepared.notes) if prepared.items else (),
            spec=spec or {},
            identity=self._identify(prepared),
        )
        return Planned(prepared.fill(plan), prepared.steps, prepared.effects, needs=prepared.needs)

    def prepare(
        self, actions: Sequence[Action], reads: Reads | None = None, *, known: Mapping[int, Any] | None = None
    ) -> Prepared:
        """Derive everything from actions. What a rebalance hides is waited for, though not for long."""
        return self._prepare(actions, reads, known=known)[0]

    def _prepare(
        self, actions: Sequence[Action], reads: Reads | None, *, known: Mapping[int, Any] | None
    ) -> tuple[Prepared, Reads]:
        def attempt() -> tuple[Prepared, Reads]:
            # Opened for each attempt: what a rebalance hid must not be kept.
            chosen = reads or self.open_reads(len(actions))
            return prepare(actions, chosen, known=known), chosen

        return plan_patiently(attempt, self._world.clock)

    def _identify(self, prepared: Prepared) -> Identity:
        """Return which clusters the steps act on. A plan without steps acts on none."""
        clusters = dict.fromkeys(name for step in prepared.steps for name in step.find_clusters())
        return self._find_identity(tuple(clusters)) if prepared.steps else Identity()

    def open_reads(self, count: int) -> Reads:
        """Return what planning may read. For many actions each cluster is read once."""
        world = self._open_world()
        return Reads(SnapshotWorld(world) if count > _MANY else world, self._ports)


def _build_type_notes(actions: Iterable[Action]) -> tuple[str, ...]:
    """Name the plugins whose types can't be read: their values are hidden, which the plan's text doesn't explain."""
    clusters = sorted({cluster for action in actions if (cluster := getattr(action, "cluster", ""))})
    return tuple(
        f"{cluster}: the types of plugin {plugin} can't be read, so all its values are treated as secrets ({cause})"
        for cluster in clusters
        for plugin, cause in PLUGIN_KEYS.find_causes(cluster).items()
    )
