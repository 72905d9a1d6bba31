"""Images of current and wanted states for the journal: JSON, with secrets sealed."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from seamark.changes.environment import Environment
from seamark.core.refs import Port
from seamark.core.secrets import MASK, find_secret_keys, is_sensitive, mask_value

SECRET_KEYS: Port[Callable[[str, Mapping[str, str]], frozenset[str]]] = Port("find_secret_keys")
"""Finds the keys of a config that are secret by their types, as the plugins of that Connect cluster report them.

If the types of a plugin can't be read, all keys of that plugin are secret.
"""

SECRET_SCHEME = "secret://"  # noqa: S105 - the scheme of references, not a secret
_SEALED = "sealed"
_SEAL = re.compile(r"hmac-sha256:(?P<key>[0-9a-f]{8}):[0-9a-f]{64}")


def build_fingerprint(image: Any) -> str:
    """Return a hash of an image, by which a plan detects that the running system has changed."""
    spelled = json.dumps(image, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(spelled.encode()).hexdigest()


def reveal_config(config: Mapping[str, str], world: Environment) -> dict[str, str]:
    """Return the config to send to Connect: seamark's own secret references are resolved, Connect's are kept."""
    return {key: world.reveal(value) if value.startswith(SECRET_SCHEME) else value for key, value in config.items()}


def hide_secrets(config: Mapping[str, str], hidden: Collection[str] = ()) -> dict[str, str]:
    """Return the config as a plan may store it: literal secrets are masked, references stay. `hidden` are further keys.

    The plugin types are those that planning has already read. Most values are plain, and one plan may hold ten thousand
    configs, so only values that may hold a secret are examined.
    """
    shown = dict(config)
    secret = find_secret_keys(config, unread=False).union(hidden)
    for key, value in config.items():
        may_hold = is_sensitive(key) or key in secret or ":" in value or "=" in value or "PRIVATE KEY" in value
        if may_hold and not value.startswith(SECRET_SCHEME) and mask_value(key, value, secret) != value:
            shown[key] = MASK
    return shown


def find_references(config: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys whose values are seamark's own references. Their targets are secrets, whatever the key's name."""
    return tuple(sorted(key for key, value in config.items() if value.startswith(SECRET_SCHEME)))


def find_typed(world: Environment, cluster: str, *configs: Mapping[str, str] | None) -> frozenset[str]:
    """Return the keys that are secret by their types in any of these configs of one connector.

    A value that moves from a config with one class to a config with another class stays a secret in both.
    """
    find = world.use(SECRET_KEYS)
    return frozenset().union(*(find(cluster, config) for config in configs if config is not None))


def build_config_image(
    config: Mapping[str, str], world: Environment, *, cluster: str, secret: Collection[str] = ()
) -> dict[str, Any]:
    """Return the config as the journal stores it: literal secrets are sealed.

    A key is secret by its type, its name or its value; `secret` are further keys.
    """
    hidden = find_typed(world, cluster, config).union(secret)
    # Check the value too: a JDBC URL may contain a password under a key that isn't secret.
    return {
        key: {_SEALED: world.seal(value)} if mask_value(key, value, hidden) != value else value
        for key, value in config.items()
    }


def is_same_image(left: Mapping[str, Any] | None, right: Mapping[str, Any] | None, world: Environment) -> bool:
    """Return whether two images show the same config, even if only one of them has a value sealed.

    Which values are sealed depends on the types known when an image was built, and an image may be years old.
    """
    if left is None or right is None or left == right:
        return left == right
    return left.keys() == right.keys() and all(
        value == right[key] or _seal_literal(value, world) == _seal_literal(right[key], world)
        for key, value in left.items()
    )


def build_sealed_like(image: Mapping[str, Any], other: Mapping[str, Any], world: Environment) -> dict[str, Any]:
    """Return the image with those values sealed that are sealed in another image."""
    return {key: _seal_literal(value, world) if is_sealed(other.get(key)) else value for key, value in image.items()}


def find_sealed(image: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys whose values the journal doesn't store."""
    return tuple(sorted(key for key, value in image.items() if is_sealed(value)))


def find_key_names(body: Any) -> set[str]:
    """Return the names of the keys of all seals in a part of the journal or in an image."""
    return {found["key"] for text in _walk(body) if (found := _SEAL.fullmatch(text))}


def _walk(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _walk(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _walk(item)


def is_sealed(value: Any) -> bool:
    """Return whether a value of an image replaces a secret that the journal doesn't store."""
    return isinstance(value, Mapping) and _SEALED in value


def _seal_literal(value: Any, world: Environment) -> Any:
    return {_SEALED: world.seal(value)} if isinstance(value, str) else value


def split_secrets(
    config: Mapping[str, str], present: Mapping[str, str], secret: Collection[str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the config without the literal secrets that stay unchanged, and the keys of those secrets.

    Values that Connect already has need not be in a plan, so such a plan can be saved and applied later. `secret` are
    the keys that are secret by their types.
    """
    kept = tuple(
        sorted(
            key
            for key, value in config.items()
            if mask_value(key, value, secret) != value and present.get(key) == value
        )
    )
    return {key: value for key, value in config.items() if key not in kept}, kept
