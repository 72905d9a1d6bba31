"""What the tests of spec files share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.specs.folder import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """An empty folder that is no part of a repository."""
    return Folder(tmp_path / "config")
