"""The same acts on the simulated Connect and on another one, to hold the simulation to it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from seamark.connect.api import ConnectStepPort
from seamark.connectors.read import find_run_state
from seamark.errors import NotFoundError, SeamarkError

VERBS = ("create", "create paused", "create stopped", "put", "delete", "pause", "resume", "stop", "restart")
# What a version of the config is told by, in a key that file sources know.
VERSION_KEY = "batch.size"


def build_trace(seed: int, *, length: int = 6) -> tuple[tuple[str, str], ...]:
    """Acts with the version of the config that they carry."""
    rng = random.Random(seed)
    return tuple((rng.choice(VERBS), str(rng.randint(1, 9))) for _ in range(length))


def run_trace(
    port: ConnectStepPort,
    trace: tuple[tuple[str, str], ...],
    *,
    name: str,
    config: Mapping[str, str],
    settle: Callable[[Callable[[], str]], str],
) -> list[str]:
    """Do the acts one after the other; after each, what it was answered and what is shown when it has settled."""
    told = []
    for verb, version in trace:
        answer = _act(port, verb, name, {**config, VERSION_KEY: version})
        told.append(f"{verb} {version}: {answer}; {settle(lambda: _look(port, name))}")
    return told


def _act(port: ConnectStepPort, verb: str, name: str, config: Mapping[str, str]) -> str:
    first, _, state = verb.partition(" ")
    acts: dict[str, Callable[[], object]] = {
        "create": lambda: port.create_connector(name, config, initial_state=state.upper() or None),
        "put": lambda: port.put_config(name, config),
        "delete": lambda: port.delete_connector(name),
        "pause": lambda: port.pause(name),
        "resume": lambda: port.resume(name),
        "stop": lambda: port.stop(name),
        "restart": lambda: port.restart(name, include_tasks=True, only_failed=True),
    }
    try:
        acts[first]()
    except SeamarkError as error:
        return error.code
    return "done"


def _look(port: ConnectStepPort, name: str) -> str:
    try:
        version = port.read_config(name)[VERSION_KEY]
    except NotFoundError:
        version = "none"
    try:
        status = port.read_status(name)
    except NotFoundError:
        return f"version {version}, no status"
    tasks = "tasks" if status.tasks else "no tasks"
    return f"version {version}, {find_run_state(status)}, {tasks}"
