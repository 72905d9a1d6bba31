"""Plans that make the records of sources' offsets what Connect would have written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from seamark.change.locks import topic_lock
from seamark.change.steps.cleaning import CLEANING, AwaitCleaned, LendTopicConfig, LevelRecords
from seamark.change.steps.mend import MendOffsets, VerifyMended
from seamark.change.steps.preview import CheckPreview
from seamark.change.steps.run_state import SetRunState
from seamark.change.steps.stopped import ProveStopped, build_config_pin
from seamark.change.steps.topic_image import pick_configs, require_topic
from seamark.connect.capability import Capability
from seamark.errors import UsageError
from seamark.fleet.lock_names import build_lock_notes, build_locks
from seamark.fleet.moving.access import build_access_notes
from seamark.fleet.moving.guards import build_restore, find_quiet_seconds, find_workers, require_run_state
from seamark.fleet.moving.mend_effects import build_mend_effect, build_topic_effect, say_left
from seamark.fleet.moving.odd_records import OddOwner, OddRecords
from seamark.fleet.moving.plans import merge
from seamark.fleet.moving.progress import build_progress
from seamark.fleet.moving.verbs import Care
from seamark.fleet.plan_draft import build_plan
from seamark.fleet.planned import Planned
from seamark.fleet.positions.meaning import read_meaning
from seamark.model.effect import Effect
from seamark.model.held_offset import HeldRecord
from seamark.model.offset import Offset
from seamark.model.plan import Plan
from seamark.model.preview import Preview, sum_previews
from seamark.offsets.mending import settle_rule

if TYPE_CHECKING:
    from seamark.change.actor import Actor
    from seamark.change.step import Step
    from seamark.context import Context
    from seamark.fleet.clusters import Clusters
    from seamark.fleet.connector_life.connectors import Connectors
    from seamark.fleet.positions.stores import OffsetStores
    from seamark.fleet.world import FleetWorld

_RUNNING = "RUNNING"
_LAG = "min.compaction.lag.ms"
_LEVEL_NOTE = (
    "copies on other partitions get the same value, and are out of date as soon as the connector stores another: "
    "--clean takes them out of the log"
)


@dataclass(frozen=True, slots=True)
class MendChoice:
    """How records are mended.

    `take` says whose value, where they differ: `newest`, or a place as `connect-offsets-3@117`. `clean` takes what does
    not belong there out of the log, `only` also other spellings that a task might use.
    """

    take: str = ""
    clean: bool = False
    only: bool = False
    care: Care = field(default_factory=Care)


@dataclass(frozen=True, slots=True)
class _Part:
    """The steps for one owner, in the order of their places around the write."""

    stop: tuple[Step, ...]
    proof: tuple[Step, ...]
    write: MendOffsets
    verify: VerifyMended
    after: tuple[Step, ...]


class OffsetMends:
    """Plans over odd records. Nothing is changed here; `fleet.apply` does it."""

    def __init__(
        self,
        context: Context,
        *,
        clusters: Clusters,
        connectors: Connectors,
        stores: Callable[[], OffsetStores],
        world: Callable[[], FleetWorld],
        actor: Callable[[], Actor],
    ) -> None:
        self._context = context
        self._clusters = clusters
        self._connectors = connectors
        self._stores = stores
        self._world = world
        self._actor = actor

    def mend(
        self, owners: Sequence[str] = (), *, everything: bool = False, choice: MendChoice | None = None
    ) -> Planned:
        """Plan that nothing is odd about the records of these sources, or of all of them."""
        choice = choice or MendChoice()
        if everything == bool(owners):
            raise UsageError("say whose offsets: some owners, or all of them", hint="OWNER…, or --all")
        if choice.only and not choice.clean:
            raise UsageError("other spellings are taken away by a cleaning", hint="--only goes with --clean")
        odd = OddRecords(self._clusters, connectors=self._connectors, stores=self._stores)
        found = odd.read_all(choice.take) if everything else odd.read(owners, choice.take)
        title = _build_title(owners, everything=everything)
        needed = [one for owner in found if (one := self._find_needed(owner, choice)) is not None]
        if not needed:
            return Planned(self._build(title, (), notes=() if choice.clean else say_left(found)), steps=())
        if not choice.clean:
            return merge(title, [self._plan_level(title, owner, choice) for owner in needed])
        topics: dict[str, list[OddOwner]] = {}
        for owner in needed:
            topics.setdefault(owner.topic, []).append(owner)
        return merge(title, [self._plan_cleaning(title, topic, listed, choice) for topic, listed in topics.items()])

    def _find_needed(self, owner: OddOwner, choice: MendChoice) -> OddOwner | None:
        """The owner with the partitions that are not yet as they will be; None where all are."""
        needed = tuple(one for one in owner.partitions if one.is_needed(choice.clean, only=choice.only))
        return replace(owner, partitions=needed) if needed else None

    def _plan_level(self, title: str, owner: OddOwner, choice: MendChoice) -> Planned:
        part = self._build_part(owner, choice)
        steps = (*part.stop, *part.proof, part.write, part.verify, *part.after)
        notes = (_LEVEL_NOTE,) if owner.has_strays else ()
        plan = self._build(title, steps, owners=[owner], notes=notes)
        return Planned(plan, steps=steps, effects=(self._build_effect(owner, choice),))

    def _plan_cleaning(self, title: str, topic: str, owners: Sequence[OddOwner], choice: MendChoice) -> Planned:
        """One lane for all owners of a topic: it is cleaned once, while all of them are stopped."""
        parts = [self._build_part(owner, choice) for owner in owners]
        gone = tuple(record for owner in owners for record in _find_gone(owner, choice))
        lend, back, notes = self._build_lent(topic)
        cleaning: tuple[Step, ...] = (_await_cleaned(topic, owners, gone), *_level(parts))
        steps: list[Step] = [step for part in parts for step in part.stop]
        steps += [lend] if gone else []
        steps += [step for part in parts for step in (*part.proof, part.write)]
        steps += [*cleaning, back] if gone else []
        steps += [part.verify for part in parts]
        steps += [step for part in parts for step in part.after]
        always = [_is_always(step, is_stop=number < len(parts)) for number, step in enumerate(steps)]
        plan = self._build(
            title,
            tuple(steps),
            owners=owners,
            always=always,
            locks=[topic_lock(topic)],
            notes=notes if gone else (),
        )
        effects = [self._build_effect(owner, choice) for owner in owners]
        if gone:
            effects.append(build_topic_effect(lend, back, gone))
        return Planned(plan, steps=tuple(steps), effects=tuple(effects))

    def _build_part(self, owner: OddOwner, choice: MendChoice) -> _Part:
        connector = owner.connector
        client = self._clusters.client(connector.cluster)
        client.read_capabilities().require(Capability.STOP, doing=f"mend the offsets of {connector.owner}")
        cluster, name = connector.cluster, connector.name
        state = require_run_state(connector, self._world())
        rules = tuple(one.rule for one in owner.partitions)
        settled = tuple(settle_rule(rule, owner.home) for rule in rules)
        gone = tuple(record.place for record in _find_gone(owner, choice))
        proof = ProveStopped(
            cluster,
            name,
            find_workers(connector),
            find_quiet_seconds(self._context),
            choice.care.accepts_zombies,
            build_config_pin(connector.config, self._world()),
        )
        return _Part(
            stop=(SetRunState(cluster, name, "STOPPED"),),
            proof=(proof, *self._build_check(owner, choice)),
            write=MendOffsets(cluster, name, owner.topic, rules, choice.clean, choice.only, gone),
            verify=VerifyMended(cluster, name, owner.topic, settled, choice.clean, choice.only),
            after=(*build_restore(connector, state), *self._build_progress(owner, choice, state)),
        )

    def _build_check(self, owner: OddOwner, choice: MendChoice) -> Iterator[Step]:
        """Where the value taken is another than the one that counts now, what that means is counted again."""
        offsets, previews = self._preview(owner)
        if offsets:
            connector = owner.connector
            yield CheckPreview(
                connector.cluster, connector.name, offsets, sum_previews(previews), choice.care.tolerance
            )

    def _build_progress(self, owner: OddOwner, choice: MendChoice, state: str) -> tuple[Step, ...]:
        connector = owner.connector
        held = tuple(one.offset for one in owner.partitions if one.offset.offset is not None)
        if state != _RUNNING or not held:
            return ()
        return build_progress(
            connector.cluster,
            connector.name,
            held,
            (),
            context=self._context,
            settings=self._clusters.settings(connector.cluster),
            wait_seconds=choice.care.wait_seconds,
            carried=True,
        )

    def _preview(self, owner: OddOwner) -> tuple[tuple[Offset, ...], Sequence[Preview]]:
        offsets = tuple(one.offset for one in owner.partitions if one.is_moved)
        if not offsets:
            return (), ()
        connector = owner.connector
        return offsets, self._world().offsets(connector.cluster, connector.name).preview(offsets)

    def _build_effect(self, owner: OddOwner, choice: MendChoice) -> Effect:
        meaning = read_meaning(owner.connector, self._clusters.client(owner.connector.cluster))
        offsets, previews = self._preview(owner)
        return build_mend_effect(
            owner, meaning, list(zip(offsets, previews, strict=True)), clean=choice.clean, only=choice.only
        )

    def _build_lent(self, topic: str) -> tuple[LendTopicConfig, LendTopicConfig, tuple[str, ...]]:
        """The configs for a cleaning, the way back from them, and what is to be said of it."""
        found = require_topic(self._world(), topic)
        own = pick_configs(found, CLEANING)
        values = {key: value for key, value in own.items() if value is not None}
        removed = tuple(key for key, value in own.items() if value is None)
        notes = [f"topic {topic} is cleaned as a whole: of each key the newest record stays, of everybody"]
        lag = found.configs.get(_LAG)
        if lag is not None and lag.value not in (None, "", "0"):
            notes.append(
                f"topic {topic} keeps every write for {_LAG}={lag.value}: that history is lost; "
                "seamark offsets history shows it, seamark offsets export --all keeps what holds now"
            )
        return LendTopicConfig(topic, CLEANING), LendTopicConfig(topic, values, removed, returns=True), tuple(notes)

    def _build(
        self,
        title: str,
        steps: Sequence[Step],
        *,
        owners: Sequence[OddOwner] = (),
        always: Sequence[bool] | None = None,
        locks: Sequence[str] = (),
        notes: Sequence[str] = (),
    ) -> Plan:
        found = [(owner.connector, self._clusters.settings(owner.connector.cluster)) for owner in owners]
        own = [
            lock
            for one, settings in found
            for lock in build_locks(one.name, [one.config], kind=one.type, settings=settings)
        ]
        said = [note for one, settings in found for note in build_lock_notes(settings, kinds=[one.type])]
        brokers = self._world().kafka
        return build_plan(
            title,
            steps,
            context=self._context.name,
            world=self._world(),
            actor=self._actor(),
            # One lane, also for the topic: nobody goes on before it is cleaned.
            lane=lambda _: steps[0].subject,
            always=always,
            locks=(*own, *locks),
            notes=(
                *notes,
                *build_access_notes(steps, clusters=self._clusters, context=self._context, brokers=brokers),
                *dict.fromkeys(said),
            ),
        )


def _find_gone(owner: OddOwner, choice: MendChoice) -> Iterator[HeldRecord]:
    """What is taken out of the log of one owner."""
    for one in owner.partitions:
        yield from one.build(choice.clean, only=choice.only).gone


def _await_cleaned(topic: str, owners: Sequence[OddOwner], gone: tuple[HeldRecord, ...]) -> AwaitCleaned:
    """The wait for all of them. Connect is asked for each owner in its own cluster."""
    first = owners[0].connector.cluster
    elsewhere = {one.connector.name: one.connector.cluster for one in owners if one.connector.cluster != first}
    return AwaitCleaned(first, topic, gone, elsewhere=elsewhere)


def _level(parts: Sequence[_Part]) -> Iterator[LevelRecords]:
    for part in parts:
        found = part.verify
        yield LevelRecords(found.cluster, found.name, found.topic, found.rules, found.clean, found.only)


def _is_always(step: Step, *, is_stop: bool) -> bool:
    """Whether a step is done in any case: run states and configs come back, and no tombstone stays in the way."""
    if isinstance(step, LendTopicConfig):
        return step.returns
    return isinstance(step, LevelRecords) or (isinstance(step, SetRunState) and not is_stop)


def _build_title(owners: Sequence[str], *, everything: bool) -> str:
    if everything:
        return "mend the offsets of all sources"
    return f"mend the offsets of {owners[0] if len(owners) == 1 else f'{len(owners)} owners'}"
