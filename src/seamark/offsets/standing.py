"""How a connector of some version is made to stand still while its offsets are written: chosen once, for every verb."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from seamark.connect.capability import Capability
from seamark.connect.config import OWN_OFFSETS_TOPIC, find_group
from seamark.connect.connector import Connector
from seamark.core.refs import ConnectorType
from seamark.errors import AuthorizationError, SeamarkError, UnsupportedError

if TYPE_CHECKING:
    from seamark.connect.api import ConnectPort
    from seamark.context import ConnectSettings, Context
    from seamark.offsets.port import OffsetPort


@dataclass(frozen=True, slots=True)
class QuiesceMethod:
    """How the offsets of a stopped connector are written.

    `has_rest` says whether its workers take offsets themselves. `notes` are for the reader of the plan.
    """

    has_rest: bool
    notes: tuple[str, ...] = ()


def choose_standing(connector: Connector, client: ConnectPort, *, settings: ConnectSettings) -> QuiesceMethod:
    """The way for a connector that is there.

    Raises:
        UnsupportedError: a standalone worker that takes no offsets; its file is for `connect-offsets`. Or workers that
            can't stop a connector.
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
    return QuiesceMethod(has_rest=False, notes=(f"{words} and take no offsets: they are written {where}",))


def _build_unstoppable(connector: Connector, settings: ConnectSettings, *, version: str) -> UnsupportedError:
    """Build the error for workers before 3.5, with the offline way where there is one."""
    hint = "upgrade every worker to 3.5 or later"
    if connector.type is ConnectorType.SINK:
        group = find_group(connector.name, connector.config, settings)
        hint = f"stop all workers of {connector.cluster} and use seamark groups move {group}, or {hint}"
    elif not connector.config.get(OWN_OFFSETS_TOPIC):
        # connect-offsets knows the workers' topic only: it would write where this connector doesn't read.
        hint = f"stop all workers of {connector.cluster} and use connect-offsets --import, or {hint}"
    return UnsupportedError(
        f"can't change the offsets of {connector.owner}; no changes were made",
        cause=f"its workers run Connect {version}, which can't stop a connector (since 3.5)",
        hint=hint,
        context={"cluster": connector.cluster, "version": version, "since": "3.5"},
    )


def require_group_id(context: Context, settings: ConnectSettings) -> None:
    """Refuse where nobody could ask the workers' group who runs what: it is how an absence is proven."""
    if settings.group_id is None:
        raise context.missing(f"connect.{settings.name}.group_id")


def refuse_blind(port: OffsetPort) -> None:
    """Refuse where we may not ask that group, before anything is written. That it can't be told just now is no harm."""
    try:
        port.find_holders()
    except AuthorizationError:
        raise
    except SeamarkError:
        return
