"""Every kind of step, by its name."""

from __future__ import annotations

from seamark.change.step import Step
from seamark.change.steps.await_running import AwaitRunning
from seamark.change.steps.connector import CreateConnector, DeleteConnector, PutConfig
from seamark.change.steps.logger import SetLogger
from seamark.change.steps.run_state import RestartFailed, SetRunState
from seamark.errors import UsageError
from seamark.model.plan import StepData

STEPS: dict[str, type[Step]] = {
    step.kind: step
    for step in (AwaitRunning, CreateConnector, PutConfig, DeleteConnector, SetRunState, RestartFailed, SetLogger)
}


def build_step(data: StepData) -> Step:
    """The step that a plan's data describes."""
    kind = STEPS.get(data.kind)
    if kind is None:
        raise UsageError(
            f"this seamark does not know the step {data.kind!r}", hint="apply the plan with the version that made it"
        )
    return kind.from_data(data)
