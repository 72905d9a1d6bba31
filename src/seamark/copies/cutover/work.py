"""The copies of a context as the steps of a cut-over see them: what is left, where readers go on, what was proven."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from seamark.copies.cutover.copy_map import CopyMap, build_map
from seamark.copies.cutover.copy_reader import CarriedReader
from seamark.copies.cutover.translation import Missing, Translation, translate_all
from seamark.copies.plan.debris import Debris, find_debris, list_ahead
from seamark.copies.plan.source import find_topic
from seamark.core.refs import is_pipeline
from seamark.errors import RefusedError, UsageError
from seamark.offsets.stores.ledger import fence_ledger, read_epochs

if TYPE_CHECKING:
    from seamark.copies.plan.copy_plan import CopyPlan, TopicEnd
    from seamark.copies.plan.place import CopyPlace, CopyRoute
    from seamark.copies.plan.progress import Progress
    from seamark.copies.plan.recount import Recounter
    from seamark.kafka.spot import Bounds

Positions = dict[int, int]


class CopyEngine(Protocol):
    """Whoever moves and reads the data: Spark. `SparkEngine` is one."""

    def read(self, copy: str) -> tuple[CopyPlan, Progress]:
        """The plan as it is registered, and how far it is."""
        ...

    def approach(self, copy: str) -> str:
        """Copy what has come to the source so far; what was done, in a few words."""
        ...

    def catch_up(self, copy: str) -> str:
        """Copy all that the source holds; what was done, in a few words."""
        ...

    def prove(self, copy: str, level: str) -> str:
        """Compare both topics; what was compared. A difference is a RefusedError."""
        ...

    def build_recounter(self, plan: CopyPlan) -> Recounter:
        """Whoever can read the source again."""
        ...

    def begin_back(self, copy: str) -> str:
        """Register the copy that leads back to the old name, unless it is; what was done."""
        ...


class CopyWork:
    """A `CopyPort` over Kafka's clients and an engine."""

    def __init__(self, engine: CopyEngine, route: CopyRoute, *, is_recounting: bool = True) -> None:
        """Without recounting nothing is started for a look: replays may then be bounds."""
        self._engine = engine
        self._route = route
        self._is_recounting = is_recounting
        # What was answered for readers that have not moved since; a recount is a job of its own.
        self._answers: dict[object, Mapping[str, Translation]] = {}

    def approach(self, copy: str) -> str:
        """Copy what has come to the source so far."""
        return self._engine.approach(copy)

    def catch_up(self, copy: str) -> str:
        """Copy all that the source holds now."""
        return self._engine.catch_up(copy)

    def begin_back(self, copy: str) -> str:
        """Plan the copy back to the old name."""
        return self._engine.begin_back(copy)

    def verify(self, copy: str, level: str) -> str:
        """Compare source and target."""
        return self._engine.prove(copy, level)

    def count_left(self, copy: str) -> int:
        """How many offsets of the source lie behind what was copied."""
        plan, progress = self._engine.read(copy)
        ends = _read_latest(self._route.source, plan.source)
        return sum(max(0, ends[one.partition] - one.end) for one in progress.cover(plan.ranges))

    def list_left(self, copy: str) -> Mapping[int, int]:
        """How many offsets that the source still has lie behind what was copied, by partition; only those with some."""
        plan, progress = self._engine.read(copy)
        bounds = _read_all_bounds(self._route.source, plan.source.topic)
        reached = {one.partition: one.end for one in progress.cover(plan.ranges)}
        # Of a partition that came later nothing was copied.
        left = {at: found.latest - max(found.earliest, reached.get(at, 0)) for at, found in bounds.items()}
        return {partition: count for partition, count in sorted(left.items()) if count > 0}

    def read_target_ends(self, copy: str) -> Mapping[int, int]:
        """Where each partition of the target ends now."""
        plan, _ = self._engine.read(copy)
        return _read_latest(self._route.target, plan.target)

    def shut_out(self, owner: str, topic: str) -> Mapping[int, int]:
        """Take a landing's partitions from whoever runs it."""
        return fence_ledger(self._route.source.kafka, owner, topic)

    def read_epochs(self, owner: str, topic: str) -> Mapping[int, int]:
        """What tells that a landing was begun again."""
        return read_epochs(self._route.source.kafka, owner, topic)

    def translate(self, copy: str, groups: Sequence[str], *, missing: str) -> Mapping[str, CarriedReader]:
        """Where groups that stand still go on in the target."""
        plan, progress = self._engine.read(copy)
        ends = _read_latest(self._route.target, plan.target)
        copied = build_map(
            progress, plan.ranges, targets=plan.target.partitions, ends=ends if progress.is_complete else None
        )
        readers = self._read_positions(plan, copied, groups)
        found = self._translate(plan, progress, copied, readers, missing=missing)
        debris = find_debris(progress.records, ends=ends)
        return {group: _build_carried(translation, debris) for group, translation in found.items()}

    def _translate(
        self, plan: CopyPlan, progress: Progress, copied: CopyMap, readers: Mapping[str, Positions], *, missing: str
    ) -> Mapping[str, Translation]:
        known = (plan.id, progress.done, missing, tuple((name, tuple(at.items())) for name, at in readers.items()))
        if known not in self._answers:
            is_recounting = self._is_recounting and progress.is_complete
            self._answers[known] = translate_all(
                copied,
                readers,
                recounter=self._engine.build_recounter(plan) if is_recounting else None,
                missing=_parse_missing(missing),
                allow_behind=self._is_gone(plan, copied, readers),
            )
        return self._answers[known]

    def _read_positions(self, plan: CopyPlan, copied: CopyMap, groups: Sequence[str]) -> dict[str, Positions]:
        spots = [(plan.source.topic, partition) for partition in range(plan.source.partitions)]
        reading = self._route.source.kafka.read_committed(dict.fromkeys(groups, spots), only_stable=True)
        reading.require_complete(what="the positions of the readers")
        held = {one.group: {spot[1]: commit.offset for spot, commit in one.offsets.items()} for one in reading.items}
        # In a partition that never held a record of the copy, no position is as good as any.
        empty = {partition: whole.begin for partition, whole in copied.covered.items() if not whole.size}
        # A landing enters all partitions when it begins; one that came later it lands from its beginning.
        begins = {partition: whole.begin for partition, whole in copied.covered.items()}
        return {group: {**(begins if is_pipeline(group) else empty), **held.get(group, {})} for group in groups}

    def _is_gone(self, plan: CopyPlan, copied: CopyMap, readers: Mapping[str, Positions]) -> bool:
        """Whether what readers have not had before the copy's begin is gone from the source too."""
        late = {
            name: {partition for partition, at in positions.items() if at < _find_begin(copied, partition)}
            for name, positions in readers.items()
        }
        _refuse_lost(plan, [name for name, partitions in late.items() if partitions and is_pipeline(name)])
        behind = {partition for partitions in late.values() for partition in partitions}
        if not behind:
            return False
        bounds = _read_bounds(self._route.source, plan.source)
        return all(bounds[partition].earliest >= copied.covered[partition].begin for partition in behind)


