"""A file that speaks of a topic which was made anew since: the same numbers mean other records there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from seamark.errors import RefusedError
from seamark.fleet.positions.diff import Side
from seamark.offsets.meaning.sink import find_spot


def refuse_made_anew(
    chosen: Side, ids: Mapping[str, str], read_ids: Callable[[Sequence[str]], Mapping[str, str]]
) -> None:
    """Refuse positions in topics whose ids are other than those in the file. A topic that is gone is told elsewhere."""
    spots = (find_spot(one.partition) for found in chosen.values() for one in found if one.offset is not None)
    stood = sorted({spot[0] for spot in spots if spot is not None} & ids.keys())
    if not stood:
        return
    now = read_ids(stood)
    if other := [topic for topic in stood if topic in now and now[topic] != ids[topic]]:
        raise RefusedError(
            f"{', '.join(other)}: not the topic that the file speaks of; nothing was changed",
            cause=f"the id of {other[0]} is {now[other[0]]}, and was {ids[other[0]]}: a topic made anew, or of another "
            "cluster, has other records under the same numbers",
            hint="say where they shall begin: seamark offsets move OWNER --to earliest, a time, or an offset of the "
            "new one; seamark offsets import FILE OWNER… imports the others",
        )
