"""Offset semantics: one module per connector family, and a registry that entry points can extend."""

from __future__ import annotations

from seamark.offsets.semantics.registry import Registry, find_meaning
from seamark.offsets.semantics.semantics import OffsetSemantics

__all__ = ["Meaning", "OffsetSemantics", "Registry", "find_meaning"]

# The documented name for packages that provide the semantics of their own connectors.
Meaning = OffsetSemantics
