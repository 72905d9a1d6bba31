"""How steps compare what they read with what they expect."""

from __future__ import annotations

from typing import Any

from seamark.changes.step import Intent, Observed

# A worker that takes part in a rebalance shows a change within seconds; a minute is a cluster in trouble.
SETTLE_SECONDS = 60.0


def compare_image(image: Any, intent: Intent) -> Observed:
    """Where an image stands between an intent's before and after."""
    if image == intent.after:
        return Observed.AFTER
    return Observed.BEFORE if image == intent.before else Observed.FOREIGN


def compare_places(now: Any, intent: Intent, part: str) -> Observed:
    """The same for an image whose `part` names places: where each is as before or as after, a part of it is done."""
    seen = compare_image(now, intent)
    if seen is not Observed.FOREIGN:
        return seen
    before, after = ((image or {}).get(part, {}) for image in (intent.before, intent.after))
    known = all(value in (before.get(place), after.get(place)) for place, value in now[part].items())
    return Observed.BETWEEN if known else Observed.FOREIGN
