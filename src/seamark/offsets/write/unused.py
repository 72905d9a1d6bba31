"""Whether a worker may use the offsets of connectors: those that are absent, or all while the workers are down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from seamark.changes.look import Look
from seamark.changes.step import Intent, Observed, step_kind
from seamark.changes.world import World
from seamark.connect.ports import CONNECT, WORKER_URLS
from seamark.errors import RefusedError, SeamarkError

_SETTLE_SECONDS = 60.0
LOOK_SECONDS = 0.5


@step_kind("prove-unused")
@dataclass(frozen=True, slots=True)
class ProveUnused(Look):
    """For so long nobody uses the offsets of these connectors: they are not there, in none of `clusters`.

    With `may_be_down` it is enough that the brokers know of no worker. A connector that was deleted a moment ago may
    still end its tasks, which write once more.
    """

    aspect: ClassVar[str] = "unused"
    settle_seconds: ClassVar[float] = _SETTLE_SECONDS

    clusters: tuple[str, ...]
    owners: tuple[str, ...]
    quiet_seconds: float
    may_be_down: bool = False

    @property
    def subject(self) -> str:
        return name_left(self.clusters, self.owners)

    def describe(self) -> str:
        return f"make sure that no worker of {' and '.join(self.clusters)} uses {self.subject}"

    def perform(self, world: World, intent: Intent) -> None:
        del intent
        began_at = world.clock.now()
        while True:
            refuse_used(world, self.clusters, self.owners, may_be_down=self.may_be_down)
            if world.clock.now() - began_at >= self.quiet_seconds:
                return
            world.clock.sleep(min(LOOK_SECONDS, self.quiet_seconds))

    def observe(self, world: World, intent: Intent) -> Observed:
        del intent
        there = find_users(world, self.clusters, self.owners, may_be_down=self.may_be_down)
        return Observed.BEFORE if there else Observed.AFTER


def name_left(clusters: Sequence[str], owners: Sequence[str]) -> str:
    """What connectors left behind, as a subject. Each step speaks of owners of its own."""
    if not clusters or not owners:
        raise RefusedError("records without a connector that they belong to", hint="create a new plan")
    others = f" and {len(owners) - 1} more" if len(owners) > 1 else ""
    return f"offsets/{clusters[0]}/{owners[0]}{others}"


def find_users(world: World, clusters: Sequence[str], owners: Sequence[str], *, may_be_down: bool) -> tuple[str, ...]:
    """Those of these connectors that are there, with their cluster.

    Raises:
        SeamarkError: a worker is up, and nobody can tell which connectors there are.
    """
    wanted = frozenset(owners)
    return tuple(
        f"{cluster}/{name}"
        for cluster in clusters
        if not may_be_down or world.use(WORKER_URLS)(cluster)
        for name in sorted(wanted.intersection(world.use(CONNECT)(cluster).read_names()))
    )


def refuse_used(world: World, clusters: Sequence[str], owners: Sequence[str], *, may_be_down: bool) -> None:
    """Refuse to write where a worker runs one of these connectors, or may run it."""
    try:
        there = find_users(world, clusters, owners, may_be_down=may_be_down)
    except SeamarkError as error:
        raise RefusedError(
            f"nobody can tell whether a worker of {' or '.join(clusters)} uses these offsets; nothing was changed",
            cause=f"{error.message}: {error.cause}" if error.cause else error.message,
            hint="make the workers' REST API reachable from here" + (", or stop all workers" if may_be_down else ""),
        ) from error
    if there:
        raise RefusedError(
            f"{', '.join(there[:10])} {'is' if len(there) == 1 else 'are'} there by now; nothing was changed",
            cause="a worker is up, and somebody created it meanwhile",
            hint="look at it: seamark offsets move and forget change the offsets of connectors that are there",
        )
