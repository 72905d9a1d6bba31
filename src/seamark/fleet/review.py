"""A plan that comes from a file is data from outside: it is checked before anybody is asked to say yes to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from seamark.change.codec import CodecError
from seamark.change.locks import base_name, cluster_lock, group_lock, pipeline_lock, topic_lock
from seamark.change.plan import Plan
from seamark.change.precondition import BEFORE, aspect_of, build_stale, is_expected
from seamark.change.prepare import PreparedAction
from seamark.change.step import Step
from seamark.change.steps import build_step
from seamark.change.steps.connector import CreateConnector, PutConfig
from seamark.change.steps.logger import SetLogger
from seamark.errors import NotFoundError, RefusedError, UsageError
from seamark.fleet.clusters import Clusters
from seamark.fleet.connector_life.plugin_type import find_type
from seamark.fleet.lock_names import build_locks, build_loggers_lock
from seamark.fleet.plan_file import find_masked_keys
from seamark.fleet.ports import ConnectPort
from seamark.model.connector import Connector, ConnectorType

if TYPE_CHECKING:
    from seamark.context import ConnectSettings

_AGAIN = "make the plan anew"
_MANY = 12


def build_steps(plan: Plan) -> tuple[Step, ...]:
    """The steps that a plan's data describe; what is no step is refused by its number."""
    steps = []
    for number, data in enumerate(plan.steps):
        try:
            steps.append(build_step(data))
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise UsageError(
                f"step {number} of the plan is not a step of seamark",
                cause=error.message if isinstance(error, CodecError) else type(error).__name__,
                hint=_AGAIN,
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
    hidden = find_masked_keys(plan)
    if hidden:
        raise RefusedError(
            "the plan does not hold the secrets it needs",
            cause=f"left out when it was saved: {', '.join(hidden)}",
            hint="make the plan anew and apply it at once, or write the values as secret:// references",
        )


def refuse_unexpected(plan: Plan, steps: Sequence[Step]) -> None:
    """Refuse a plan whose file lacks a precondition that its steps need."""
    wanted = {aspect_of(step) for step in steps if is_expected(step)}
    if missing := sorted(wanted - {found.subject for found in plan.preconditions if found.kind == BEFORE}):
        raise RefusedError(
            "the plan does not guard what it changes",
            cause=f"no precondition for {', '.join(missing)}",
            hint=f"{_AGAIN}: this one was edited",
        )


def refuse_reached(met: Sequence[PreparedAction]) -> None:
    """Refuse an undo of what somebody else has taken back already.

    Raises:
        StalePlanError: a resource isn't as the change left it.
    """
    moved = [aspect for one in met if not one.action.reaches_by_itself for aspect in one.action.find_intents(one.seen)]
    if moved:
        raise build_stale(moved)


def refuse_unguarded(plan: Plan, steps: Sequence[Step], clusters: Clusters) -> None:
    """Refuse a plan whose file lacks a lock or a precondition that its steps need: it was changed by hand."""
    wanted = {aspect_of(step) for step in steps if is_expected(step)}
    guarded = {found.subject for found in plan.preconditions if found.kind == BEFORE}
    acting = [step for step in steps if step.acts]
    locks = _find_locks(acting, clusters, held=frozenset(plan.locks))
    # What stands behind `@` says to whom a group belongs; the thing is the same.
    bare = {base_name(lock) for lock in plan.locks}
    locks |= {lock for step in acting if (lock := _find_kafka_lock(step)) and lock not in bare}
    if missing := sorted((wanted - guarded) | (locks - set(plan.locks))):
        raise RefusedError(
            "the plan does not guard what it changes",
            cause=f"no lock or no precondition for {', '.join(missing)}",
            hint=f"{_AGAIN}: this one was changed by hand, or its context tells other topics and groups than yours",
        )


def _find_kafka_lock(step: Step) -> str:
    """The lock of a step on a topic, a group or a pipeline; "" for the steps of Connect."""
    kind, _, name = step.subject.partition("/")
    if kind == "topic":
        return topic_lock(name)
    if kind == "pipeline":
        return pipeline_lock(name)
    return group_lock(name) if kind == "group" else ""


def _find_locks(steps: Sequence[Step], clusters: Clusters, *, held: frozenset[str]) -> set[str]:
    """The locks that the steps need. A lock of the whole cluster covers those of its connectors."""
    locks: set[str] = set()
    connectors: dict[str, dict[str, list[Step]]] = {}
    for step in steps:
        cluster, name = getattr(step, "cluster", None), getattr(step, "name", None)
        if not isinstance(cluster, str):
            continue
        settings = clusters.settings(cluster)
        if cluster_lock(settings.group_id or settings.name) in held:
            continue
        if isinstance(step, SetLogger):
            locks.add(build_loggers_lock(settings))
        elif isinstance(name, str):
            connectors.setdefault(cluster, {}).setdefault(name, []).append(step)
    for cluster, named in connectors.items():
        client, settings = clusters.client(cluster), clusters.settings(cluster)
        # One reading costs about as much as a dozen single looks.
        known = {found.name: found for found in client.read_connectors()} if len(named) > _MANY else {}
        for name, own in named.items():
            locks |= _find_connector_locks(name, own, known=known, client=client, settings=settings)
    return locks


def _find_connector_locks(
    name: str,
    steps: Sequence[Step],
    *,
    known: Mapping[str, Connector],
    client: ConnectPort,
    settings: ConnectSettings,
) -> set[str]:
    configs: list[Mapping[str, str]] = [step.config for step in steps if isinstance(step, CreateConnector | PutConfig)]
    # What a plan says that a connector is, where it is not there, decides which offsets it writes.
    kept = [found for step in steps if (found := getattr(step, "kept", None)) is not None]
    configs += [found.config for found in kept]
    try:
        found = known.get(name) or client.read_connector(name)
    except NotFoundError:
        kind = kept[0].type if kept else _find_new_type(steps, client)
        return set(build_locks(name, configs or [{}], kind=kind, settings=settings))
    return set(build_locks(name, [found.config, *configs], kind=found.type, settings=settings))


def _find_new_type(steps: Sequence[Step], client: ConnectPort) -> ConnectorType:
    created = next((step for step in steps if isinstance(step, CreateConnector)), None)
    if created is None:
        return ConnectorType.UNKNOWN
    return find_type(client.read_plugins(), created.config.get("connector.class", ""))
