"""The Python API: one context with everything that can be read and changed in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seamark.fleet.fleet import Fleet, open_fleet

__all__ = ["Fleet", "open_fleet"]


def __getattr__(name: str) -> Any:
    # `import seamark.fleet` stays cheap: the clients are loaded when somebody opens a context.
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from seamark.fleet import fleet  # noqa: PLC0415

    return getattr(fleet, name)
