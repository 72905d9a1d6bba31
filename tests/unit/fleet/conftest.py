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
