"""Images of what is and shall be, for the journal: JSON, with secrets sealed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from seamark.change.world import World
from seamark.model.sensitive import is_reference, is_sensitive

SECRET_SCHEME = "secret://"  # noqa: S105 - the scheme of references, no secret
_SEALED = "sealed"


def build_fingerprint(image: Any) -> str:
    """A hash of an image, by which a plan knows whether the world has moved."""
    spelled = json.dumps(image, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(spelled.encode()).hexdigest()


def reveal_config(config: Mapping[str, str], world: World) -> dict[str, str]:
    """The config as Connect shall get it: our own references replaced, Connect's left alone."""
    return {key: world.reveal(value) if value.startswith(SECRET_SCHEME) else value for key, value in config.items()}


def build_config_image(config: Mapping[str, str], world: World) -> dict[str, Any]:
    """The config as the journal keeps it: literal secrets as seals."""
    return {key: _image_of(key, value, world) for key, value in config.items()}


def is_sealed(value: Any) -> bool:
    """Whether a value of an image stands for a secret that the journal does not hold."""
    return isinstance(value, Mapping) and _SEALED in value


def _image_of(key: str, value: str, world: World) -> Any:
    if is_sensitive(key) and not is_reference(value):
        return {_SEALED: world.seal(value)}
    return value
