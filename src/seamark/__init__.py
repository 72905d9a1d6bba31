"""seamark: run Kafka Connect without fear."""

from __future__ import annotations

from typing import Any

# `__init__.pyi` has the types of the names in _LAZY.
__all__ = ["Fleet", "__version__", "open"]
__version__ = "0.1.0.dev0"

_LAZY = {"Fleet": ("seamark.fleet", "Fleet"), "open": ("seamark.fleet", "open_fleet")}


def __getattr__(name: str) -> Any:
    # Importing the package stays cheap: `seamark --help` must not pay for a Kafka client.
    if name not in _LAZY:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from importlib import import_module  # noqa: PLC0415

    module, attribute = _LAZY[name]
    return getattr(import_module(module), attribute)
