"""Plans for connectors and their offsets: create with offsets, rename, and what remains after a delete.

Connect can't rename a connector, so another one is created and the first one deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.changes.plan import PlannedChange
from seamark.connect.api import ConnectPort
from seamark.connect.capability import Capability
from seamark.connect.clusters import Clusters
from seamark.connect.config import OWN_GROUP, find_group, find_offsets_topic
from seamark.connect.model import Connector
from seamark.connect.plugins import find_type
from seamark.connectors.actions import find_stable_seconds
from seamark.connectors.config import build_config
from seamark.core.offsets import Offset
from seamark.core.readings import Reading
from seamark.core.refs import ConnectorType
from seamark.errors import NotFoundError, RefusedError, SeamarkError, UnsupportedError, UsageError
from seamark.kafka.api import BROKERS, KafkaPort
from seamark.kafka.groups import GroupStatus
from seamark.lifecycle.actions import CreateWithOffsets, RenameConnector
from seamark.lifecycle.deletion import is_rest_record, plan_delete_with_offsets
from seamark.offsets.model import CurrentOffset
from seamark.offsets.move.sources import ExportedTopicIds
from seamark.offsets.move.targets import read_owner_file
from seamark.offsets.port import OFFSETS
from seamark.offsets.quiesce import refuse_blind, require_group_id
from seamark.offsets.read.connector import find_read_records
from seamark.offsets.read.export import NO_FORMER_OFFSETS
from seamark.offsets.semantics.registry import read_meaning
from seamark.offsets.stores.stores import reads_elsewhere
from seamark.offsets.write.action import ChosenWrite, choose_route
from seamark.offsets.write.guards import require_run_state
from seamark.offsets.write.plans import clamp_offsets, refuse_wrong
from seamark.offsets.write.rights import read_shared
from seamark.offsets.write.steps import read_copied
from seamark.report.words import render_count

if TYPE_CHECKING:
    from seamark.changes.environment import Environment
    from seamark.connect.capability import Capabilities
    from seamark.connectors.plans import ConnectorPlans
    from seamark.context import ConnectSettings, Context
    from seamark.offsets.read.export import ExistingOffsets


# Kafka's state of a group that never had a member.
_NO_GROUP = "DEAD"


def says_nothing_held(name: str, note: str) -> bool:
    """Return whether a note for a create says that the connector starts from the beginning.

    That note doesn't apply to a connector that is created with offsets.
    """
    return note.startswith((f"{name}: {NO_FORMER_OFFSETS}", f"{name}: no group "))


class Leftovers:
    """Finds offsets and groups of connector names. What can't be determined becomes a note, never an error."""

    def __init__(self, build_kafka: Callable[[], KafkaPort], former: ExistingOffsets) -> None:
        self._build_kafka = build_kafka
        self._former = former

    def before_create(
        self, name: str, config: Mapping[str, str], *, kind: ConnectorType, settings: ConnectSettings
    ) -> tuple[str, ...]:
        """Return notes on existing offsets of that name, from which the new connector would continue."""
        notes = []
        if kind is not ConnectorType.SINK:
            new = Connector(name, settings.name, kind, config)
            notes.append(f"{name}: {self._former.describe([new])[new.owner]}")
        if kind is not ConnectorType.SOURCE:
            notes.append(f"{name}: {self._describe_group(find_group(name, config, settings))}")
        return tuple(notes)

    def after_delete(self, connector: Connector, *, client: ConnectPort, settings: ConnectSettings) -> tuple[str, ...]:
        """Return notes on what remains of a deleted connector."""
        try:
            offsets: tuple[Offset, ...] | None = client.read_offsets(connector.name)
            trouble = ""
        except SeamarkError as error:
            offsets, trouble = None, error.message
        if connector.type is ConnectorType.SINK:
            group = find_group(connector.name, connector.config, settings)
            return (f"{connector.name}: {self._describe_sink(group, offsets)}",)
        topic = find_offsets_topic(connector.config, settings) or "the workers' offsets topic"
        if offsets is None:
            held = f"its offsets stay in {topic}; their number is unknown ({trouble})"
        elif not offsets:
            held = f"no offset stays in {topic}"
        else:
            held = f"{_count(len(offsets), 'source offset')} stay{'s' if len(offsets) == 1 else ''} in {topic}"
        rest = "" if offsets == () else "; a connector of that name resumes from there"
        return (f"{connector.name}: {held}{rest}",)

    def describe_starts(self, connectors: Sequence[Connector]) -> Mapping[str, str]:
        """Return, by owner, where new source connectors start."""
        return self._former.describe(connectors)

    def read_groups(self, names: Sequence[str]) -> Reading[GroupStatus]:
        """Return the states of consumer groups."""
        kafka = self._build_kafka()
        try:
            return kafka.read_groups(names)
        finally:
            kafka.close()

    def _describe_group(self, group: str) -> str:
        found = self._read_group(group)
        if isinstance(found, SeamarkError):
            return f"can't determine whether group {group} exists ({found.message})"
        if found is None:
            return (
                f"no group {group} exists; a sink starts as consumer.override.auto.offset.reset says (default earliest)"
            )
        members = f" with {_count(found.members, 'member')}" if found.members else ""
        return f"group {group} exists already ({found.state}{members}); a sink resumes from its committed offsets"

    def _describe_sink(self, group: str, offsets: tuple[Offset, ...] | None) -> str:
        if offsets is None:
            return f"group {group} is kept with its committed offsets"
        if not offsets:
            return f"group {group} is kept, without committed offsets"
        lag = self._read_lag(offsets)
        shown = "" if lag is None else f", lag {_count(lag, 'record')}"
        return f"group {group} is kept with committed offsets of {_count(len(offsets), 'partition')}{shown}"

    def _read_group(self, group: str) -> GroupStatus | SeamarkError | None:
        try:
            reading = self.read_groups([group])
        except SeamarkError as error:
            return error
        if group in reading.failures:
            return reading.failures[group]
        return next((found for found in reading.items if found.state != _NO_GROUP), None)

    def _read_lag(self, offsets: tuple[Offset, ...]) -> int | None:
        """Return the number of records between the committed offsets and the log ends; None if that can't be read."""
        committed = {
            (str(offset.partition["kafka_topic"]), int(str(offset.partition["kafka_partition"]))): offset.offset
            for offset in offsets
        }
        try:
            kafka = self._build_kafka()
        except SeamarkError:
            return None
        try:
            ends = kafka.read_end_offsets(committed)
        except SeamarkError:
            return None
        finally:
            kafka.close()
        return sum(
            max(0, end - int(str(held["kafka_offset"]))) for spot, end in ends.items() if (held := committed[spot])
        )


