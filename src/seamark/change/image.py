"""Images of what is and shall be, for the journal: JSON, with secrets sealed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any

from seamark.change.world import World
from seamark.model.sensitive import MASK, is_reference, is_sensitive, mask_value

SECRET_SCHEME = "secret://"  # noqa: S105 - the scheme of references, no secret
_SEALED = "sealed"


def build_fingerprint(image: Any) -> str:
    """A hash of an image, by which a plan knows whether the world has moved."""
    spelled = json.dumps(image, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(spelled.encode()).hexdigest()


def reveal_config(config: Mapping[str, str], world: World) -> dict[str, str]:
    """The config as Connect shall get it: our own references replaced, Connect's left alone."""
    return {key: world.reveal(value) if value.startswith(SECRET_SCHEME) else value for key, value in config.items()}


def hide_secrets(config: Mapping[str, str], hidden: Collection[str] = ()) -> dict[str, str]:
    """Return the config as a plan may hold it: literal secrets are masked, references stay. `hidden` are further keys.

    Most values are plain, and one plan may hold ten thousand configs: only values that may hold a secret are examined.
    """
    shown = dict(config)
    for key, value in config.items():
        may_hold = is_sensitive(key) or key in hidden or ":" in value or "=" in value or "PRIVATE KEY" in value
        if may_hold and _is_literal_secret(key, value, hidden):
            shown[key] = MASK
    return shown


def find_references(config: Mapping[str, str]) -> tuple[str, ...]:
    """The keys whose values are our own references: what stands behind them is a secret, whatever the key's name."""
    return tuple(sorted(key for key, value in config.items() if value.startswith(SECRET_SCHEME)))


def build_config_image(config: Mapping[str, str], world: World, *, secret: Collection[str] = ()) -> dict[str, Any]:
    """The config as the journal keeps it: literal secrets as seals. `secret` are keys whose names do not tell."""
    return {key: _image_of(key, value, world, secret=secret) for key, value in config.items()}


def find_sealed(image: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys whose values the journal does not hold."""
    return tuple(sorted(key for key, value in image.items() if is_sealed(value)))


def is_sealed(value: Any) -> bool:
    """Whether a value of an image stands for a secret that the journal does not hold."""
    return isinstance(value, Mapping) and _SEALED in value


def _image_of(key: str, value: str, world: World, *, secret: Collection[str]) -> Any:
    # By the look of the value too: a JDBC URL may hold a password under a key that does not tell.
    if (key in secret and not is_reference(value)) or mask_value(key, value) != value:
        return {_SEALED: world.seal(value)}
    return value


def _is_literal_secret(key: str, value: str, hidden: Collection[str]) -> bool:
    if value.startswith(SECRET_SCHEME):
        return False
    return (key in hidden and not is_reference(value)) or mask_value(key, value) != value


def split_secrets(config: Mapping[str, str], present: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The config without the literal secrets that stay as they are, and the keys of those.

    What Connect holds already need not be in a plan, so such a plan can be saved and applied later.
    """
    kept = tuple(
        sorted(key for key, value in config.items() if mask_value(key, value) != value and present.get(key) == value)
    )
    return {key: value for key, value in config.items() if key not in kept}, kept
