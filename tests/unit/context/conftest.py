"""A folder with a repository, a user's and a system's config folder, and nothing of this machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from seamark.context import (
    Context,
    Contexts,
    WrittenFile,
    add_context,
    load_contexts,
    open_context,
    remove_context,
    rename_context,
    use_context,
)


@dataclass
class Workplace:
    """Files in three places and an environment, and the calls that see only those."""

    root: Path
    environ: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for folder in (self.project, self.project / ".git", self.user, self.system):
            folder.mkdir(parents=True, exist_ok=True)
        self.cwd = self.project
        self.environ["HOME"] = str(self.root / "home")

    @property
    def project(self) -> Path:
        return self.root / "home" / "project"

    @property
    def user(self) -> Path:
        return self.root / "home" / ".config" / "seamark"

    @property
    def system(self) -> Path:
        return self.root / "etc" / "seamark"

    @property
    def where(self) -> dict[str, Any]:
        return {"environ": self.environ, "cwd": self.cwd, "user_dir": self.user, "system_dir": self.system}

    def write(self, text: str, name: str = "seamark.yaml") -> Path:
        path = self.project / name
        path.write_text(text, encoding="utf-8")
        return path

    def trust_project(self) -> None:
        """Make the project's file the user's own: only then may it send secrets of the machine to its addresses."""
        self.environ["SEAMARK_CONFIG"] = str(self.project / "seamark.yaml")

    def write_user(self, text: str) -> Path:
        (self.user / "config.yaml").write_text(text, encoding="utf-8")
        return self.user / "config.yaml"

    def write_system(self, text: str) -> Path:
        (self.system / "config.yaml").write_text(text, encoding="utf-8")
        return self.system / "config.yaml"

    def load(self) -> Contexts:
        return load_contexts(**self.where)

    def open(self, name: str | None = None, **more: Any) -> Context:
        return open_context(name, **self.where, **more)

    def add(self, name: str, **more: Any) -> WrittenFile:
        return add_context(name, **self.where, **more)

    def use(self, name: str, **more: Any) -> WrittenFile:
        return use_context(name, **self.where, **more)

    def remove(self, name: str) -> WrittenFile:
        return remove_context(name, **self.where)

    def rename(self, name: str, new: str) -> WrittenFile:
        return rename_context(name, new, **self.where)

    def values(self, name: str | None = None) -> dict[str, str]:
        return {setting.key: setting.value for setting in self.open(name).settings()}

    def origins(self, name: str | None = None) -> dict[str, str]:
        return {setting.key: str(setting.origin) for setting in self.open(name).settings()}


@pytest.fixture
def workplace(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)