def _count(number: int, noun: str) -> str:
    from seamark.report.words import render_count  # noqa: PLC0415

    return render_count(number, noun)


# Workers before 3.7 can't create a stopped connector. There, the offsets are written first, while no connector uses
# them.

_STOPPED = "STOPPED"


def plan_create_with_offsets(
    plans: ConnectorPlans,
    name: str,
    given: Mapping[str, Any],
    *,
    path: Path,
    cluster: str | None,
    state: str,
    clusters: Clusters,
    context: Context,
    wait_seconds: float,
) -> PlannedChange:
    """Plan to create a connector stopped, write its offsets, verify them, and only then start it.

    If the offsets can't be written, it is deleted again, because without them it would start from the beginning. If it
    can't be created stopped, it is created only after the offsets are written.
    """
    where, state = plans.choose_cluster(cluster), state.upper()
    client = clusters.client(where)
    is_first = client.read_capabilities().has(Capability.INITIAL_STATE)
    planned = plans.create(name, given, cluster=where, state=_STOPPED if is_first else state)
    config = build_config(name, given)
    connector = Connector(name, where, find_type(client.read_plugins(), config["connector.class"]), config)
    saved = read_owner_file(path, owner=connector.owner)
    offsets = tuple(found for found in saved.offsets if found.offset is not None)
    if not offsets:
        raise NotFoundError(f"{path} contains no offsets of {name}")
    action, notes = build_create_with_offsets(
        connector,
        offsets,
        state,
        topics=saved.topics,
        world=plans.planner.world,
        clusters=clusters,
        context=context,
        wait_seconds=wait_seconds,
    )
    return plans.planner.plan(
        f"create {name} with {render_count(len(offsets), 'offset')}",
        [action],
        notes=(*(note for note in planned.plan.notes if not says_nothing_held(name, note)), *notes),
    )


