"""How a connector of some version is made to stand still, and what brings it back: chosen once, for every verb.

From 3.5 on it is stopped. Before, workers know no stop: it is deleted for a while, and created again as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from seamark.change.steps.aside import BringBack, SetAside
from seamark.change.steps.meanwhile import RunMeanwhile
from seamark.change.steps.run_state import SetRunState
from seamark.change.steps.stillness import Kept
from seamark.connect.capability import Capability
from seamark.errors import AuthorizationError, NotFoundError, SeamarkError
from seamark.fleet.lock_names import build_locks
from seamark.fleet.moving.guards import build_restore, require_run_state
from seamark.fleet.moving.keeping import require_kept
from seamark.model.connector import Connector, ConnectorType, State
from seamark.model.plan import Plan

if TYPE_CHECKING:
    from seamark.change.step import Step
    from seamark.change.world import OffsetPort, World
    from seamark.context import ConnectSettings, Context
    from seamark.fleet.clusters import Clusters
    from seamark.fleet.ports import ConnectPort
    from seamark.fleet.sealed_keys import SealedKeys

_RUNNING = "RUNNING"


@dataclass(frozen=True, slots=True)
class Standing:
    """How a connector stands still: stopped, or deleted for a while where `kept` is what it was.

    `has_rest` says whether its workers take offsets themselves. `notes` are for the reader of the plan.
    """

    has_rest: bool
    kept: Kept | None = None
    notes: tuple[str, ...] = ()


def choose_standing(
    connector: Connector, client: ConnectPort, *, settings: ConnectSettings, context: Context, sealed: SealedKeys
) -> Standing:
    """The way for a connector that is there.

    Raises:
        UnsupportedError: a standalone worker that takes no offsets; its file is for `connect-offsets`.
        RefusedError: it would have to be deleted for a while, and its config holds secrets that nobody could restore,
            or would not be taken again.
    """
    capabilities = client.read_capabilities()
    if capabilities.has(Capability.WRITE_OFFSETS):
        return Standing(has_rest=True)
    if settings.offsets_file is not None:
        capabilities.require(Capability.WRITE_OFFSETS, doing=f"change the offsets of {connector.owner}")
    where = "in its consumer group" if connector.type is ConnectorType.SINK else "in the offsets topic"
    words = f"its workers run Connect {capabilities.words}"
    if capabilities.has(Capability.STOP):
        return Standing(has_rest=False, notes=(f"{words} and take no offsets: they are written {where}",))
    require_group_id(context, settings)
    # With the names that it has by default too: its group or topic may have been another.
    locks = build_locks(connector.name, [connector.config, {}], kind=connector.type, settings=settings)
    kept = require_kept(connector, client, sealed=sealed.find(f"connector/{connector.owner}", locks))
    notes = [f"{words} and can't stop it: it is deleted for a while, and its offsets are written {where}"]
    if connector.status is not None and connector.status.state is State.PAUSED:
        notes.append(f"{connector.name} runs for a moment when it is created again, then it is paused")
    return Standing(has_rest=False, kept=kept, notes=tuple(notes))


def require_group_id(context: Context, settings: ConnectSettings) -> None:
    """Refuse where nobody could ask the workers' group who runs what: it is how an absence is proven."""
    if settings.group_id is None:
        raise context.missing(f"connect.{settings.name}.group_id")


def refuse_blind(port: OffsetPort) -> None:
    """Refuse where we may not ask that group, before anything is deleted. That it can't be told just now is no harm."""
    try:
        port.find_holders()
    except AuthorizationError:
        raise
    except SeamarkError:
        return


def build_ends(connector: Connector, state: str, kept: Kept | None) -> tuple[Step, tuple[Step, ...]]:
    """The step that makes a connector stand still, and those that bring it back."""
    cluster, name = connector.cluster, connector.name
    if kept is None:
        # One that is stopped has nothing to do there, but is looked at: where it was resumed since, the plan is stale.
        return SetRunState(cluster, name, "STOPPED"), build_restore(connector, state)
    back: list[Step] = [BringBack(cluster, name, kept)]
    if state != _RUNNING:
        back.append(RunMeanwhile(cluster, name, state, kept))
    return SetAside(cluster, name, kept, state), tuple(back)


def keep_state(plan: Plan, steps: Sequence[Step], *, clusters: Clusters, world: World) -> tuple[Plan, tuple[Step, ...]]:
    """The way back from a change that had to delete connectors for a while: each is left in the state that it has."""
    states: dict[str, str] = {}
    kept: list[Step] = []
    data = []
    for step, old in zip(steps, plan.steps, strict=True):
        if isinstance(step, SetAside) and not step.state:
            with suppress(NotFoundError):
                found = clusters.client(step.cluster).read_connector(step.name)
                states[step.subject] = require_run_state(found, world)
            named = replace(step, state=states.get(step.subject, ""))
            kept.append(named)
            data.append(named.to_data(lane=old.lane, always=old.always))
            continue
        kept.append(step)
        data.append(old)
        state = states.get(step.subject, _RUNNING)
        if isinstance(step, BringBack) and state != _RUNNING:
            pause = RunMeanwhile(step.cluster, step.name, state, step.kept)
            kept.append(pause)
            data.append(pause.to_data(lane=old.lane, always=True))
    return replace(plan, steps=tuple(data)), tuple(kept)
