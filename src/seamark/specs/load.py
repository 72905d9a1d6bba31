"""Load a spec: find the files, read each by its type, and reject duplicate definitions."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from seamark.connectors.config import DesiredConnector
from seamark.context.yaml import parse_yaml
from seamark.core.files import FileLocation
from seamark.errors import SpecError, UsageError
from seamark.specs.document import Document, build_spec_error
from seamark.specs.files import FoundFile, build_spec_id, find_files, find_top
from seamark.specs.keys import DEFAULTS_FILE, list_sections
from seamark.specs.layers import Filler, Shared, read_folder
from seamark.specs.model import Contents, Definition, Spec
from seamark.specs.plain_files import read_json_file, read_properties_file
from seamark.specs.yaml_file import read_yaml_file

if TYPE_CHECKING:
    from seamark.context import Context

SpecContext: TypeAlias = "Context | Callable[[], Context] | None"
"""The context whose values fill `${{ context.NAME }}`, or what opens it when the first placeholder needs it."""
# 10,000 connectors of 50 keys in one file take about 20 MB.
_MAX_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Loaded:
    """A spec with the locations of its parts, for code that changes files."""

    spec: Spec
    definitions: tuple[Definition, ...] = ()


def load_spec(
    paths: Sequence[Path], *, environ: Mapping[str, str], allow_python: bool = False, context: SpecContext = None
) -> Spec:
    """Load the declarations in files and folders. `context` has the values of `${{ context.NAME }}`.

    Raises:
        SpecError: A file is invalid; the cause has file, line and column.
        UsageError: One of the files is a program, and `allow_python` is not set.
    """
    loader = _Loader(_build_filler(environ, context), allow_python=allow_python, read=_read_bytes)
    return _load(paths, loader, keep=lambda _: None)


def load_definitions(
    paths: Sequence[Path],
    *,
    environ: Mapping[str, str],
    allow_python: bool = False,
    read: Callable[[Path], bytes] | None = None,
    top: Path | None = None,
    context: SpecContext = None,
) -> Loaded:
    """Load a spec like `load_spec`, with the location of every part.

    `read` may return other bytes than those on disk. `top` is the folder that was named, so that a single file of it is
    loaded in the same way as together with all others.
    """
    loader = _Loader(_build_filler(environ, context), allow_python=allow_python, read=read or _read_bytes)
    definitions: list[Definition] = []
    spec = _load(paths, loader, keep=definitions.extend, top=top)
    return Loaded(spec, tuple(definitions))


def read_shared(folder: Path, *, top: Path, environ: Mapping[str, str], context: SpecContext = None) -> Shared:
    """Return what a file in the folder would inherit if `top` were loaded. The folder need not exist yet."""
    loader = _Loader(_build_filler(environ, context), allow_python=False, read=_read_bytes)
    return loader.read_shared(folder.resolve(), find_top(top))


def _load(
    paths: Sequence[Path],
    loader: _Loader,
    *,
    keep: Callable[[tuple[Definition, ...]], None],
    top: Path | None = None,
) -> Spec:
    """Load the spec. `keep` gets the definitions of each file: their trees are ten times as large as the spec."""
    found = find_files(paths, top=top)
    loader.refuse_programs(found)
    connectors: list[DesiredConnector] = []
    sections: dict[str, list[Any]] = {}
    for file in found:
        contents = loader.read_file(file)
        connectors += [definition.connector for definition in contents.definitions]
        for section, found_here in contents.sections.items():
            sections.setdefault(section, []).extend(found_here)
        keep(contents.definitions)
    _refuse_twice(connectors, sections)
    return Spec(
        build_spec_id(paths, named=loader.read_names(paths), hostname=socket.gethostname()),
        tuple(connectors),
        {section: tuple(entries) for section, entries in sections.items()},
        tuple(str(file.path) for file in found),
    )


def _build_filler(environ: Mapping[str, str], context: SpecContext) -> Filler:
    return Filler(environ, context if callable(context) else lambda: context)


@dataclass(slots=True)
class _Loader:
    filler: Filler
    allow_python: bool
    read: Callable[[Path], bytes]
    folders: dict[tuple[Path, Path], Shared] = field(default_factory=dict)
    names: dict[Path, str] = field(default_factory=dict)

    def refuse_programs(self, files: Iterable[FoundFile]) -> None:
        """Raise for programs before anything is run, unless they are allowed."""
        programs = [str(file.path) for file in files if file.path.suffix.lower() == ".py"]
        if programs and not self.allow_python:
            raise UsageError(
                f"{programs[0]} is a program; programs are not run without --allow-python",
                cause=f"there are {len(programs)} programs" if len(programs) > 1 else "",
                hint="review it, then pass --allow-python, or set policy: {python: true} in your own contexts file",
                context={"file": programs[0]},
            )

    def read_file(self, file: FoundFile) -> Contents:
        """Read everything that one file defines."""
        shared = self.read_shared(file.folder, file.top)
        suffix = file.path.suffix.lower()
        if suffix == ".py":
            from seamark.specs.program import read_py_file  # noqa: PLC0415

            return read_py_file(file.path, shared=shared, filler=self.filler)
        document = self._open(file.path, str(file.path), folder=file.folder, latin=suffix == ".properties")
        if suffix in {".yaml", ".yml"}:
            return read_yaml_file(document, above=shared, filler=self.filler)
        cluster = shared.cluster and self.filler.fill(shared.cluster.scalar, shared.cluster.document)
        reader = read_json_file if suffix == ".json" else read_properties_file
        return reader(document, cluster=cluster)

    def read_names(self, paths: Iterable[Path]) -> dict[Path, str]:
        """Read the names that the given folders define for themselves."""
        for path in paths:
            if path.is_dir():
                self.read_shared(path.resolve(), path.resolve())
        return self.names

    def read_shared(self, folder: Path, top: Path) -> Shared:
        """Return what the folder and its parents define, up to `top`. Each `_defaults.yaml` is read once."""
        known = self.folders.get((folder, top))
        if known is not None:
            return known
        above = self.read_shared(folder.parent, top) if folder != top and top in folder.parents else Shared()
        path = folder / DEFAULTS_FILE
        shared = above
        if path.is_file():
            if not path.resolve().is_relative_to(top):
                raise build_spec_error(
                    FileLocation(_show(path)),
                    "the link's target is outside of the folder",
                    hint="replace the link with a copy",
                )
            document = self._open(path, _show(path), folder=folder)
            shared, name = read_folder(parse_yaml(document), document, above=above)
            if name is not None:
                self.names[folder] = self.filler.fill(name, document)
        self.folders[folder, top] = shared
        return shared

    def _open(self, path: Path, shown: str, *, folder: Path, latin: bool = False) -> Document:
        problem, place = "", FileLocation(shown)
        data = b""
        try:
            data = self.read(path)
        except OSError as error:
            problem = error.strerror or type(error).__name__
        if len(data) > _MAX_BYTES:
            problem = f"it has more than {_MAX_BYTES} bytes"
        text, encoding = "", "utf-8-sig" if data.startswith(b"\xef\xbb\xbf") else "utf-8"
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError as error:
            # Java's own loader reads properties as Latin-1, in which every byte is valid.
            text, encoding = data.decode("latin-1"), "latin-1"
            if not latin:
                problem = "it is not UTF-8 text"
                place = FileLocation(shown, data.count(b"\n", 0, error.start) + 1)
        if problem:
            raise build_spec_error(place, problem, hint="check the path and your permissions on it")
        return Document(shown, text, folder=str(folder), encoding=encoding)


def _read_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_MAX_BYTES + 1)


def _show(path: Path) -> str:
    """Return a path for display: relative to the current folder if it is below."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _refuse_twice(connectors: Sequence[DesiredConnector], sections: Mapping[str, Sequence[Any]]) -> None:
    seen: dict[tuple[str, str], FileLocation] = {}
    resources = [("connector", connector.owner, connector.place) for connector in connectors]
    for kind in list_sections():
        resources += [(kind.noun, one.name, one.place) for one in sections.get(kind.section, ())]
    for noun, name, place in resources:
        first = seen.setdefault((noun, name), place)
        if first is not place:
            raise SpecError(
                f"{noun} {name} is defined twice",
                cause=f"{first} and {place}",
                hint="remove or rename one of them",
                context={noun: name, "file": place.file, "line": str(place.line)},
            )