def build_create_with_offsets(
    connector: Connector,
    offsets: tuple[Offset, ...],
    state: str,
    *,
    world: Environment,
    clusters: Clusters,
    context: Context,
    topics: Mapping[str, str] | None = None,
    wait_seconds: float = 0.0,
) -> tuple[CreateWithOffsets, tuple[str, ...]]:
    """Build the action that creates a connector which starts at these offsets, and its notes.

    It is waited for up to `wait_seconds`, until it runs. `topics` are the IDs of the topics that a sink's offsets are
    for, if they are known.

    Raises:
        RefusedError: its tasks could not read the offsets, or the sink's group is also used by others.
    """
    client, settings = clusters.client(connector.cluster), clusters.settings(connector.cluster)
    refuse_wrong(connector, read_meaning(connector, client), offsets)
    notes: list[str] = []
    if connector.type is ConnectorType.SINK:
        offsets, notes = _guard_sink(connector, offsets, topics, world=world, clusters=clusters, context=context)
    action = CreateWithOffsets(
        connector.cluster,
        connector.name,
        connector.config,
        offsets,
        state,
        wait_seconds=wait_seconds,
        stable_seconds=find_stable_seconds(context.journal.in_flight_seconds),
    )
    if not client.read_capabilities().has(Capability.INITIAL_STATE):
        require_group_id(context, settings)
        route = _choose_first(connector, offsets, world=world)
        action = replace(action, route=route.step.route, records=route.step.records)
        why = "because its workers can't create it as STOPPED"
        notes += [f"{connector.name}: its offsets are written before it is created, {why}", *route.notes]
    return action, tuple(notes)


def plan_create_fresh(
    plans: ConnectorPlans,
    name: str,
    given: Mapping[str, Any],
    *,
    cluster: str | None,
    state: str,
    clusters: Clusters,
    context: Context,
    wait_seconds: float,
) -> PlannedChange:
    """Plan to create a connector that starts without the offsets that exist for its name: they are deleted before.

    Raises:
        UnsupportedError: seamark can't read the stores, and Connect returns no offsets of a connector that it doesn't
            have.
        RefusedError: the offsets are ambiguous, or those of a sink also belong to other owners.
    """
    where, state = plans.choose_cluster(cluster), state.upper()
    client, world = clusters.client(where), plans.planner.world
    planned = plans.create(name, given, cluster=where, state=state)
    config = build_config(name, given)
    connector = Connector(name, where, find_type(client.read_plugins(), config["connector.class"]), config)
    if context.verify == "rest":
        raise UnsupportedError(
            f"can't determine whether offsets of {connector.owner} exist; no changes were made",
            cause="offset_verification is rest, and Connect returns no offsets of a connector that it doesn't have",
            hint="create it with --initial-state stopped, then run seamark offsets reset and seamark connectors resume",
        )
    port = world.use(OFFSETS)(where, name, kept=connector)
    held = [one for one in port.read_all() if one.offset is not None or one.ambiguity]
    _refuse_ambiguous(connector, held)
    wanted = [Offset(one.partition, None) for one in held]
    action = CreateWithOffsets(
        where,
        name,
        config,
        tuple(wanted),
        state,
        is_fresh=True,
        wait_seconds=wait_seconds,
        stable_seconds=find_stable_seconds(context.journal.in_flight_seconds),
    )
    # The notes of a plain create describe the offsets from which it would continue.
    notes = [note for note in planned.plan.notes if not note.startswith(f"{name}: ")]
    if not held:
        notes.append(f"{name}: {NO_FORMER_OFFSETS}")
        return plans.planner.plan(f"create {name} without offsets", [action], notes=notes)
    if connector.type is ConnectorType.SINK:
        notes += read_shared(clusters).refuse_foreign(connector, wanted)
    # An undo restores them in the same way, to the byte.
    records = [record for one in held for record in find_read_records(one) if record.value is not None]
    has_rest = client.read_capabilities().has(Capability.INITIAL_STATE) and all(map(is_rest_record, records))
    if not has_rest:
        refuse_blind(port)
    route = choose_route(connector, held, wanted, has_rest=has_rest, complete=port.complete)
    action = replace(action, route=route.step.route, records=route.step.records)
    notes += [*route.notes, f"{name}: an undo restores the offsets of this name"]
    return plans.planner.plan(f"create {name} without offsets", [action], notes=notes)


