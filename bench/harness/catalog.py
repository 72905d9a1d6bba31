"""Finds benches: each module of the package `bench.cases` holds one."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import bench.cases
from bench.harness.definition import Bench


def list_names() -> tuple[str, ...]:
    """The names of all benches. No bench is imported for it."""
    return tuple(sorted(found.name.replace("_", "-") for found in pkgutil.iter_modules(bench.cases.__path__)))


def load_bench(name: str) -> Bench[Any, Any]:
    """The bench of that name; KeyError where there is none."""
    if name not in list_names():
        raise KeyError(name)
    loaded = importlib.import_module(f"bench.cases.{name.replace('-', '_')}").BENCH
    if not isinstance(loaded, Bench) or loaded.name != name:
        raise TypeError(f"the module of bench {name} has no BENCH of that name")
    return loaded


def load_benches() -> tuple[Bench[Any, Any], ...]:
    """All benches, by name."""
    return tuple(load_bench(name) for name in list_names())
