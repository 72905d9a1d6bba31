"""Read a connector's config and state for steps."""

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

# Connect reports only the current state, not the target state. A failed connector is meant to run. While a worker
# leaves or a rebalance is in progress, a paused connector shows the same states as a running one, so the target state
# is unknown.
_MEANT = {
    State.RUNNING: "RUNNING",
    State.FAILED: "RUNNING",
    State.PAUSED: "PAUSED",
    State.STOPPED: "STOPPED",
}


def read_config(world: Environment, cluster: str, name: str) -> dict[str, str] | None:
    """Read the config without the name in it; None if the connector does not exist.

    Connect adds `name` to every config it is given; without it, the sent and the stored config can be compared.
    """
    try:
        config = world.use(CONNECT)(cluster).read_config(name)
    except NotFoundError:
        return None
    return {key: value for key, value in config.items() if key != "name"}


def read_status(world: Environment, cluster: str, name: str) -> ConnectorStatus | None:
    """Read the status; None if Connect has none."""
    try:
        return world.use(STATUSES)(cluster, name)
    except NotFoundError:
        return None


def find_run_state(status: ConnectorStatus) -> str | None:
    """Return the target state for a status: RUNNING, PAUSED or STOPPED; None while it is unknown."""
    return _MEANT.get(status.state)


def read_run_state(world: Environment, cluster: str, name: str) -> str | None:
    """Read the target state of a connector: RUNNING, PAUSED or STOPPED; None if Connect has no status.

    Raises:
        UnsettledError: The target state is unknown at present.
    """
    status = read_status(world, cluster, name)
    return None if status is None else tell_run_state(status, f"connector/{cluster}/{name}")


def tell_run_state(status: ConnectorStatus, subject: str) -> str:
    """Return the target state for a status.

    Raises:
        UnsettledError: The target state is unknown at present.
    """
    state = find_run_state(status)
    if state is None:
        raise UnsettledError(
            f"can't determine whether {subject} is meant to run",
            cause=f"its status is {status.state}, which is the same for a running and a paused connector",
            hint="wait until the rebalance has ended, then run the command again",
        )
    return state


def refuse_hidden(config: Mapping[str, str], subject: str) -> None:
    """Raise for a config whose secrets were omitted when its plan was saved or journaled."""
    hidden = sorted(key for key, value in config.items() if value == MASK)
    if hidden:
        raise RefusedError(
            f"the plan doesn't contain the secrets of {subject}",
            cause=f"omitted when the plan was saved: {', '.join(hidden)}",
            hint="create a new plan from the file, or write the values as secret:// references",
        )


def read_config_image(world: Environment, cluster: str, name: str, *, secret: Collection[str]) -> dict[str, Any] | None:
    """Read the image of the config that Connect has; None if the connector does not exist."""
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
