"""Configs in steps: what a plan may hold of them, and what is seen of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from seamark.change.image import build_config_image, is_same_image
from seamark.change.step import Intent, Observed
from seamark.change.steps.read import read_config
from seamark.change.world import World
from seamark.errors import RefusedError
from seamark.model.sensitive import MASK

# A worker that takes part in a rebalance shows a change within seconds; a minute is a cluster in trouble.
SETTLE_SECONDS = 60.0


def refuse_hidden(config: Mapping[str, str], subject: str) -> None:
    """Refuse a config whose secrets were left out when its plan was saved or journalled."""
    hidden = sorted(key for key, value in config.items() if value == MASK)
    if hidden:
        raise RefusedError(
            f"the plan does not hold the secrets of {subject}",
            cause=f"hidden when the plan was saved: {', '.join(hidden)}",
            hint="make the plan anew from the file, or write the values as secret:// references",
        )


def read_config_image(world: World, cluster: str, name: str, *, secret: Collection[str]) -> dict[str, Any] | None:
    """The image of the config that Connect holds, or None where there is no such connector."""
    config = read_config(world, cluster, name)
    if config is None:
        return None
    return {"config": build_config_image(config, world, cluster=cluster, secret=secret)}


def compare_config(image: Any, intent: Intent, world: World) -> Observed:
    """Return where the image of a config is between an intent's before and after."""
    now, before, after = ((found or {}).get("config") for found in (image, intent.before, intent.after))
    if is_same_image(now, after, world):
        return Observed.AFTER
    return Observed.BEFORE if is_same_image(now, before, world) else Observed.FOREIGN


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
