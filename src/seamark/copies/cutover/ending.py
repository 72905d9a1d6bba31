"""The end of a copy: which of its two topics nobody needs any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from seamark.copies.plan.copy_plan import build_back_name
from seamark.copies.plan.landings import leave_mirrors_out, read_landings
from seamark.copies.plan.source import find_topic
from seamark.errors import NotFoundError, RefusedError

if TYPE_CHECKING:
    from seamark.copies.cutover.operations import CutoverOperations
    from seamark.copies.plan.copy_plan import CopyPlan
    from seamark.kafka.api import BrokersPort
    from seamark.kafka.topic import TopicStatus


def find_leftover(
    plan: CopyPlan, *, name: str, kafka: BrokersPort, operations: CutoverOperations, abandon: Sequence[str] = ()
) -> str:
    """The topic to delete: the source; or the temporary copy, where the source was made anew under its name.

    `name` is how `operations` name the copy.

    Raises:
        RefusedError: it is gone already, or a group has a position in it and none in the other one, or it holds what
            was never copied to that.
    """
    source, target = find_topic(kafka, plan.source.topic), find_topic(kafka, plan.target.topic)
    if source is None or target is None:
        gone = plan.source.topic if source is None else plan.target.topic
        raise RefusedError(f"the copy {plan.id} is finished: {gone} is gone")
    is_anew = bool(plan.source.topic_id) and source.topic_id != plan.source.topic_id
    left, kept = (target, source) if is_anew else (source, target)
    _refuse_stranded(left, kept, kafka=kafka, abandon=abandon)
    _refuse_uncopied(left, kept, copy=build_back_name(name) if is_anew else name, operations=operations)
    return left.name


def _refuse_uncopied(left: TopicStatus, kept: TopicStatus, *, copy: str, operations: CutoverOperations) -> None:
    """Refuse to delete what somebody has written since, as a producer may that nobody has turned."""
    try:
        behind = operations.list_left(copy)
    except NotFoundError as error:
        raise RefusedError(
            f"{left.name} was never copied to {kept.name}; nothing was deleted",
            cause=error.message,
            hint="seamark copy status lists what was copied, and seamark journal list which cut-over is open",
        ) from None
    if behind:
        plan, count = copy.partition("@")[0], sum(behind.values())
        raise RefusedError(
            f"{left.name} holds {count} offsets that were never copied to {kept.name}; nothing was deleted",
            cause=f"behind what was copied: {', '.join(f'partition {at} has {n}' for at, n in behind.items())}",
            hint=f"stop who writes there, then copy them: seamark copy run {plan} --follow --lag 0; or, if nobody "
            f"misses them: seamark topics delete {left.name}",
        )


def _refuse_stranded(left: TopicStatus, kept: TopicStatus, *, kafka: BrokersPort, abandon: Sequence[str]) -> None:
    names = [found.name for found in kafka.read_all_groups().items if found.has_offsets]
    spots = (*left.spots, *kept.spots)
    committed = kafka.read_committed(dict.fromkeys(names, spots), with_metadata=False)
    landings = read_landings(kafka, spots)
    held = [
        *committed.require_complete(what="the positions of the readers"),
        *landings.require_complete(what="the ledgers of landings"),
    ]
    alone = [found.group for found in held if {spot[0] for spot in found.offsets} == {left.name}]
    stranded = [group for group in leave_mirrors_out(alone, landings) if group not in abandon]
    if stranded:
        raise RefusedError(
            f"{left.name} is still needed; nothing was deleted",
            cause=f"{', '.join(stranded)} has positions in it, and none in {kept.name}",
            hint=f"cut over first: seamark copy cutover; or, if nobody misses it: --abandon {stranded[0]}",
        )
