"""How long the first position after a move is waited for, and the step that does it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from seamark.core.offset import Offset
from seamark.offsets.write.progress_step import CheckProgress

if TYPE_CHECKING:
    from seamark.context import ConnectSettings, Context

_FLUSH = "offset.flush.interval.ms"
# Connect's own default. Whoever has it must not wait a minute for a look: at 15 s it is told that nothing can be there
# yet, and `--wait` waits for it.
_DEFAULT_FLUSH_SECONDS = 60.0
_MOST_SECONDS = 15.0
# From the resume to the first poll of a new task there is a rebalance.
_START_SECONDS = 4.0


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
