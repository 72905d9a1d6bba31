from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def clean_surroundings(monkeypatch, tmp_path):
    """No variable and no contexts file of whoever runs the tests."""
    for name in list(os.environ):
        if name.startswith(("SEAMARK_", "_SEAMARK_")) or name in ("NO_COLOR", "FORCE_COLOR"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