def _find_begin(copied: CopyMap, partition: int) -> int:
    return copied.covered[partition].begin if partition in copied.covered else 0


def _refuse_lost(plan: CopyPlan, landings: Sequence[str]) -> None:
    """Refuse to pass over records that were never landed: a landing's own run asks its owner first, too."""
    if landings:
        raise RefusedError(
            f"{', '.join(landings)} has not landed up to where the copy of {plan.source.topic} begins",
            cause="records before that are not in the target",
            hint="land them first; or, where they are gone, accept the loss: "
            f"seamark offsets move {landings[0]} --to earliest",
        )


def _read_bounds(place: CopyPlace, end: TopicEnd) -> Mapping[int, Bounds]:
    spots = [(end.topic, partition) for partition in range(end.partitions)]
    found = place.kafka.read_bounds(spots).require_complete(what=f"the bounds of {end.topic}")
    return {spot[1]: bounds for spot, bounds in found.items()}


def _read_all_bounds(place: CopyPlace, topic: str) -> Mapping[int, Bounds]:
    """The same of every partition that the topic has now."""
    status = find_topic(place.kafka, topic)
    found = place.kafka.read_bounds(status.spots if status else ()).require_complete(what=f"the bounds of {topic}")
    return {spot[1]: bounds for spot, bounds in found.items()}


def _read_latest(place: CopyPlace, end: TopicEnd) -> dict[int, int]:
    return {partition: found.latest for partition, found in _read_bounds(place, end).items()}


def _parse_missing(text: str) -> Missing | None:
    try:
        return Missing(text) if text else None
    except ValueError:
        raise UsageError(f"{text!r} is no place to start", hint="earliest or latest") from None


def _build_carried(translation: Translation, debris: Sequence[Debris]) -> CarriedReader:
    replayed = translation.replayed
    ahead = list_ahead(debris, translation.offsets)
    return CarriedReader(
        translation.offsets,
        to_read=translation.to_read,
        replayed_least=replayed.least,
        replayed_most=replayed.most,
        debris=sum(one.size for one in ahead),
    )
