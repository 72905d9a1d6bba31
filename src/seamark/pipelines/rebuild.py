"""Write the table of a pipeline again from its topic, and replace its files in one change, which can be undone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Self

from seamark.changes.action import Reads, StandaloneStep, StepSeen, action_kind, needs_permission
from seamark.changes.effect import ChangeKind, Effect, FieldChange
from seamark.changes.environment import Environment
from seamark.changes.locks import pipeline_lock
from seamark.changes.step import CanNotUndo, Intent, Observed, Step, compare_image, step_kind
from seamark.core.refs import Port, build_pipeline_owner
from seamark.errors import NotFoundError, RefusedError, SeamarkError
from seamark.kafka.api import BROKERS, BrokerPort
from seamark.kafka.model import OffsetSpec, TopicStatus
from seamark.pipelines.declared import PipelineSpec
from seamark.policy.permissions import Permission
from seamark.report.listing import Column, Listing, View
from seamark.report.words import render_count, render_number
from seamark.tables.definition import Landing
from seamark.tables.model import KAFKA_OFFSET, TableRebuild, TableVersion
from seamark.tables.registry import RebuildableTable

OpenTable = Callable[[str, str, str, str], RebuildableTable]
REBUILDABLE: Port[OpenTable] = Port("rebuildable")
"""Opens the table of a pipeline: takes the pipeline, the kind of store as in `to:`, the store's name, and the table."""
_GENERATION, _VERSION = "generation", "version"
# Kafka's default of delete.retention.ms.
HOLD_SECONDS = 60.0
"""How long a running pipeline waits for the swap. The records of the time since the last look are read meanwhile."""


@dataclass(frozen=True, slots=True)
class _ReplacesFiles(StandaloneStep):
    """All files of a pipeline's table are replaced by others, with columns and offsets, in one commit.

    The image is the generation of the files: batches, compaction and vacuum don't change it.
    """

    aspect: ClassVar[str] = "files"
    shown: ClassVar[frozenset[str]] = frozenset({"name", "table"})

    name: str
    place: str
    store: str
    table: str

    @property
    def subject(self) -> str:
        return build_pipeline_owner(self.name)

    @classmethod
    def find_locks(cls, actions: Sequence[Self], reads: Reads) -> Sequence[frozenset[str]]:
        return [frozenset({pipeline_lock(action.name)}) for action in actions]

    def observe(self, world: Environment, intent: Intent) -> Observed:
        return compare_image({_GENERATION: self.open(world).read_current().generation}, intent)

    def open(self, world: Environment) -> RebuildableTable:
        """Open the table."""
        return world.use(REBUILDABLE)(self.name, self.place, self.store, self.table)

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        return RestoreTable(
            self.name,
            self.place,
            self.store,
            self.table,
            generation=intent.before[_GENERATION],
            since=intent.extra["before"][_VERSION],
        )

    def build_effect(self, seen: StepSeen) -> Effect:
        before, after = seen.intent.extra["before"], seen.intent.extra["after"]
        found = [
            FieldChange(name, _spell_number(before[name]), _spell_number(after[name])) for name in ("rows", "files")
        ]
        found += [
            FieldChange(f"column {name}", before["columns"].get(name), after["columns"].get(name))
            for name in sorted(before["columns"].keys() | after["columns"].keys())
            if before["columns"].get(name) != after["columns"].get(name)
        ]
        found += [
            FieldChange(f"offset of {name}", _spell_number(before["offsets"].get(name)), _spell_number(offset))
            for name, offset in after["offsets"].items()
            if before["offsets"].get(name) != offset
        ]
        changed = tuple(one for one in found if one.before != one.after)
        more = (
            "queries see the new rows from one commit on; a stream that reads the table sees all rows replaced",
            "a running pipeline continues at the new offsets",
        )
        return Effect(ChangeKind.CHANGE, self.subject, self.summarize(), changed, consequences=more)

    def summarize(self) -> str:
        """Return what replaces the files, in a few words."""
        raise NotImplementedError


@action_kind("swap-table")
@needs_permission(Permission.CHANGE_OFFSETS, Permission.DELETE)
@step_kind("swap-table")
@dataclass(frozen=True, slots=True)
class SwapTable(_ReplacesFiles):
    """The rebuilt files of a table replace its current ones."""

    rebuild: str = ""

    def describe(self) -> str:
        return f"swap in the rebuilt files of {self.subject}"

    def summarize(self) -> str:
        return f"replace all files of {self.table} by rebuilt ones; undo until vacuum deletes the current ones"

    def intend(self, world: Environment) -> Intent:
        table = self.open(world)
        current, rebuilt = table.read_current(), find_open(table, self.rebuild)
        return Intent(
            before={_GENERATION: current.generation},
            after={_GENERATION: rebuilt.contents.generation},
            extra={"before": _build_image(current), "after": _build_image(rebuilt.contents)},
        )

    def perform(self, world: Environment, intent: Intent) -> str | None:
        table = self.open(world)
        table.swap_in(self.rebuild, generation=intent.after[_GENERATION])
        try:
            table.discard_rebuild()
        except SeamarkError as error:
            # Its files are part of the table now. The next rebuild discards its log.
            return f"the log of the rebuild is left: {error.message}"
        return None


