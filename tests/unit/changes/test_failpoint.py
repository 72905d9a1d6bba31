"""The test-only switch that kills or stops a child process at a point of a change."""

from __future__ import annotations

import pytest

from seamark.changes.interruption import set_hook
from seamark.errors import UsageError
from tests.fault.failpoint import VARIABLE, interrupt


@pytest.fixture(autouse=True)
def without_hook():
    yield
    set_hook(None)


def test_a_wrong_point_is_an_error(monkeypatch):
    monkeypatch.setenv(VARIABLE, "after-intend:0:kill")
    with pytest.raises(UsageError, match="after-intend"):
        interrupt("after-intent", 0)


def test_another_point_or_number_is_passed(monkeypatch):
    monkeypatch.setenv(VARIABLE, "after-intent:7:kill")
    interrupt("after-intent", 0)
    interrupt("after-open", 7)
