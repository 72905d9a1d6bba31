"""Ensure that a connector has no tasks while its offsets are written: it is stopped, or not created yet.

Workers before 3.7 can't create a connector in the STOPPED state. Its offsets are written first, and the steps carry the
config that it will have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from seamark.changes.action import read_within_deadline
from seamark.changes.codec import SecretConfig
from seamark.changes.environment import Environment
from seamark.connect.capability import Capability
from seamark.connect.config import OWN_OFFSETS_TOPIC, find_group
from seamark.connect.model import Connector, ConnectorStatus, State
from seamark.connectors.read import read_config, read_status
from seamark.core.refs import ConnectorType
from seamark.errors import AuthorizationError, RefusedError, SeamarkError, UnsupportedError
from seamark.offsets.port import OFFSETS, OffsetPort

if TYPE_CHECKING:
    from seamark.connect.api import ConnectPort
    from seamark.context import ConnectSettings, Context


@dataclass(frozen=True, slots=True)
class QuiesceMethod:
    """How the offsets of a stopped connector are written.

    `has_rest` states whether its workers accept offsets through REST. `notes` are shown with the plan.
    """

    has_rest: bool
    notes: tuple[str, ...] = ()


def choose_quiesce_method(connector: Connector, client: ConnectPort, *, settings: ConnectSettings) -> QuiesceMethod:
    """Choose the method for an existing connector.

    Raises:
        UnsupportedError: A standalone worker that accepts no offsets (use `connect-offsets` for its file), or workers
            that can't stop a connector.
    """
    capabilities = client.read_capabilities()
    if capabilities.has(Capability.WRITE_OFFSETS):
        return QuiesceMethod(has_rest=True)
    if settings.offsets_file is not None:
        capabilities.require(Capability.WRITE_OFFSETS, doing=f"change the offsets of {connector.owner}")
    if not capabilities.has(Capability.STOP):
        raise _build_unstoppable(connector, settings, version=capabilities.words)
    where = "in its consumer group" if connector.type is ConnectorType.SINK else "in the offsets topic"
    words = f"its workers run Connect {capabilities.words}"
    return QuiesceMethod(
        has_rest=False, notes=(f"{words} and can't write offsets through REST: they are written {where}",)
    )


def _build_unstoppable(connector: Connector, settings: ConnectSettings, *, version: str) -> UnsupportedError:
    """Build the error for workers before 3.5, with the offline procedure if there is one."""
    hint = "upgrade every worker to 3.5 or later"
    if connector.type is ConnectorType.SINK:
        group = find_group(connector.name, connector.config, settings)
        hint = f"stop all workers of {connector.cluster} and use seamark groups move {group}, or {hint}"
    elif not connector.config.get(OWN_OFFSETS_TOPIC):
        # connect-offsets supports only the workers' topic: it would write to a topic that this connector does not read.
        hint = f"stop all workers of {connector.cluster} and use connect-offsets --import, or {hint}"
    return UnsupportedError(
        f"can't change the offsets of {connector.owner}; no changes were made",
        cause=f"its workers run Connect {version}, which can't stop a connector (since 3.5)",
        hint=hint,
        context={"cluster": connector.cluster, "version": version, "since": "3.5"},
    )


def require_group_id(context: Context, settings: ConnectSettings) -> None:
    """Raise if the worker group can't be asked for its assignments: they are the proof that no worker runs a task."""
    if settings.group_id is None:
        raise context.missing(f"connect.{settings.name}.group_id")


def refuse_blind(port: OffsetPort) -> None:
    """Raise if seamark is not authorized to read the worker group, before anything is written.

    Other errors, such as a rebalance in progress, are ignored here.
    """
    try:
        port.find_holders()
    except AuthorizationError:
        raise
    except SeamarkError:
        return


