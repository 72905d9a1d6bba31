"""A Connect cluster without a server, and a fleet over it."""

from __future__ import annotations

import pytest

from tests.unit.fleet.living import LivingConnect, open_living_fleet


@pytest.fixture
def game():
    return LivingConnect()


@pytest.fixture
def fleet(tmp_path, game):
    with open_living_fleet(tmp_path, game) as opened:
        yield opened


@pytest.fixture(autouse=True)
def without_worker_group(monkeypatch):
    """No broker to read the worker group from: the stand-ins of Connect know which workers are alive."""
    monkeypatch.setattr("seamark.kafka.worker_group.read_worker_loads", lambda *_, **__: {})