SpecFiles = str | Path | Sequence[str | Path]
"""A file or folder, or several of them."""

SpecSource = Spec | SpecFiles
"""The input of a plan: a spec, a file or folder, or several of them."""


def read_spec(what: SpecSource, *, allow_python: bool = False, context: SpecContext = None) -> Spec:
    """Return the spec itself, or load it from files."""
    if isinstance(what, Spec):
        return what
    return load_spec(build_paths(what), environ=os.environ, allow_python=allow_python, context=context)


def read_section(section: str, context: Context, paths: Sequence[Path], allow_python: bool = False) -> Sequence[Any]:
    """Return what files declare in one section, such as `pipelines`."""
    return read_spec(paths, allow_python=allow_python, context=context).find(section)


def build_title(verb: str, what: SpecSource) -> str:
    """Build the title of the plan, which the journal shows."""
    named = f"spec {what.id}" if isinstance(what, Spec) else ", ".join(str(path) for path in build_paths(what))
    return f"{verb} {named}"


def build_paths(what: SpecFiles) -> list[Path]:
    """Return the paths of files and folders. Raises if there are none."""
    given = [what] if isinstance(what, str | Path) else what
    paths = [Path(path).expanduser() for path in given]
    if not paths:
        raise UsageError("no spec file given", hint="pass files or folders with -f")
    return paths
