"""How long the first position after a move is waited for, and the step that does it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from seamark.change.plan import Plan
from seamark.change.steps.offsets import WriteOffsets
from seamark.change.steps.progress import CheckProgress
from seamark.change.steps.run_state import SetRunState
from seamark.change.steps.stillness import open_offsets
from seamark.errors import NotFoundError
from seamark.model.offset import Offset

if TYPE_CHECKING:
    from seamark.change.step import Step
    from seamark.change.world import World
    from seamark.context import ConnectSettings, Context
    from seamark.fleet.clusters import Clusters

_FLUSH = "offset.flush.interval.ms"
# Connect's own default. Whoever has it must not wait a minute for a look: at 15 s it is told that nothing can be there
# yet, and `--wait` waits for it.
_DEFAULT_FLUSH_SECONDS = 60.0
_MOST_SECONDS = 15.0
# From the resume to the first poll of a new task there is a rebalance.
_START_SECONDS = 4.0
_RUNNING, _PAUSED = "RUNNING", "PAUSED"


def find_flush_seconds(settings: ConnectSettings) -> float | None:
    """How often the workers store what their tasks have read; None where no file of theirs tells.

    With exactly-once it is done with every batch, or as a connector says.
    """
    path = settings.worker_config
    if settings.exactly_once or path is None or not path.is_file():
        return None
    from seamark.context.origin import Origin, OriginKind  # noqa: PLC0415
    from seamark.context.properties import read_properties  # noqa: PLC0415

    found = read_properties(path, origin=Origin(OriginKind.WORKER, str(path), path=path)).get(_FLUSH)
    if found is None:
        return _DEFAULT_FLUSH_SECONDS
    return int(found.value) / 1000 if found.value.strip().isdecimal() else None


def find_wait_seconds(context: Context, flush_seconds: float | None) -> float:
    """How long to look for the first new position, where nobody says."""
    # As for the quiet before a write: who says that requests are over at once has servers that are made up.
    start = min(_START_SECONDS, context.journal.in_flight_seconds / 5)
    if flush_seconds is None:
        flush_seconds = min(_MOST_SECONDS, context.journal.in_flight_seconds)
    return min(_MOST_SECONDS, flush_seconds + start)


def build_progress(
    cluster: str,
    name: str,
    offsets: Sequence[Offset],
    former: Sequence[Offset],
    *,
    context: Context,
    settings: ConnectSettings,
    wait_seconds: float | None = None,
    carried: bool = False,
) -> tuple[CheckProgress, ...]:
    """The look at the first position after a resume; none where somebody does not want to wait."""
    flush_seconds = find_flush_seconds(settings)
    if wait_seconds is None:
        wait_seconds = find_wait_seconds(context, flush_seconds)
    if not wait_seconds:
        return ()
    return (CheckProgress(cluster, name, tuple(offsets), tuple(former), wait_seconds, flush_seconds, carried),)


def watch_progress(
    plan: Plan, steps: Sequence[Step], *, clusters: Clusters, context: Context, world: World
) -> tuple[Plan, tuple[Step, ...]]:
    """A way back that writes offsets and lets their connector run: it is looked at as after any move."""
    written = {step.subject: step for step in steps if isinstance(step, WriteOffsets)}
    paused = {step.subject for step in steps if isinstance(step, SetRunState) and step.state == _PAUSED}
    all_steps: list[Step] = []
    data = []
    for step, old in zip(steps, plan.steps, strict=True):
        all_steps.append(step)
        data.append(old)
        write = written.get(step.subject)
        if write is None or step.subject in paused or not _lets_run(step):
            continue
        try:
            offsets, former = _find_ends(write, world)
        except NotFoundError:
            continue
        found = build_progress(
            write.cluster,
            write.name,
            offsets,
            former,
            context=context,
            settings=clusters.settings(write.cluster),
        )
        for look in found:
            all_steps.append(look)
            data.append(look.to_data(lane=old.lane))
    return replace(plan, steps=tuple(data)), tuple(all_steps)


def _lets_run(step: Step) -> bool:
    return isinstance(step, SetRunState) and step.state == _RUNNING


def _find_ends(write: WriteOffsets, world: World) -> tuple[tuple[Offset, ...], tuple[Offset, ...]]:
    """What a step leaves, and what is held now."""
    from seamark.fleet.moving.review import find_written  # noqa: PLC0415

    port = open_offsets(world, write.cluster, write.name, write.kept)
    offsets = find_written(write)
    held = port.read([one.partition for one in offsets])
    return offsets, tuple(Offset(found.partition, found.offset) for found in held)
