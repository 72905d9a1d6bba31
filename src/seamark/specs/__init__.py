"""Spec files → desired values.

A spec program uses `connector`, `topic` and `pipeline` from here; all other code uses `load_spec`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.core import build_lazy_names

if TYPE_CHECKING:
    from seamark.specs.load import load_spec
    from seamark.specs.program import connector, pipeline, topic

__all__ = ["connector", "load_spec", "pipeline", "topic"]

# A spec program needs three functions and must not load the file readers.
__getattr__ = build_lazy_names(
    __name__,
    {
        "load_spec": "seamark.specs.load",
        "connector": "seamark.specs.program",
        "pipeline": "seamark.specs.program",
        "topic": "seamark.specs.program",
    },
)
