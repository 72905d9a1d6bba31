"""What somebody changed outside a spec, key by key: told from what the spec applied last and what is there now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seamark.changes.effect import Drift, DriftField
from seamark.changes.images import build_config_image, build_sealed_like, find_key_names, find_sealed, is_sealed
from seamark.changes.world import World
from seamark.connectors.connector_action import is_hidden, show_value

_CHANGED = "changed outside this spec"
_GONE = "deleted outside this spec"


def build_drift(
    subject: str,
    applied: Mapping[str, Any],
    *,
    live: Mapping[str, str],
    wanted: Mapping[str, str],
    change: str,
    cluster: str,
    world: World,
) -> Drift | None:
    """The drift of one connector, or None where it is as the spec left it. `wanted` may be empty: it shall go."""
    hidden = find_sealed(applied)
    held = {key: value for key, value in live.items() if key != "name"}
    now = build_config_image(held, world, cluster=cluster, secret=hidden)
    then = build_config_image(wanted, world, cluster=cluster, secret=hidden)
    # An image in the journal may be older than what is known of its types.
    applied = build_sealed_like(applied, now, world)
    fields = tuple(
        DriftField(
            key,
            applied=show_value(key, applied.get(key)),
            live=show_value(key, now.get(key)),
            wanted=show_value(key, then.get(key)),
            is_sensitive=any(is_hidden(key, image.get(key)) for image in (applied, now)),
        )
        for key in sorted(applied.keys() | now.keys())
        if _differs(applied.get(key), now.get(key))
    )
    return Drift(subject, _CHANGED, change, fields) if fields else None


def build_gone(subject: str, *, change: str) -> Drift:
    """A connector that the spec made and that is not there any more."""
    return Drift(subject, _GONE, change)


def _differs(applied: Any, live: Any) -> bool:
    if applied == live:
        return False
    # Two seals of different keys tell nothing of the secrets behind them.
    return not (is_sealed(applied) and is_sealed(live) and find_key_names(applied) != find_key_names(live))
