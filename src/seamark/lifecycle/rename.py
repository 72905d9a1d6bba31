"""A connector gets another name. Connect knows no such thing: another one is created, and the first one deleted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from seamark.changes.planned import Planned
from seamark.connect.capability import Capability
from seamark.connect.clusters import Clusters
from seamark.connect.config import OWN_GROUP, find_group, find_offsets_topic
from seamark.connect.connector import Connector
from seamark.core.refs import ConnectorType
from seamark.errors import RefusedError, SeamarkError, UsageError
from seamark.lifecycle.actions import RenameConnector
from seamark.offsets.write.copy_offsets import read_copied
from seamark.offsets.write.guards import require_run_state
from seamark.report.words import render_count

if TYPE_CHECKING:
    from seamark.connect import Capabilities
    from seamark.connect.api import ConnectPort
    from seamark.connectors.plans import ConnectorPlans
    from seamark.core.offset import Offset


@dataclass(frozen=True, slots=True)
class Loss:
    """What the new name does not find again, and the way around it, if there is one."""

    words: str
    way_around: str = ""


def plan_rename(
    plans: ConnectorPlans,
    connector: Connector,
    name: str,
    *,
    clusters: Clusters,
    accept_loss: bool,
) -> Planned:
    """The plan: create the new one, stopped where the workers can, delete the old one, let the new one run.

    From Connect 3.7 on its offsets go along; before, their loss must be accepted.

    The config is taken as Connect holds it; literal secrets in it stay in memory and are in no plan, file or journal.
    """
    if name == connector.name:
        raise UsageError(f"{name} is its name already", hint="give another one")
    client, settings = clusters.client(connector.cluster), clusters.settings(connector.cluster)
    require_run_state(connector, plans.planner.world)
    capabilities = client.read_capabilities()
    plans.refuse_present(connector.cluster, name)
    config = {key: value for key, value in connector.config.items() if key != "name"}
    losses = find_losses(connector, name, client=client, clusters=clusters)
    can_carry = capabilities.has(Capability.INITIAL_STATE) and connector.type is not ConnectorType.UNKNOWN
    held = _count_carried(plans, connector, accept_loss=accept_loss) if losses and can_carry else 0
    if losses and not held and not accept_loss:
        raise build_refusal(connector, name, losses)
    notes = _build_notes(connector, name, config, capabilities=capabilities)
    if held:
        notes = (*_build_carried_notes(connector, name, held), *notes)
    else:
        left = plans.leftovers.before_create(name, config, kind=connector.type, settings=settings)
        notes = (*(f"lost: {loss.words}" for loss in losses), *notes, *left)
    return plans.planner.plan(
        f"rename {connector.name} to {name}",
        [RenameConnector(connector.cluster, connector.name, name, carries=bool(held))],
        notes=notes,
    )


def _count_carried(plans: ConnectorPlans, connector: Connector, *, accept_loss: bool) -> int:
    """How many offsets can go along; none where nobody can tell and their loss is accepted."""
    try:
        return len(read_copied(plans.planner.world, connector.cluster, connector.name))
    except SeamarkError as error:
        if accept_loss:
            return 0
        error.hint = "; ".join([*([error.hint] if error.hint else []), "--accept-loss renames it without its offsets"])
        raise


def find_losses(connector: Connector, name: str, *, client: ConnectPort, clusters: Clusters) -> tuple[Loss, ...]:
    """Which positions the connector would not have under the new name."""
    settings = clusters.settings(connector.cluster)
    offsets, trouble = _read_offsets(client, connector.name)
    if offsets == ():
        return ()
    losses = []
    if connector.type is not ConnectorType.SINK:
        topic = find_offsets_topic(connector.config, settings) or "the workers' offsets topic"
        held = "offsets, nobody tells how many" if offsets is None else render_count(len(offsets), "source offset")
        losses.append(
            Loss(
                f"{held}{trouble} of {connector.name} in {topic}: {name} does not see them and begins at its beginning"
            )
        )
    if connector.type is not ConnectorType.SOURCE:
        old, new = (find_group(one, connector.config, settings) for one in (connector.name, name))
        if old != new:
            losses.append(
                Loss(
                    f"the place of group {old}{trouble}: {name} reads as group {new}, which begins anew",
                    way_around=f"seamark connectors change {connector.owner} --set {OWN_GROUP}={old} keeps the group, "
                    "also under the new name",
                )
            )
    return tuple(losses)


def build_refusal(connector: Connector, name: str, losses: tuple[Loss, ...]) -> RefusedError:
    """Why nothing is done without `--accept-loss`."""
    ways = [loss.way_around for loss in losses if loss.way_around]
    return RefusedError(
        f"as {name}, {connector.name} would lose its place",
        cause="; ".join(loss.words for loss in losses),
        hint="; ".join([*ways, "--accept-loss renames it all the same; --dry-run shows the plan"]),
        context={"cluster": connector.cluster, "connector": connector.name},
    )


def _build_carried_notes(connector: Connector, name: str, held: int) -> tuple[str, ...]:
    old = connector.name
    along = f"1 offset goes along, as {old} holds it when it has stopped"
    if held != 1:
        along = f"{render_count(held, 'offset')} go along, as {old} holds them when it has stopped"
    return along, f"an undo lets {old} go on from there too: what {name} reads until then is read again"


def _build_notes(
    connector: Connector, name: str, config: dict[str, str], *, capabilities: Capabilities
) -> tuple[str, ...]:
    notes = []
    if not capabilities.has(Capability.INITIAL_STATE):
        why = f"a worker runs {capabilities.words}, and creating one as STOPPED came with 3.7"
        notes.append(f"{connector.name} and {name} both run for a moment: {why}")
    naming = sorted(key for key, value in config.items() if connector.name in value)
    if naming:
        notes.append(f"these keys hold the old name and stay as they are: {', '.join(naming)}")
    return tuple(notes)


def _read_offsets(client: ConnectPort, name: str) -> tuple[tuple[Offset, ...] | None, str]:
    """The offsets, or None and why nobody tells them."""
    try:
        return client.read_offsets(name), ""
    except SeamarkError as error:
        return None, f" ({error.message})"