@action_kind("restore-table")
@needs_permission(Permission.CHANGE_OFFSETS, Permission.DELETE)
@step_kind("restore-table")
@dataclass(frozen=True, slots=True)
class RestoreTable(_ReplacesFiles):
    """The files that a rebuild has replaced are the table's again, with their offsets.

    Attributes:
        generation: Which files.
        since: A version of the table that has them; batches may have added more before they were replaced.
    """

    generation: int = 0
    since: int = 0

    def describe(self) -> str:
        return f"restore the replaced files of {self.subject}"

    def summarize(self) -> str:
        return f"restore the files and offsets that {self.table} had before; later records are processed again"

    def intend(self, world: Environment) -> Intent:
        table = self.open(world)
        current, former = table.read_current(), table.find_version(self.generation, since=self.since)
        check_kept(world.use(BROKERS)(), self.subject, former=former, current=current)
        return Intent(
            before={_GENERATION: current.generation},
            after={_GENERATION: self.generation},
            extra={"before": _build_image(current), "after": _build_image(former)},
        )

    def perform(self, world: Environment, intent: Intent) -> str | None:
        table = self.open(world)
        former = table.find_version(self.generation, since=self.since)
        check_kept(world.use(BROKERS)(), self.subject, former=former, current=table.read_current())
        table.restore(intent.extra["after"][_VERSION], generation=self.generation)
        return None


def _build_image(version: TableVersion) -> dict[str, Any]:
    offsets = {str(entry): entry.next_offset for entry in sorted(version.entries.values(), key=str)}
    return {
        _VERSION: version.version,
        "files": version.files,
        "rows": version.rows,
        "columns": dict(version.columns),
        "offsets": offsets,
    }


def _spell_number(value: int | None) -> str | None:
    return None if value is None else render_number(value)


def check_kept(brokers: BrokerPort, owner: str, *, former: TableVersion, current: TableVersion) -> None:
    """Check that the records between two versions are still there: they are to be processed again.

    Raises:
        RefusedError: Some were deleted, or their topic was, so that their rows would be lost.
    """
    later = [one for key, one in current.entries.items() if one.next_offset > _find_offset(former, key)]
    if not later:
        return
    topic = brokers.read_topics([later[0].topic])
    present = topic.items[0] if topic.items else None
    gone = [one for one in later if present is None or one.topic_id != present.topic_id]
    if gone:
        raise _build_lost(owner, f"topic {gone[0].topic} was deleted or recreated since")
    if present is not None and present.configs_error:
        raise _build_lost(owner, _spell_unknown(present.name, present.configs_error))
    if present is not None and is_compacted(present):
        # A row may also come from a record that is not the last of its key: by its order, or because the table has
        # another key. And a delete is gone after delete.retention.ms.
        raise _build_lost(owner, f"topic {present.name} is compacted: only the last record of each key is left")
    found = brokers.read_bounds([(one.topic, one.partition) for one in later]).require_complete(what="the topic")
    for one in later:
        edge, offset = found[one.topic, one.partition].earliest, _find_offset(former, one.key)
        if edge > offset:
            raise _build_lost(owner, f"{one} starts at offset {edge:,}, and the files end at {offset:,}")


def _find_offset(version: TableVersion, key: tuple[str, int]) -> int:
    found = version.entries.get(key)
    return 0 if found is None else found.next_offset


def _build_lost(owner: str, cause: str) -> RefusedError:
    return RefusedError(
        f"the files of {owner} can't be restored: the topic no longer has all records since then; no changes were made",
        cause=cause,
        hint="read the earlier version of the table with VERSION AS OF, or rebuild it again",
    )


def _spell_unknown(topic: str, error: str) -> str:
    return f"it isn't known whether topic {topic} is compacted: {error}"


def is_compacted(topic: TopicStatus) -> bool:
    """Return whether a topic drops older records of a key."""
    policy = topic.configs.get("cleanup.policy")
    return policy is not None and "compact" in (policy.value or "")


def find_open(table: RebuildableTable, rebuild: str = "") -> TableRebuild:
    """Return the rebuild that waits to be swapped in.

    Raises:
        NotFoundError: There is none, or it is another one.
    """
    found = table.find_rebuild()
    if found is None or found.is_swapped or rebuild not in ("", found.id):
        raise NotFoundError(
            "there is no rebuild to swap in",
            cause="it was discarded, replaced by another one, or swapped in before",
            hint="begin one: seamark pipelines rebuild NAME",
        )
    return found


# --- what a rebuild reads


