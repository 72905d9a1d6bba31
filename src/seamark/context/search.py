"""Which files are looked at for contexts, and whether they can be trusted."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from seamark.context.environment import CONFIG_VARIABLE
from seamark.context.layer import Trust, build_place
from seamark.errors import ConfigurationError

PROJECT_FILE = "seamark.yaml"
CONFIG_FILE = "config.yaml"
SYSTEM_DIR = Path("/etc/seamark")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a search depends on: the environment, the current folder, the two config folders.

    `user_dir` and `system_dir` are the folders that hold `config.yaml` themselves.
    """

    environ: Mapping[str, str] = field(repr=False)
    cwd: Path
    user_dir: Path
    system_dir: Path

    @classmethod
    def build(
        cls,
        *,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        user_dir: Path | None = None,
        system_dir: Path | None = None,
    ) -> Surroundings:
        """What is given, and the real ones for what is not."""
        if user_dir is None:
            # Loaded here: it is slow to import, and tests and servers name their folders.
            from platformdirs import user_config_path  # noqa: PLC0415

            user_dir = user_config_path("seamark", appauthor=False)
        return cls(
            environ=os.environ if environ is None else environ,
            cwd=(cwd or _find_cwd()).absolute(),
            user_dir=user_dir.absolute(),
            system_dir=(system_dir or SYSTEM_DIR).absolute(),
        )

    @property
    def home(self) -> Path | None:
        """The home folder, where the environment names one."""
        text = self.environ.get("HOME")
        return Path(text) if text else None

    def show(self, path: Path) -> str:
        """How a file is named to people."""
        return build_place(path, cwd=self.cwd, home=self.home)


@dataclass(frozen=True, slots=True)
class SearchedFile:
    """One file that seamark searches for contexts. `what` names its kind in messages."""

    what: str
    path: Path
    shown: str
    exists: bool
    trust: Trust = Trust.USER


def find_places(surroundings: Surroundings, *, must_exist: bool = True) -> tuple[SearchedFile, ...]:
    """Return the contexts files, strongest first.

    `SEAMARK_CONFIG` names a file that must exist and replaces the project's and the user's. The system file stays: an
    administrator's settings must not depend on a variable that any process can set.
    """
    system = _build_place("system file", surroundings.system_dir / CONFIG_FILE, surroundings, trust=Trust.SYSTEM)
    named = surroundings.environ.get(CONFIG_VARIABLE, "").strip()
    if named:
        path = surroundings.cwd / named
        place = _build_place(f"{CONFIG_VARIABLE} file", path, surroundings)
        if must_exist and not place.exists:
            raise ConfigurationError(
                f"{CONFIG_VARIABLE} names a file that doesn't exist",
                cause=str(path),
                hint=f"correct or unset {CONFIG_VARIABLE}",
                context={"variable": CONFIG_VARIABLE, "file": place.shown},
            )
        return (place, system)
    project = find_project_file(surroundings.cwd) or surroundings.cwd / PROJECT_FILE
    places = (
        _build_place("project file", project, surroundings, trust=Trust.PROJECT),
        _build_place("user file", surroundings.user_dir / CONFIG_FILE, surroundings),
        system,
    )
    if places[0].exists:
        _check_owner(places[0], surroundings.cwd)
    return places


def find_project_file(cwd: Path) -> Path | None:
    """The nearest `seamark.yaml`, from `cwd` up to the folder with `.git` or the root."""
    for folder in (cwd, *cwd.parents):
        if _is_there(folder / PROJECT_FILE):
            return folder / PROJECT_FILE
        if _is_there(folder / ".git", is_folder_fine=True):
            return None
    return None


def find_state_dir(environ: Mapping[str, str] | None = None) -> Path:
    """The user's folder for what seamark keeps: the journal of files and its key."""
    text = (os.environ if environ is None else environ).get("XDG_STATE_HOME", "").strip()
    if text.startswith("/"):
        return Path(text, "seamark")
    # Loaded here: it is slow to import.
    from platformdirs import user_state_path  # noqa: PLC0415

    return user_state_path("seamark", appauthor=False)


def _find_cwd() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        problem = "the current folder doesn't exist any more"
    raise ConfigurationError(problem, hint="change to a folder that exists")


def _is_there(path: Path, *, is_folder_fine: bool = False) -> bool:
    """Whether a file can be seen there. What hides in a folder that is closed to us is not there for us."""
    try:
        # Not is_file(): a pipe from <(…) is a fine contexts file for SEAMARK_CONFIG.
        return path.exists() and (is_folder_fine or not path.is_dir())
    except OSError:
        return False


def _build_place(what: str, path: Path, surroundings: Surroundings, *, trust: Trust = Trust.USER) -> SearchedFile:
    return SearchedFile(what, path, surroundings.show(path), exists=_is_there(path), trust=trust)


def _check_owner(place: SearchedFile, cwd: Path) -> None:
    """Refuse a project file that another user may have created.

    Without a repository the search goes up to the root, so a `seamark.yaml` that a stranger left in
    /tmp would be found from a folder below. It could send the user's passwords to the stranger.
    """
    status = place.path.stat()
    problem = ""
    if status.st_mode & stat.S_IWOTH:
        problem = "any user can write to it"
    elif status.st_uid not in {os.geteuid(), 0, cwd.stat().st_uid}:
        problem = "it belongs neither to you, nor to root, nor to the owner of the current folder"
    if problem:
        raise ConfigurationError(
            f"{place.shown} is not trusted",
            cause=f"{place.path}: {problem}",
            hint=f"chmod o-w or chown it; to use it anyway: {CONFIG_VARIABLE}={place.shown}",
            context={"file": place.shown},
        )