def _refuse_ambiguous(connector: Connector, held: Sequence[CurrentOffset]) -> None:
    if ambiguities := [one.ambiguity for one in held if one.ambiguity]:
        raise RefusedError(
            f"can't determine which record the tasks of {connector.owner} would use; no changes were made",
            cause="; ".join(ambiguities),
            hint=f"delete them first: seamark offsets purge {connector.owner}",
        )


def _choose_first(connector: Connector, offsets: Sequence[Offset], *, world: Environment) -> ChosenWrite:
    """Choose how offsets are written before their connector exists."""
    port = world.use(OFFSETS)(connector.cluster, connector.name, kept=connector)
    refuse_blind(port)
    held = port.read([found.partition for found in offsets])
    return choose_route(connector, held, offsets, has_rest=False, complete=port.complete)


def _guard_sink(
    connector: Connector,
    offsets: tuple[Offset, ...],
    topics: Mapping[str, str] | None,
    *,
    world: Environment,
    clusters: Clusters,
    context: Context,
) -> tuple[tuple[Offset, ...], list[str]]:
    """Return the offsets of a new sink clamped to the log, with notes.

    Raises:
        RefusedError: they belong to other topics, or the sink's group is also used by others.
    """
    kafka = world.use(BROKERS) if context.has_brokers else None
    notes = ExportedTopicIds(topics, kafka=kafka).refuse_other(connector.owner, offsets, connector)
    notes += read_shared(clusters).refuse_foreign(connector, offsets)
    # A sink on another Kafka cluster has its log there, and only Connect can check whether its offsets are within that
    # log.
    if kafka is None or reads_elsewhere(connector):
        return offsets, notes
    clamped, said = clamp_offsets(kafka(), offsets)
    return clamped, [*said, *notes]


@dataclass(frozen=True, slots=True)
class Loss:
    """Offsets that the connector doesn't have under its new name, and the workaround, if there is one."""

    words: str
    way_around: str = ""


def plan_rename(
    plans: ConnectorPlans,
    connector: Connector,
    name: str,
    *,
    clusters: Clusters,
    allow_offset_loss: bool,
) -> PlannedChange:
    """Plan to create the new connector, stopped if the workers can, delete the old one, and start the new one.

    From Connect 3.7 on, its offsets are copied; before that, their loss must be accepted. The config is read from
    Connect; literal secrets in it stay in memory and are in no plan, file or journal.
    """
    if name == connector.name:
        raise UsageError(f"the connector already has the name {name}", hint="choose another name")
    client, settings = clusters.client(connector.cluster), clusters.settings(connector.cluster)
    require_run_state(connector, plans.planner.world)
    capabilities = client.read_capabilities()
    plans.refuse_present(connector.cluster, name)
    config = {key: value for key, value in connector.config.items() if key != "name"}
    losses = find_losses(connector, name, client=client, clusters=clusters)
    can_carry = capabilities.has(Capability.INITIAL_STATE) and connector.type is not ConnectorType.UNKNOWN
    held = _count_carried(plans, connector, allow_offset_loss=allow_offset_loss) if losses and can_carry else 0
    if losses and not held and not allow_offset_loss:
        raise build_refusal(connector, name, losses)
    notes = _build_notes(connector, name, config, capabilities=capabilities)
    if held:
        notes = (*_build_carried_notes(connector, name, held), *notes)
    else:
        left = plans.leftovers.before_create(name, config, kind=connector.type, settings=settings)
        notes = (*(f"lost: {loss.words}" for loss in losses), *notes, *left)
    return plans.planner.plan(
        f"rename {connector.name} to {name}",
        [RenameConnector(connector.cluster, connector.name, name, carries=bool(held))],
        notes=notes,
    )


def _count_carried(plans: ConnectorPlans, connector: Connector, *, allow_offset_loss: bool) -> int:
    """Return how many offsets can be copied; 0 if that can't be read and their loss is accepted."""
    try:
        return len(read_copied(plans.planner.world, connector.cluster, connector.name))
    except SeamarkError as error:
        if allow_offset_loss:
            return 0
        error.hint = "; ".join(
            [*([error.hint] if error.hint else []), "to rename it without its offsets: --allow-offset-loss"]
        )
        raise


