"""The plan of a cut-over: who stops, what each reader will read again, who is turned to the new topic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from seamark.changes.planned import Planned
from seamark.connectors.policy import check_config_writes
from seamark.copies.cutover.action import CutOver, RecreatedTopic
from seamark.copies.cutover.parties import CutoverOptions, CutoverParticipants
from seamark.copies.plan.landings import say_file
from seamark.copies.plan.readers import read_copy_users
from seamark.copies.plan.source import find_topic, read_stable_bounds
from seamark.errors import NotFoundError, RefusedError, UsageError
from seamark.offsets.write.access import build_rights_notes
from seamark.tables.ledger_owners import list_consumers

if TYPE_CHECKING:
    from seamark.connect.clusters import Clusters
    from seamark.context import Context
    from seamark.copies.plan.copy_plan import CopyPlan
    from seamark.copies.plan.place import CopyEndpoint

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

    def __init__(self, endpoint: CopyEndpoint, *, clusters: Clusters) -> None:
        self._context = endpoint.context
        self._world = endpoint.world
        self._open_kafka = endpoint.open_kafka
        self._planner = endpoint.planner()
        self._clusters = clusters

    def plan(self, copy: CopyPlan, options: CutoverOptions, *, name: str) -> Planned:
        """Plan to turn everybody from the source of a copy to its target. `name` is what steps call the copy.

        Raises:
            NotFoundError: source or target is not there.
            RefusedError: somebody can't be turned over.
        """
        cutover, notes = self._gather(copy, options, name=name)
        reads = self._planner.open_reads(1)
        seen = cutover.read(reads)
        needs = cutover.needs(seen)
        check_config_writes(needs.configs, self._clusters, self._context)
        access = build_rights_notes(needs.rights, context=self._context, brokers=self._open_kafka)
        return self._planner.plan(
            _build_title(cutover),
            [cutover],
            notes=(*notes, *self._build_notes(cutover), *access, _OTHERS, _say_end(cutover)),
            reads=reads,
            known={0: seen},
        )

    def _gather(self, copy: CopyPlan, options: CutoverOptions, *, name: str) -> tuple[CutOver, tuple[str, ...]]:
        source, target, kafka = copy.source.topic, copy.target.topic, self._open_kafka()
        status = find_topic(kafka, source)
        if status is None or find_topic(kafka, target) is None:
            gone = source if status is None else target
            raise NotFoundError(f"there is no topic {gone}", hint=f"seamark copy status {copy.id} says what was done")
        bounds = read_stable_bounds(kafka, status)
        left_out = sum(max(0, one.begin - bounds[one.partition].earliest) for one in copy.ranges)
        if options.in_place:
            _refuse_loss(copy, options, left_out=left_out)
        users = read_copy_users(status, bounds, clusters=self._clusters, kafka=kafka, now=self._world.clock.now())
        participants = CutoverParticipants(
            source, target, options=options, clusters=self._clusters, world=self._world, users=users
        )
        sinks = participants.list_sinks()
        changed = [choice for choice in copy.configs if choice.value != choice.final]
        new = RecreatedTopic(
            status.topic_id,
            copy.target.partitions,
            copy.target.replication_factor,
            {choice.key: choice.value for choice in copy.configs},
        )
        cutover = CutOver(
            name,
            source,
            target,
            sinks=tuple(one.planned for one in sinks),
            sources=tuple(one.planned for one in participants.list_sources()),
            groups=participants.list_groups(sinks),
            configs={choice.key: choice.final for choice in changed},
            held={choice.key: choice.value for choice in changed},
            missing=options.missing,
            level=options.level,
            accepts_zombies=options.accept_zombies,
            recreated=new if options.in_place else None,
        )
        gap = (f"{left_out} offsets of {source} before the copy's begin are not in {target}",) if left_out else ()
        return cutover, (*gap, *users.notes, *participants.list_notes())

    def _build_notes(self, cutover: CutOver) -> Iterator[str]:
        if cutover.sinks and not cutover.recreated:
            names = ", ".join(f"{one.cluster}/{one.name}" for one in cutover.sinks)
            yield f"what {names} writes may be named after the topic: from then on after {cutover.target}"
        yield from _describe_pipelines(cutover)
        yield from _describe_exact_consumers(cutover, self._context)


def _refuse_loss(copy: CopyPlan, options: CutoverOptions, *, left_out: int) -> None:
    """Refuse to delete a topic that holds what the copy does not, or that somebody is to stay with."""
    if left_out:
        raise RefusedError(
            f"{copy.source.topic} can't be made anew from this copy; nothing was changed",
            cause=f"{left_out} offsets before its begin were left out, and would be gone with the topic",
            hint="make a plan without --from; or cut over to the copy's own name",
        )
    if options.leave:
        raise UsageError(
            f"nobody can be left with {copy.source.topic}: it is deleted and made anew",
            hint="cut over without --in-place; or let the group be carried over",
        )


def _build_title(cutover: CutOver) -> str:
    if cutover.recreated:
        return f"make {cutover.source} anew with {cutover.recreated.partitions} partitions, from {cutover.target}"
    return f"cut over {cutover.source} to {cutover.target}"


def _say_end(cutover: CutOver) -> str:
    return _FORWARD if cutover.recreated else _UNTIL


def _describe_pipelines(cutover: CutOver) -> Iterator[str]:
    """What the owner of each landing has to do: its file is theirs, and nobody here can stop its runs."""
    for owner in cutover.pipelines:
        yield (
            f"nobody can tell from here whether {owner} runs: stop it first; a run that is under way is shut out, and "
            f"ends with an error"
        )
        if not cutover.recreated:
            yield say_file(owner, cutover.source, target=cutover.target)


def _describe_exact_consumers(cutover: CutOver, context: Context) -> Iterator[str]:
    """What to look at before the group of an exact consumer is carried over: it goes on at what its group says."""
    groups = [one.group for one in cutover.groups if not one.is_pipeline]
    known = list_consumers(context) if groups else frozenset()
    for group in groups:
        if group in known:
            yield (
                f"group {group} is of a consumer that keeps its offsets in a ledger; what it has committed is older, "
                f"if it was killed, and rows would be there twice: compare seamark groups show {group} with "
                "seamark_ledger; where they differ, start it once more and close it"
            )
