"""Shared by the tests of the harness."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bench.harness import measure


@pytest.fixture(autouse=True)
def no_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full collection of pytest's heap before each counted run would be most of this suite's time."""
    monkeypatch.setattr(measure, "gc", SimpleNamespace(collect=lambda: 0))