def find_losses(connector: Connector, name: str, *, client: ConnectPort, clusters: Clusters) -> tuple[Loss, ...]:
    """Return which offsets the connector would not have under the new name."""
    settings = clusters.settings(connector.cluster)
    offsets, trouble = _read_offsets(client, connector.name)
    if offsets == ():
        return ()
    losses = []
    if connector.type is not ConnectorType.SINK:
        topic = find_offsets_topic(connector.config, settings) or "the workers' offsets topic"
        held = "an unknown number of offsets" if offsets is None else render_count(len(offsets), "source offset")
        losses.append(
            Loss(
                f"{held}{trouble} of {connector.name} in {topic}: {name} doesn't use them and starts from the beginning"
            )
        )
    if connector.type is not ConnectorType.SOURCE:
        old, new = (find_group(one, connector.config, settings) for one in (connector.name, name))
        if old != new:
            losses.append(
                Loss(
                    f"the committed offsets of group {old}{trouble}: {name} uses group {new}",
                    way_around="keep the group under the new name: "
                    f"seamark connectors update {connector.owner} --set {OWN_GROUP}={old}",
                )
            )
    return tuple(losses)


def build_refusal(connector: Connector, name: str, losses: tuple[Loss, ...]) -> RefusedError:
    """Build the refusal of a rename without `--allow-offset-loss`."""
    ways = [loss.way_around for loss in losses if loss.way_around]
    return RefusedError(
        f"renamed to {name}, connector {connector.name} would lose its offsets; no changes were made",
        cause="; ".join(loss.words for loss in losses),
        hint="; ".join([*ways, "to rename it anyway: --allow-offset-loss; to see the plan: --dry-run"]),
        context={"cluster": connector.cluster, "connector": connector.name},
    )


def _build_carried_notes(connector: Connector, name: str, held: int) -> tuple[str, ...]:
    old = connector.name
    along = f"1 offset is copied, as {old} has it when it is stopped"
    if held != 1:
        along = f"{render_count(held, 'offset')} are copied, as {old} has them when it is stopped"
    return along, f"after an undo, {old} resumes from there too: what {name} reads until then is reprocessed"


def _build_notes(
    connector: Connector, name: str, config: dict[str, str], *, capabilities: Capabilities
) -> tuple[str, ...]:
    notes = []
    if not capabilities.has(Capability.INITIAL_STATE):
        why = f"a worker runs {capabilities.words}, and creating a connector as STOPPED needs 3.7"
        notes.append(f"{connector.name} and {name} both run temporarily: {why}")
    naming = sorted(key for key, value in config.items() if connector.name in value)
    if naming:
        notes.append(f"these keys contain the old name and are not changed: {', '.join(naming)}")
    return tuple(notes)


def _read_offsets(client: ConnectPort, name: str) -> tuple[tuple[Offset, ...] | None, str]:
    """Read the offsets; return None and the reason if they can't be read."""
    try:
        return client.read_offsets(name), ""
    except SeamarkError as error:
        return None, f" ({error.message})"


class Lifecycle:
    """Plans the operations of `Connectors` that involve offsets. Makes no changes."""

    def __init__(self, context: Context, *, clusters: Clusters, plans: Callable[[], ConnectorPlans]) -> None:
        self._context = context
        self._clusters = clusters
        self._plans = plans

    def create(
        self,
        name: str,
        given: Mapping[str, Any],
        path: Path | None,
        *,
        cluster: str | None,
        state: str,
        wait_seconds: float,
    ) -> PlannedChange:
        """Plan a new connector that continues from the offsets in a file, or without a file, starts without offsets."""
        plans = self._plans()
        build = plan_create_fresh if path is None else partial(plan_create_with_offsets, path=path)
        return build(
            plans,
            name,
            given,
            cluster=cluster,
            state=state,
            clusters=self._clusters,
            context=self._context,
            wait_seconds=wait_seconds,
        )

    def delete(self, connectors: Sequence[Connector]) -> PlannedChange:
        """Plan to delete connectors and their offsets."""
        return plan_delete_with_offsets(self._plans(), connectors, clusters=self._clusters, context=self._context)

    def rename(self, connector: Connector, name: str, *, allow_offset_loss: bool) -> PlannedChange:
        """Plan to rename a connector."""
        return plan_rename(self._plans(), connector, name, clusters=self._clusters, allow_offset_loss=allow_offset_loss)
