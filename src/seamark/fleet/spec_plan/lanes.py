"""The steps for one connector of a spec, from what is to what should be. They stand or fall together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from seamark.change.image import find_references
from seamark.change.step import Step
from seamark.change.steps.await_running import AwaitRunning, is_running
from seamark.change.steps.connector import CreateConnector, DeleteConnector, PutConfig
from seamark.fleet.connector_life.config import split_secrets
from seamark.model.connector import Connector, State
from seamark.model.plan import StepData

# A rebalance, a restart and the first connection of a task; a database that does not answer is given up by then too.
WAIT_SECONDS = 60.0
# Most configs that can't work fail at once; some fail when the first rows are read.
STABLE_SECONDS = 3.0
_AT_REST = frozenset({State.PAUSED, State.STOPPED})


@dataclass(frozen=True, slots=True)
class LaneStep:
    """One step of a lane. A `fallback` runs only after a failure, where the lane has acted."""

    step: Step
    fallback: bool = False

    def to_data(self) -> StepData:
        """As a plan holds it; the lane is the connector."""
        return replace(self.step.to_data(lane=self.step.subject), fallback=self.fallback)


def build_lane(
    cluster: str,
    name: str,
    *,
    present: Connector | None,
    config: Mapping[str, str] | None,
    state: str = "",
    secret: Sequence[str] = (),
    revealed: Mapping[str, str] | None = None,
    wait_seconds: float = WAIT_SECONDS,
    stable_seconds: float = STABLE_SECONDS,
) -> tuple[LaneStep, ...]:
    """The steps from `present` to `config`; None stands for a connector that is not there.

    `state` is how a new one begins. `secret` are keys that hold secrets, though their names do not say so. `revealed`
    is the config with its references looked up: what stays the same needs no place in the way back. The first
    step is the one that changes the config: the plan's line and its precondition are told from it. One that shall run
    is waited for; where it did run before and does not within `wait_seconds`, its former config is put back.
    """
    hidden = tuple(secret)
    wait = AwaitRunning(cluster, name, deadline_seconds=wait_seconds, stable_seconds=stable_seconds)
    if config is None:
        return (LaneStep(DeleteConnector(cluster, name, secret=hidden)),)
    if present is None:
        begins = state or "RUNNING"
        create = LaneStep(CreateConnector(cluster, name, dict(config), state=begins, secret=hidden))
        return (create, LaneStep(wait)) if begins == "RUNNING" else (create,)
    held = {key: value for key, value in present.config.items() if key != "name"}
    put = LaneStep(_build_put(cluster, name, config, over=held, secret=hidden))
    if present.status is None or present.status.state in _AT_REST:
        return (put,)
    if not is_running(present.status):
        # What did not run before is no place to go back to.
        return (put, LaneStep(wait))
    # Where the config has a reference, what Connect holds may be a secret as well.
    back = _build_put(cluster, name, held, over=revealed or config, secret=hidden + find_references(config))
    back = replace(back, hidden=tuple(key for key in back.secret if key in back.config))
    return (put, LaneStep(wait), LaneStep(back, fallback=True), LaneStep(wait, fallback=True))


def _build_put(
    cluster: str, name: str, config: Mapping[str, str], *, over: Mapping[str, str], secret: tuple[str, ...]
) -> PutConfig:
    """The step that replaces one config by another; literal secrets that are in both stay out of the plan."""
    shown, kept = split_secrets(config, over)
    return PutConfig(cluster, name, shown, keep=kept, secret=secret)
