"""The plan of a cut-over: who stops, what each reader will read again, who is turned to the new topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from seamark.change.locks import group_lock, topic_lock
from seamark.change.precondition import build_preconditions
from seamark.errors import NotFoundError, RefusedError, SeamarkError, UsageError
from seamark.fleet.copies.consumers import say_consumers
from seamark.fleet.copies.cutover_steps import Cutover, InPlace, Party, build_data
from seamark.fleet.copies.landings import say_landings
from seamark.fleet.copies.parties import CutoverWish, Parties
from seamark.fleet.copies.readers import read_copy_users
from seamark.fleet.copies.source import find_topic, read_stable_bounds
from seamark.fleet.lock_names import build_lock_notes, build_locks
from seamark.fleet.moving.access import build_access_notes
from seamark.fleet.moving.guards import find_quiet_seconds
from seamark.fleet.planned import Planned
from seamark.fleet.policy import refuse_forbidden_steps
from seamark.model.effect import Effect, FieldChange, Sign
from seamark.model.group import build_group_owner
from seamark.model.plan import Plan

if TYPE_CHECKING:
    from seamark.change.actor import Actor
    from seamark.change.copy_port import CopyPort
    from seamark.change.step import Step
    from seamark.context import Context
    from seamark.fleet.clusters import Clusters
    from seamark.fleet.world import FleetWorld
    from seamark.pipelines.copy_plan import CopyPlan

_UNTIL = "it can be undone until somebody writes to the new topic"
_FORWARD = (
    "can't be undone once the topic is deleted: from there on it only goes forward, and the copy holds every record "
    "until seamark copy finish"
)
_OTHERS = (
    "producers that are no connectors must be stopped before and turned by you; so must consumers and the checkpoints "
    "of Spark and Flink, which no group tells of"
)


class CutoverPlanner:
    """Makes the plans of cut-overs in one context."""

    def __init__(self, context: Context, *, clusters: Clusters, world: FleetWorld, actor: Actor) -> None:
        self._context = context
        self._clusters = clusters
        self._world = world
        self._actor = actor

    def plan(self, copy: CopyPlan, wish: CutoverWish, *, name: str, look: CopyPort) -> Planned:
        """Plan to turn everybody from the source of a copy to its target. `name` is what steps call the copy.

        Raises:
            NotFoundError: source or target is not there.
            RefusedError: somebody can't be turned over.
        """
        cutover, notes = self._gather(copy, wish, name=name)
        marked = cutover.list_steps()
        steps = tuple(step for step, _ in marked)
        refuse_forbidden_steps(steps, self._clusters, self._context)
        lane = f"copy/{copy.id}"
        plan = Plan(
            title=_build_title(cutover),
            context=self._context.name,
            made_at=self._actor.timestamp(),
            made_by=self._actor.name,
            steps=tuple(build_data(step, mark, lane=lane) for step, mark in marked),
            locks=self._build_locks(cutover),
            preconditions=build_preconditions(steps, self._world),
            notes=(*notes, *self._build_notes(cutover), *self._say_access(steps), _OTHERS, _say_end(cutover)),
        )
        outlooks = self._preview(cutover, look)
        return Planned(plan, steps=steps, effects=tuple(_build_effects(cutover, outlooks)))

    def _gather(self, copy: CopyPlan, wish: CutoverWish, *, name: str) -> tuple[Cutover, tuple[str, ...]]:
        source, target, kafka = copy.source.topic, copy.target.topic, self._world.kafka()
        status = find_topic(kafka, source)
        if status is None or find_topic(kafka, target) is None:
            gone = source if status is None else target
            raise NotFoundError(f"there is no topic {gone}", hint=f"seamark copy status {copy.id} says what was done")
        bounds = read_stable_bounds(kafka, status)
        left_out = sum(max(0, one.begin - bounds[one.partition].earliest) for one in copy.ranges)
        if wish.in_place:
            _refuse_loss(copy, wish, left_out=left_out)
        users = read_copy_users(status, bounds, clusters=self._clusters, kafka=kafka, now=self._world.clock.now())
        parties = Parties(source, target, wish=wish, clusters=self._clusters, world=self._world, users=users)
        sinks = parties.list_sinks()
        changed = [choice for choice in copy.configs if choice.value != choice.final]
        new = InPlace(
            status.topic_id,
            copy.target.partitions,
            copy.target.replication_factor,
            {choice.key: choice.value for choice in copy.configs},
        )
        cutover = Cutover(
            name,
            source,
            target,
            sinks=sinks,
            sources=parties.list_sources(),
            readers=parties.list_readers(sinks),
            configs={choice.key: choice.final for choice in changed},
            held={choice.key: choice.value for choice in changed},
            missing=wish.missing,
            level=wish.level,
            quiet_seconds=find_quiet_seconds(self._context),
            accepts_zombies=wish.accept_zombies,
            in_place=new if wish.in_place else None,
        )
        gap = (f"{left_out} offsets of {source} before the copy's begin are not in {target}",) if left_out else ()
        return cutover, (*gap, *users.notes, *parties.list_notes())

    def _build_locks(self, cutover: Cutover) -> tuple[str, ...]:
        locks = {topic_lock(cutover.source), topic_lock(cutover.target)}
        for party in cutover.parties:
            connector = party.connector
            settings = self._clusters.settings(connector.cluster)
            locks |= set(build_locks(connector.name, [connector.config], kind=connector.type, settings=settings))
        held = {lock.partition("@")[0] for lock in locks}
        locks |= {group_lock(one.group) for one in cutover.readers if group_lock(one.group) not in held}
        return tuple(sorted(locks))

    def _build_notes(self, cutover: Cutover) -> Iterator[str]:
        for cluster in dict.fromkeys(party.connector.cluster for party in cutover.parties):
            kinds = [party.connector.type for party in cutover.parties if party.connector.cluster == cluster]
            yield from build_lock_notes(self._clusters.settings(cluster), kinds=kinds)
        if cutover.sinks and not cutover.in_place:
            names = ", ".join(party.connector.owner for party in cutover.sinks)
            yield f"what {names} writes may be named after the topic: from then on after {cutover.target}"
        yield from say_landings(cutover)
        yield from say_consumers(cutover, self._context)

    def _say_access(self, steps: Sequence[Step]) -> tuple[str, ...]:
        return build_access_notes(
            steps,
            clusters=self._clusters,
            context=self._context,
            brokers=self._world.kafka,
        )

    def _preview(self, cutover: Cutover, look: CopyPort) -> Mapping[str, str]:
        """What each reader reads again, as far as it can be told before the last catch-up."""
        said: dict[str, str] = {}
        for reader in cutover.readers:
            try:
                found = look.translate(cutover.copy, [reader.group], missing=cutover.missing)[reader.group]
            except SeamarkError as error:
                said[reader.group] = f"what it reads again is known after the last catch-up: {error.message}"
            else:
                said[reader.group] = f"would read {found.replay_words} as it stands now"
        return said


def _refuse_loss(copy: CopyPlan, wish: CutoverWish, *, left_out: int) -> None:
    """Refuse to delete a topic that holds what the copy does not, or that somebody is to stay with."""
    if left_out:
        raise RefusedError(
            f"{copy.source.topic} can't be made anew from this copy; nothing was changed",
            cause=f"{left_out} offsets before its begin were left out, and would be gone with the topic",
            hint="make a plan without --from; or cut over to the copy's own name",
        )
    if wish.leave:
        raise UsageError(
            f"nobody can be left with {copy.source.topic}: it is deleted and made anew",
            hint="cut over without --in-place; or let the group be carried over",
        )


def _build_title(cutover: Cutover) -> str:
    if cutover.in_place:
        return f"make {cutover.source} anew with {cutover.in_place.partitions} partitions, from {cutover.target}"
    return f"cut over {cutover.source} to {cutover.target}"


def _say_end(cutover: Cutover) -> str:
    return _FORWARD if cutover.in_place else _UNTIL


def _build_effects(cutover: Cutover, outlooks: Mapping[str, str]) -> Iterator[Effect]:
    for party in cutover.parties:
        yield Effect(
            Sign.CHANGE,
            f"connector/{party.connector.owner}",
            _say_party(cutover, party),
            tuple(_build_fields(party)),
        )
    for reader in cutover.readers:
        outlook = outlooks.get(reader.group)
        yield Effect(
            Sign.CHANGE,
            build_group_owner(reader.group),
            f"goes on in {_find_new(cutover)} at the first record it has not had",
            outlook=(outlook,) if outlook else (),
        )
    if cutover.configs:
        fields = tuple(FieldChange(key, cutover.held[key], final) for key, final in sorted(cutover.configs.items()))
        words = f"gets the configs that {cutover.source} has"
        yield Effect(Sign.CHANGE, f"topic/{_find_new(cutover)}", words, fields)
    if cutover.in_place:
        words = f"is deleted and made anew with {cutover.in_place.partitions} partitions"
        yield Effect(Sign.DELETE, f"topic/{cutover.source}", words)


def _find_new(cutover: Cutover) -> str:
    return cutover.source if cutover.in_place else cutover.target


def _say_party(cutover: Cutover, party: Party) -> str:
    turned = "" if cutover.in_place else ", is turned over"
    return f"stays stopped{turned}" if party.state == "STOPPED" else f"stops{turned}, and starts again"


def _build_fields(party: Party) -> Iterator[FieldChange]:
    for key, value in party.values.items():
        yield FieldChange(key, party.connector.config.get(key), value)
