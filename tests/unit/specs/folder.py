"""A folder of spec files for a test."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

import pytest

from seamark.connectors.config import DesiredConnector
from seamark.errors import SeamarkError
from seamark.specs import load_spec
from seamark.specs.model import Spec

CLASS = "connector.class"


@dataclass
class Folder:
    """Files below a folder, loaded by their relative paths."""

    path: Path
    environ: dict[str, str] = field(default_factory=dict)

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
        return path

    def load(self, *names: str, allow_python: bool = False) -> Spec:
        paths = [self.path / name for name in names] or [self.path]
        return load_spec(paths, environ=self.environ, allow_python=allow_python)

    def connectors(self, *names: str, allow_python: bool = False) -> dict[str, DesiredConnector]:
        found = self.load(*names, allow_python=allow_python).connectors
        return {connector.owner: connector for connector in found}

    def configs(self, *names: str, allow_python: bool = False) -> dict[str, dict[str, str]]:
        found = self.connectors(*names, allow_python=allow_python)
        return {owner: dict(connector.config) for owner, connector in found.items()}

    def fail(self, *names: str, allow_python: bool = False) -> SeamarkError:
        """The error of a load, with the folder's own path taken out of it."""
        with pytest.raises(SeamarkError) as caught:
            self.load(*names, allow_python=allow_python)
        error = caught.value
        assert error.hint, error.cause
        error.cause = error.cause.replace(f"{self.path}/", "")
        return error
