"""Configs in steps: what a plan may hold of them, and what is seen of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from seamark.changes.images import build_config_image, is_same_image
from seamark.changes.step import Intent, Observed
from seamark.changes.world import World
from seamark.connectors.read import read_config
from seamark.core.sensitive import MASK
from seamark.errors import RefusedError


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
