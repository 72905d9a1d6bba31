"""What steps read of a connector."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from seamark.changes.environment import Environment
from seamark.changes.images import build_config_image, is_same_image
from seamark.changes.step import Intent, Observed
from seamark.connect.api import CONNECT, STATUSES
from seamark.connect.model import ConnectorStatus, State
from seamark.core.secrets import MASK
from seamark.errors import NotFoundError, RefusedError, UnsettledError

# Connect tells no target state, only what it shows. A failed connector is meant to run. While a worker leaves or a
# rebalance goes on, a paused connector shows the same words as a running one: nobody can tell what it is meant to do.
_MEANT = {
    State.RUNNING: "RUNNING",
    State.FAILED: "RUNNING",
    State.PAUSED: "PAUSED",
    State.STOPPED: "STOPPED",
}


def read_config(world: Environment, cluster: str, name: str) -> dict[str, str] | None:
    """The config without the name in it, or None where there is no such connector.

    Connect adds `name` to every config it is given; leaving it out makes what was sent and what is held comparable.
    """
    try:
        config = world.use(CONNECT)(cluster).read_config(name)
    except NotFoundError:
        return None
    return {key: value for key, value in config.items() if key != "name"}


def read_status(world: Environment, cluster: str, name: str) -> ConnectorStatus | None:
    """The status, or None where Connect has none to tell."""
    try:
        return world.use(STATUSES)(cluster, name)
    except NotFoundError:
        return None


def find_run_state(status: ConnectorStatus) -> str | None:
    """What a connector with this status is meant to do: RUNNING, PAUSED or STOPPED; None while nobody can tell."""
    return _MEANT.get(status.state)


def read_run_state(world: Environment, cluster: str, name: str) -> str | None:
    """What the connector is meant to do: RUNNING, PAUSED or STOPPED; None where Connect has no status.

    Raises:
        UnsettledError: Connect can't tell just now.
    """
    status = read_status(world, cluster, name)
    return None if status is None else tell_run_state(status, f"connector/{cluster}/{name}")


def tell_run_state(status: ConnectorStatus, subject: str) -> str:
    """What a connector with this status is meant to do.

    Raises:
        UnsettledError: Connect can't tell just now.
    """
    state = find_run_state(status)
    if state is None:
        raise UnsettledError(
            f"can't tell whether {subject} is meant to run",
            cause=f"its status is {status.state}, which a running and a paused connector show alike",
            hint="wait until the rebalance is over, then repeat it",
        )
    return state


def refuse_hidden(config: Mapping[str, str], subject: str) -> None:
    """Refuse a config whose secrets were left out when its plan was saved or journalled."""
    hidden = sorted(key for key, value in config.items() if value == MASK)
    if hidden:
        raise RefusedError(
            f"the plan does not hold the secrets of {subject}",
            cause=f"hidden when the plan was saved: {', '.join(hidden)}",
            hint="make the plan anew from the file, or write the values as secret:// references",
        )


def read_config_image(world: Environment, cluster: str, name: str, *, secret: Collection[str]) -> dict[str, Any] | None:
    """The image of the config that Connect holds, or None where there is no such connector."""
    config = read_config(world, cluster, name)
    if config is None:
        return None
    return {"config": build_config_image(config, world, cluster=cluster, secret=secret)}


def compare_config(image: Any, intent: Intent, world: Environment) -> Observed:
    """Return where the image of a config is between an intent's before and after."""
    now, before, after = ((found or {}).get("config") for found in (image, intent.before, intent.after))
    if is_same_image(now, after, world):
        return Observed.AFTER
    return Observed.BEFORE if is_same_image(now, before, world) else Observed.FOREIGN