@dataclass(frozen=True, slots=True)
class RebuiltPartition:
    """One partition: its records, and how far the table and its rebuild are."""

    partition: int
    begin: int
    end: int
    landed: int | None
    rebuilt: int | None

    @property
    def left(self) -> int:
        """How many offsets the rebuild has to read."""
        return max(0, self.end - max(self.begin, self.rebuilt or 0))


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """What a rebuild would read, and what the table would lose.

    Attributes:
        declared: The pipeline.
        current: What the table has now.
        topic_id: The topic; one of the same name that is created later isn't read.
        partitions: The records of the topic.
        existing: The rebuild that is continued; None: a new one begins.
        stale: How many entries the table has of a deleted topic of the same name.
        is_compacted: Whether the topic drops records that the table may have rows of.
        configs_error: Why that isn't known, if it isn't.
    """

    declared: PipelineSpec
    current: TableVersion
    topic_id: str
    partitions: tuple[RebuiltPartition, ...]
    existing: TableRebuild | None = None
    stale: int = 0
    is_compacted: bool = False
    configs_error: str = ""
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def left(self) -> int:
        """How many offsets there are to read."""
        return sum(one.left for one in self.partitions)

    def find_losses(self) -> tuple[str, ...]:
        """Return why rows of the table may be missing after the rebuild."""
        landing, has_rows = self.declared.landing, self.current.rows != 0
        # Where the offset was reset or moved to the first record, it isn't known which records the rows are from.
        deleted = [one for one in self.partitions if one.begin > 0 and (one.landed or has_rows)]
        found = [
            f"{landing.topic}-{one.partition} starts at offset {render_number(one.begin)}: earlier records were deleted"
            for one in deleted
        ]
        if self.stale:
            found.append(f"the table has records of a deleted topic {landing.topic}")
        # The last record of a key is the one that counts only if the topic's key and order are those of the table, and
        # if it can't be a dead letter: then the row is that of an earlier record.
        is_last_enough = (
            landing.is_key_in_key and landing.order in ((), (KAFKA_OFFSET,)) and landing.dead_letters is None
        )
        if landing.mode.has_key and is_last_enough:
            return tuple(found)
        if self.is_compacted:
            found.append(f"{landing.topic} is compacted: only the last record of each key is left")
        if self.configs_error:
            found.append(_spell_unknown(landing.topic, self.configs_error))
        return tuple(found)

    def check_losses(self, *, allow_row_loss: bool) -> None:
        """Check that the topic can still give all rows.

        Raises:
            RefusedError: Rows may be missing, and that isn't allowed.
        """
        if (found := self.find_losses()) and not allow_row_loss:
            raise RefusedError(
                f"a rebuild of {self.declared.landing.table} may lose rows; no changes were made",
                cause="; ".join(found[:3]) + ("; …" if len(found) > 3 else ""),
                hint="if the table has no rows of those records, or doesn't need them, pass --allow-row-loss",
            )


LISTING: Listing[RebuiltPartition] = Listing(
    kind="RebuiltPartitionList",
    noun="partition",
    name=lambda one: str(one.partition),
    columns=(
        Column("partition", "PARTITION", lambda one: one.partition, right=True),
        Column("begin", "BEGIN", lambda one: one.begin, text=lambda one: render_number(one.begin), right=True),
        Column("end", "END", lambda one: one.end, text=lambda one: render_number(one.end), right=True),
        Column("landed", "TABLE AT", lambda one: one.landed, text=lambda one: _render(one.landed), right=True),
        Column("rebuilt", "REBUILD AT", lambda one: one.rebuilt, text=lambda one: _render(one.rebuilt), right=True),
        Column("left", "TO READ", lambda one: one.left, text=lambda one: render_number(one.left), right=True),
    ),
)


def _render(value: int | None) -> str:
    return "-" if value is None else render_number(value)


def build_rebuild_view(plan: RebuildPlan) -> View[RebuiltPartition]:
    """The records that a rebuild reads, by partition."""
    return View(LISTING, plan.partitions, empty="The topic has no partitions.")


def describe_rebuild(plan: RebuildPlan) -> tuple[str, ...]:
    """Return lines that say what a rebuild does."""
    current, landing = plan.current, plan.declared.landing
    rows = "rows unknown" if current.rows is None else render_count(current.rows, "row")
    lines = [f"{landing.table} has {rows} in {render_count(current.files, 'file')}"]
    if plan.existing is not None:
        lines.append(f"an unfinished rebuild continues, with {render_count(plan.existing.contents.files, 'file')}")
    lines.append(f"{render_count(plan.left, 'record')} of {landing.topic} are read into new files beside them")
    if plan.declared.start is not OffsetSpec.EARLIEST:
        lines.append("also records from before the start of the pipeline, which the table was not to have")
    return (*lines, *(f"rows may be missing: {one}" for one in plan.find_losses()))


def build_digest(landing: Landing) -> str:
    """Return the hash of a definition: rows that were built by another one must not be mixed with its rows."""
    return hashlib.sha256(json.dumps(asdict(landing), sort_keys=True, default=str).encode()).hexdigest()


def build_partitions(
    bounds: Mapping[int, tuple[int, int]], landed: Mapping[int, int], rebuilt: Mapping[int, int]
) -> tuple[RebuiltPartition, ...]:
    """Join what is known of each partition."""
    return tuple(
        RebuiltPartition(number, begin, end, landed.get(number), rebuilt.get(number))
        for number, (begin, end) in sorted(bounds.items())
    )
