"""A connector's config as somebody gave it, made fit for Connect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seamark.context import is_masked
from seamark.core.plugin_keys import find_secret_keys
from seamark.core.sensitive import MASK, is_sensitive, mask_value
from seamark.errors import RefusedError, UsageError


def build_config(name: str, given: Mapping[str, Any], *, present: Mapping[str, str] | None = None) -> dict[str, str]:
    """The config as texts, as Connect's own API reads numbers and truth values; `name` is left out of it.

    Connect adds `name` itself. Another name in the config than the connector's is a mistake that it would refuse.
    `present` is what Connect holds: where the config shows a secret of it as seamark does, the secret itself is meant.
    """
    if not given:
        raise UsageError(f"the config of {name} is empty", hint="it needs at least connector.class")
    config = {str(key): _build_text(str(key), value, name=name) for key, value in given.items()}
    named = config.pop("name", name)
    if named != name:
        raise UsageError(f"the config is that of {named}, not of {name}", hint="give the same name in both places")
    config = restore_masked(config, present or {})
    refuse_masks(config, name=name)
    return config


def restore_masked(config: Mapping[str, str], present: Mapping[str, str]) -> dict[str, str]:
    """The config with what Connect holds in place of our mask of it, byte by byte.

    Only the whole value as seamark shows it counts: a URL with another host and the mask in it is not restored, since
    the password would be sent to another host.
    """
    # What another process hid before it knew the types is refused by name, so that it is written again.
    secret = find_secret_keys(present, unread=False) if present else frozenset()
    return {
        key: present[key] if MASK in value and value == mask_value(key, present.get(key, ""), secret) else value
        for key, value in config.items()
    }


def refuse_masks(config: Mapping[str, str], *, name: str) -> None:
    """Refuse what some tool showed in place of a secret: written back, it would be the new secret."""
    secret = find_secret_keys(config, unread=False)
    masked = sorted(
        key
        for key, value in config.items()
        if MASK in value or ((key in secret or is_sensitive(key)) and is_masked(value))
    )
    if masked:
        raise RefusedError(
            f"the config of {name} holds the mask of a secret, not the secret",
            cause=f"masked: {', '.join(masked)}",
            hint="write the secret as a reference: secret://env/NAME or ${file:…}; what Connect holds already may stay "
            "as seamark shows it",
        )


def _build_text(key: str, value: Any, *, name: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    raise UsageError(
        f"{key} of {name} is not a text", cause=f"it is a {type(value).__name__}", hint=f'write it as a text: "{key}"'
    )
