"""Spec files → desired values.

A spec program uses `connector` and `topic` from here; everybody else `load_spec`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seamark.specs.load import load_spec
    from seamark.specs.program import connector, topic

__all__ = ["connector", "load_spec", "topic"]

_LAZY = {"load_spec": "seamark.specs.load", "connector": "seamark.specs.program", "topic": "seamark.specs.program"}


def __getattr__(name: str) -> Any:
    # A spec program needs two functions and must not pay for the readers of files.
    if name not in _LAZY:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(_LAZY[name]), name)
