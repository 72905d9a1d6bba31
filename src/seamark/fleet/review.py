"""A plan that comes from a file is data from outside: it is checked before anybody is asked to say yes to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from seamark.change.precondition import BEFORE, aspect_of
from seamark.change.step import Step
from seamark.change.steps import build_step
from seamark.change.steps.connector import CreateConnector, PutConfig
from seamark.errors import NotFoundError, RefusedError, UsageError
from seamark.fleet.clusters import Clusters
from seamark.fleet.lock_names import build_locks
from seamark.fleet.plan_file import find_hidden
from seamark.fleet.plugin_type import find_type
from seamark.model.connector import ConnectorType
from seamark.model.plan import Plan

_AGAIN = "make the plan anew"


def build_steps(plan: Plan) -> tuple[Step, ...]:
    """The steps that a plan's data describe; what is no step is refused by its number."""
    steps = []
    for number, data in enumerate(plan.steps):
        try:
            steps.append(build_step(data))
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise UsageError(
                f"step {number} of the plan is not a step of seamark", cause=type(error).__name__, hint=_AGAIN
            ) from None
    return tuple(steps)


def refuse_foreign_context(plan: Plan, context: str) -> None:
    """Refuse a plan that was made for another context."""
    if plan.context != context:
        raise RefusedError(
            f"the plan was made for context {plan.context}, and this is {context}",
            hint=f"--context {plan.context}, if that is what you want",
        )


def refuse_hidden(plan: Plan) -> None:
    """Refuse a plan whose secrets were left out when it was saved."""
    hidden = find_hidden(plan)
    if hidden:
        raise RefusedError(
            "the plan does not hold the secrets it needs",
            cause=f"left out when it was saved: {', '.join(hidden)}",
            hint="make the plan anew and apply it at once, or write the values as secret:// references",
        )


def refuse_unguarded(plan: Plan, steps: Sequence[Step], clusters: Clusters) -> None:
    """Refuse a plan whose file lacks a lock or a precondition that its steps need: it was changed by hand."""
    wanted = {aspect_of(step) for step in steps if not step.drifts}
    guarded = {found.subject for found in plan.preconditions if found.kind == BEFORE}
    locks = {lock for step in steps for lock in _find_locks(step, clusters)}
    if missing := sorted((wanted - guarded) | (locks - set(plan.locks))):
        raise RefusedError(
            "the plan does not guard what it changes",
            cause=f"no lock or no precondition for {', '.join(missing)}",
            hint=f"{_AGAIN}: this one was changed by hand, or its context tells other topics and groups than yours",
        )


def _find_locks(step: Step, clusters: Clusters) -> tuple[str, ...]:
    cluster, name = getattr(step, "cluster", None), getattr(step, "name", None)
    if not isinstance(cluster, str) or not isinstance(name, str):
        return ()
    own: list[Mapping[str, str]] = [step.config] if isinstance(step, CreateConnector | PutConfig) else []
    settings = clusters.settings(cluster)
    try:
        found = clusters.client(cluster).read_connector(name)
    except NotFoundError:
        kind = _find_new_type(step, clusters)
        return build_locks(name, own or [{}], kind=kind, settings=settings)
    return build_locks(name, [found.config, *own], kind=found.type, settings=settings)


def _find_new_type(step: Step, clusters: Clusters) -> ConnectorType:
    if not isinstance(step, CreateConnector):
        return ConnectorType.UNKNOWN
    plugins = clusters.client(step.cluster).read_plugins()
    return find_type(plugins, step.config.get("connector.class", ""))
