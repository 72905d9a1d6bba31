"""What steps read of a connector."""

from __future__ import annotations

from seamark.change.world import World
from seamark.errors import NotFoundError
from seamark.model.connector import ConnectorStatus, State

# Connect tells no target state. What a connector shows while it is meant to run is one of many words.
_MEANT = {State.PAUSED: "PAUSED", State.STOPPED: "STOPPED"}


def read_config(world: World, cluster: str, name: str) -> dict[str, str] | None:
    """The config without the name in it, or None where there is no such connector.

    Connect adds `name` to every config it is given; leaving it out makes what was sent and what is held comparable.
    """
    try:
        config = world.connect(cluster).read_config(name)
    except NotFoundError:
        return None
    return {key: value for key, value in config.items() if key != "name"}


def read_status(world: World, cluster: str, name: str) -> ConnectorStatus | None:
    """The status, or None where Connect has none to tell."""
    try:
        return world.connect(cluster).read_status(name)
    except NotFoundError:
        return None


def read_run_state(world: World, cluster: str, name: str) -> str | None:
    """What the connector is meant to do: RUNNING, PAUSED or STOPPED; None where Connect has no status."""
    status = read_status(world, cluster, name)
    return None if status is None else _MEANT.get(status.state, "RUNNING")
