"""Offset semantics: one module per connector family, and a registry that entry points can extend."""

from __future__ import annotations

from seamark.offsets.semantics.registry import Registry, find_meaning
from seamark.offsets.semantics.semantics import Meaning

__all__ = ["Meaning", "Registry", "find_meaning"]
