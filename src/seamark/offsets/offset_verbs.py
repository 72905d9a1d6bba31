"""The verbs that change what owners remember: each gives a plan and changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.core.offset import OffsetMap

if TYPE_CHECKING:
    from seamark.changes.planned import Planned
    from seamark.offsets.port import OffsetDependencies
    from seamark.offsets.write.preview_totals import SafetyOptions, Tolerance


class OffsetVerbs:
    """What can be done to offsets. `fleet.offsets` has these verbs."""

    def __init__(self, open_plan: Callable[[], OffsetDependencies]) -> None:
        """`open_plan` builds what one plan needs: it keeps what it has read."""
        self._open_plan = open_plan

    def mend(
        self,
        owners: Sequence[str] = (),
        *,
        everything: bool = False,
        take: str = "",
        accept_zombies: bool = False,
        tolerance: Tolerance | None = None,
        wait_seconds: float | None = None,
    ) -> Planned:
        """Plan that the records of sources are as Connect would have written them: of these, or of `everything`.

        Every spelling that a task may look for gets the same value, and every copy of it. `take` says whose, where
        they differ: `newest`, or the place of one as `of` shows it.
        """
        from seamark.offsets.repair.plans import MendChoice, OffsetMends  # noqa: PLC0415

        choice = MendChoice(take, _build_safety(accept_zombies, tolerance, wait_seconds))
        return OffsetMends(self._open_plan()).mend(owners, everything=everything, choice=choice)

    def purge(
        self,
        owners: Sequence[str] = (),
        *,
        everything: bool = False,
        older_than: float | str | timedelta | None = None,
    ) -> Planned:
        """Plan that connectors which are gone have left nothing behind: these, or `everything` that is left.

        `older_than` is a length of time: what was written since stays.
        """
        from seamark.offsets.purge import OffsetPurges  # noqa: PLC0415

        before_ms = None
        if older_than is not None:
            from seamark.offsets.move.targets import parse_length  # noqa: PLC0415

            before_ms = int((datetime.now(UTC).timestamp() - parse_length(older_than)) * 1000)
        return OffsetPurges(self._open_plan()).purge(owners, everything=everything, older_than_ms=before_ms)

    def move(
        self,
        owner: str,
        *,
        to: str | int | datetime | OffsetMap | None = None,
        back: float | str | timedelta | None = None,
        as_of: str | datetime | None = None,
        shift: int | None = None,
        source: Path | None = None,
        partitions: Sequence[str] = (),
        accept_zombies: bool = False,
        tolerance: Tolerance | None = None,
        wait_seconds: float | None = None,
    ) -> Planned:
        """Plan another place for an owner; exactly one of the first five says where.

        `to` is a map, a number, a time, `beginning`, and for sinks and groups `earliest` and `latest`. `back` is a
        length of time, by the position's own clock where it holds one. `as_of` is where it stood at a time, out of the
        history in its topic. `shift` is a number of records, bytes or ids; `source` the file of an export. `partitions`
        are names, JSON maps, or `TOPIC` and `TOPIC:0,1`. The plan counts what is read again or skipped. When a
        connector runs again, its first new position is looked at: up to `wait_seconds`, 0 for not at all.

        Raises:
            UnsupportedError: it can't be moved so; the hint says how it can.
            RefusedError: the offsets are none that it could read, or nobody can tell what it holds.
        """
        from seamark.offsets.move.moves import OffsetMoves  # noqa: PLC0415
        from seamark.offsets.move.targets import Move  # noqa: PLC0415

        move = Move(to=to, back=back, as_of=as_of, shift=shift, source=source)
        if as_of is not None:
            return self.back_to(
                as_of,
                [owner],
                partitions=partitions,
                accept_zombies=accept_zombies,
                tolerance=tolerance,
                wait_seconds=wait_seconds,
            )
        safety = _build_safety(accept_zombies, tolerance, wait_seconds)
        return OffsetMoves(self._open_plan()).move(owner, move, partitions=partitions, safety=safety)

    def forget(
        self,
        owner: str,
        *,
        partitions: Sequence[str] = (),
        accept_zombies: bool = False,
        tolerance: Tolerance | None = None,
        wait_seconds: float | None = None,
    ) -> Planned:
        """Plan that an owner forgets all its offsets, or those of some partitions. It then begins at its beginning."""
        from seamark.offsets.move.moves import OffsetMoves  # noqa: PLC0415

        safety = _build_safety(accept_zombies, tolerance, wait_seconds)
        return OffsetMoves(self._open_plan()).forget(owner, partitions=partitions, safety=safety)

    def restore(
        self,
        path: Path,
        *,
        owners: Sequence[str] = (),
        accept_zombies: bool = False,
        tolerance: Tolerance | None = None,
        wait_seconds: float | None = None,
    ) -> Planned:
        """Plan that owners stand where an export says, or the JSON of `connect-offsets`; all of it without owners.

        Partitions that the file does not name stay as they are.
        """
        from seamark.offsets.move.moves import OffsetMoves  # noqa: PLC0415

        safety = _build_safety(accept_zombies, tolerance, wait_seconds)
        return OffsetMoves(self._open_plan()).restore(path, owners=owners, safety=safety)

    def copy(
        self,
        source: str,
        target: str,
        *,
        accept_zombies: bool = False,
        tolerance: Tolerance | None = None,
        wait_seconds: float | None = None,
    ) -> Planned:
        """Plan that one owner stands where another does, with the keys as the target names them."""
        from seamark.offsets.move.moves import OffsetMoves  # noqa: PLC0415

        safety = _build_safety(accept_zombies, tolerance, wait_seconds)
        return OffsetMoves(self._open_plan()).copy(source, target, safety=safety)

    def relocate(
        self, owner: str, topic: str | None, *, accept_zombies: bool = False, wait_seconds: float | None = None
    ) -> Planned:
        """Plan that a source keeps its offsets in a topic of its own, and reads nothing again for it.

        Without a topic it goes back to that of its workers. The topic is made where it is not there.
        """
        from seamark.offsets.move.moves import OffsetMoves  # noqa: PLC0415

        safety = _build_safety(accept_zombies, None, wait_seconds)
        return OffsetMoves(self._open_plan()).relocate(owner, topic, safety=safety)

    def back_to(
        self,
        moment: str | datetime,
        owners: Sequence[str] = (),
        *,
        everything: bool = False,
        exports: Sequence[Path] = (),
        by_record_time: bool = False,
        skip_unknown: bool = False,
        partitions: Sequence[str] = (),
        accept_zombies: bool = False,
        tolerance: Tolerance | None = None,
        wait_seconds: float | None = None,
    ) -> Planned:
        """Plan that owners stand where they stood at a moment: sources and sinks together, a lane for each.

        `owners` are NAME, CLUSTER/NAME, globs and group/NAME; `everything` is every connector. Where they stood is
        told by the offsets topics, the journal, and `exports`, which are files and folders. With `by_record_time` a
        sink that none of them has seen goes to the first record of that time or later. Each line of the plan says
        whose word it is, and whether it is exact or a bound. A bound never skips anything.

        Raises:
            RefusedError: nobody can tell where some of them stood; with `skip_unknown` those are left out, by name.
        """
        from seamark.offsets.move.targets import parse_time  # noqa: PLC0415
        from seamark.offsets.restore.plans import BackTo, Moments  # noqa: PLC0415

        back = BackTo(parse_time(moment), tuple(exports), by_record_time=by_record_time, skip_unknown=skip_unknown)
        safety = _build_safety(accept_zombies, tolerance, wait_seconds)
        return Moments(self._open_plan()).plan(
            owners, back, everything=everything, partitions=partitions, safety=safety
        )


def _build_safety(accept_zombies: bool, tolerance: Tolerance | None, wait_seconds: float | None) -> SafetyOptions:
    from seamark.offsets.write.preview_totals import DEFAULT_TOLERANCE, SafetyOptions  # noqa: PLC0415

    return SafetyOptions(accept_zombies, tolerance or DEFAULT_TOLERANCE, wait_seconds)
