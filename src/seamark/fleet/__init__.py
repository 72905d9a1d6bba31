"""The Python API: one context with everything that can be read and changed in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.core import build_lazy_names

if TYPE_CHECKING:
    from seamark.fleet.fleet import Fleet, open_fleet

__all__ = ["Fleet", "open_fleet"]

# `import seamark.fleet` stays cheap: the clients are loaded when a context is opened.
__getattr__ = build_lazy_names(__name__, dict.fromkeys(__all__, "seamark.fleet.fleet"))