# Part of the 5 s that a final check may take: a rebalance of an idle Connect cluster takes less.
_UNASSIGNED_SECONDS = 3.5
_LOOK_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class ConnectorSnapshot:
    """Type and config of a connector that Connect does not have yet: enough to find its offsets.

    Plans and the journal store it without literal secrets.
    """

    type: ConnectorType
    config: Annotated[Mapping[str, str], SecretConfig()] = field(repr=False)

    def as_connector(self, cluster: str, name: str) -> Connector:
        """Return the connector, without a status."""
        return Connector(name, cluster, self.type, self.config)


def build_snapshot(connector: Connector) -> ConnectorSnapshot:
    """Build the snapshot of a connector. Connect adds the name to its config; the snapshot omits it."""
    return ConnectorSnapshot(connector.type, {key: value for key, value in connector.config.items() if key != "name"})


def open_offsets(world: Environment, cluster: str, name: str, kept: ConnectorSnapshot | None) -> OffsetPort:
    """Open the offsets of a stopped connector."""
    if kept is None:
        return world.use(OFFSETS)(cluster, name)
    return world.use(OFFSETS)(cluster, name, kept=kept.as_connector(cluster, name))


def refuse_moving(
    world: Environment, cluster: str, name: str, kept: ConnectorSnapshot | None = None, *, is_checked: bool = False
) -> None:
    """Raise if a connector is not stopped, directly before its offsets are written.

    During any rebalance a stopped connector is also shown as UNASSIGNED, so this waits a short time; with `is_checked`
    Connect itself checks the target state, so it need not be known. A worker that lags may list tasks of a connector
    that it shows as STOPPED; this waits for that, too.
    """
    subject = f"connector/{cluster}/{name}"
    if kept is not None:
        read_within_deadline(world, subject, lambda: _require_gone_now(world, cluster, name))
        return
    status = read_within_deadline(world, subject, lambda: _read_settled(world, cluster, name, is_checked=is_checked))
    if status is None or not (is_checked and _is_unassigned(status)):
        require_stopped(status, subject)


def _require_gone_now(world: Environment, cluster: str, name: str) -> None:
    status, config = read_status(world, cluster, name), read_config(world, cluster, name)
    require_gone(status, config, f"connector/{cluster}/{name}")


def _read_settled(world: Environment, cluster: str, name: str, *, is_checked: bool) -> ConnectorStatus | None:
    """Read the status once it shows the target state, or when the time is over."""
    deadline = world.clock.now() + _UNASSIGNED_SECONDS
    while (status := read_status(world, cluster, name)) is not None:
        is_stopping = status.state is State.STOPPED and bool(status.tasks)
        may_settle = is_stopping or (_is_unassigned(status) and not is_checked)
        if not may_settle or world.clock.now() >= deadline:
            break
        world.clock.sleep(_LOOK_SECONDS)
    return status


def _is_unassigned(status: ConnectorStatus) -> bool:
    """Return whether the target state is unknown. A connector with tasks is not stopped, whatever state is shown."""
    return status.state is State.UNASSIGNED and not status.tasks


def require_gone(status: ConnectorStatus | None, config: Mapping[str, str] | None, subject: str) -> None:
    """Raise if a connector exists that should not."""
    if status is not None or config is not None:
        seen = "with a config and no status yet" if status is None else f"{status.state} with {len(status.tasks)} tasks"
        raise RefusedError(
            f"{subject} exists, and must not while its offsets are written; no changes were made",
            cause=f"it is {seen}",
            hint="check who created it, then run the command again",
        )


def require_stopped(status: ConnectorStatus | None, subject: str) -> None:
    """Raise if a connector is not stopped."""
    if status is None or status.state is not State.STOPPED or status.tasks:
        seen = "without a status" if status is None else f"{status.state} with {len(status.tasks)} tasks"
        raise RefusedError(
            f"{subject} is not stopped; no changes were made",
            cause=f"it is {seen}",
            hint="check who resumed it, then run the command again",
        )
