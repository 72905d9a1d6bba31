"""`python -m tools.structure move`: move every module and definition to the place that the map gives it.

The new texts are built from today's tree in memory and written at the end. So the move can be repeated on a newer tree,
and a dry run finds everything that a real one does. Git finds the renamed files by their contents.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.structure.contract import TESTS
from tools.structure.imports import PythonFile
from tools.structure.names import Names, build_full, build_path
from tools.structure.placement import GONE, Place, Placement
from tools.structure.split import Segment, add_imports, find_left_behind, put_in, take_out
from tools.structure.tree import ROOT, Definition, Module, Tree

# The texts with names of modules and paths, beside `src`.
FOLDERS = ("tests", "bench", "tools", "examples", "docs", ".ci", "src/pyspark_seamark")
FILES = ("README.md", "README.ko.md", "CONTRIBUTING.md", "SECURITY.md", "pyproject.toml", ".pre-commit-config.yaml")
ENDINGS = frozenset({".py", ".md", ".toml", ".sh", ".yaml", ".yml", ".json", ""})
# Recorded output, trees planted by tests, and the map itself.
SKIPPED = (
    "tools/structure",
    "tools/transcripts/recorded",
    "tests/unit/scenarios/recorded",
    "tests/unit/tools/test_structure.py",
    "tests/unit/tools/test_move.py",
    "tests/unit/tools/test_reliability.py",
)
# What was written for this move alone; it is of no use after it.
APPLIED = ("contracts.toml", "docstrings.toml", "edits.toml")
MUTANTS = "tools/mutants/mutants.toml"
CONTRACTS = "[tool.importlinter]"
_OUTSIDE = Module("", is_package=False, body=(), lines=0)


class MoveError(Exception):
    """What keeps the move from being done."""


@dataclass(slots=True)
class Moved:
    """The files after the move by their paths in the repository, and the files that are gone."""

    texts: dict[str, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)
    split: set[str] = field(default_factory=set)
    """The files that definitions left or came to; some of their imports may be unused."""


@dataclass(frozen=True)
class Move:
    """The move of one repository."""

    root: Path
    names: Names
    folder: Path
    """Has the map, `docstrings.toml`, `contracts.toml` and `edits.toml`."""

    @property
    def tree(self) -> Tree:
        return self.names.tree

    @property
    def placement(self) -> Placement:
        return self.names.placement

    def build(self) -> Moved:
        """Build every file that changes.

        Raises:
            MoveError: a package has no docstring, or an edit by hand doesn't apply.
        """
        moved = Moved()
        self._build_sources(moved)
        self._build_packages(moved)
        for path in self._list_texts():
            self._build_text(path, moved)
        self._build_data(moved)
        self._build_contracts(moved)
        self._apply_edits(moved)
        return moved

    def _build_sources(self, moved: Moved) -> None:
        texts: dict[str, str] = {}
        arrived: dict[str, list[Segment]] = defaultdict(list)
        for module in self.tree.modules.values():
            old = self._find_old_path(module)
            text, segments = take_out(module, (self.root / old).read_text(encoding="utf-8"), self.names)
            for segment in segments:
                arrived[self.names.find_definition(Definition(module.name, segment.names[0]))].append(segment)
            target = self.names.find_module(module.name)
            if target is None:
                moved.gone.add(old)
                continue
            rewritten = PythonFile(text, target, module).rewrite(self.names)
            if segments:
                needs = find_left_behind(module, text, self.names, importing=target)
                rewritten = add_imports(rewritten, needs, self.names, target=target)
                moved.split.add(self._find_path(target))
            texts[target] = rewritten
            moved.gone.add(old)
            moved.renamed[old] = self._find_path(target)
        docstrings = self._read_docstrings()
        for target, segments in arrived.items():
            if target not in texts:
                texts[target] = f'"""{_find(docstrings, target)}"""\n\nfrom __future__ import annotations\n'
            texts[target] = put_in(texts[target], target, segments, self.names)
            moved.split.add(self._find_path(target))
        moved.texts.update({self._find_path(target): text for target, text in texts.items()})
        moved.gone -= moved.texts.keys()

    def _build_packages(self, moved: Moved) -> None:
        docstrings = self._read_docstrings()
        for package in sorted(self.names.packages):
            path = self._find_path(build_full(package))
            if path.startswith(f"{TESTS}/") and path not in moved.texts:
                continue
            if path not in moved.texts:
                moved.texts[path] = f'"""{_find(docstrings, build_full(package))}"""\n'
            elif build_full(package) in docstrings:
                moved.texts[path] = _replace_docstring(moved.texts[path], docstrings[build_full(package)])

    def _read_docstrings(self) -> Mapping[str, str]:
        path = self.folder / "docstrings.toml"
        found: Mapping[str, str] = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return found

    def _list_texts(self) -> Iterator[str]:
        for folder in FOLDERS:
            for path in sorted((self.root / folder).rglob("*")):
                name = path.relative_to(self.root).as_posix()
                is_skipped = any(name == one or name.startswith(f"{one}/") for one in SKIPPED)
                if path.is_file() and path.suffix in ENDINGS and not is_skipped and "__pycache__" not in name:
                    yield name
        yield from (name for name in FILES if (self.root / name).exists())

    def _build_text(self, path: str, moved: Moved) -> None:
        old = (self.root / path).read_text(encoding="utf-8")
        if path.endswith(".py"):
            new = PythonFile(old, f"{TESTS}.any", _OUTSIDE).rewrite(self.names)
        elif path == MUTANTS:
            new = self._rewrite_mutants(old)
        else:
            new = self.names.rewrite_text(old)
        if new != old:
            moved.texts[path] = new

    def _rewrite_mutants(self, text: str) -> str:
        """Name the new module of each mutant; one in a definition that left its module is where that is."""
        parts = text.split("[[mutant]]")
        for number, part in enumerate(parts):
            mutant = tomllib.loads(part) if number else {}
            home = self._find_mutated(mutant.get("module", ""), mutant.get("old", ""))
            if home is not None:
                parts[number] = part.replace(mutant["module"], self._find_path(home), 1)
            parts[number] = self.names.rewrite_text(parts[number]) if home is None else parts[number]
        return "[[mutant]]".join(parts)

    def _find_mutated(self, path: str, anchor: str) -> str | None:
        """Return the new module of an anchor in a definition that leaves; None for all others."""
        for module in self.tree.modules.values():
            if self._find_old_path(module) == path:
                _, segments = take_out(module, (self.root / path).read_text(encoding="utf-8"), self.names)
                for segment in segments:
                    if anchor in segment.text:
                        return self.names.find_definition(Definition(module.name, segment.names[0]))
        return None

    def _build_data(self, moved: Moved) -> None:
        """Move the files of packages that are no modules."""
        sources = self.root / "src" / ROOT
        for path in sorted(sources.rglob("*")):
            parts = path.relative_to(sources).parent.parts
            if not path.is_file() or path.suffix in {".py", ".pyc"} or not parts:
                continue
            length = next(n for n in range(len(parts), -1, -1) if ".".join(parts[:n]) in {*self.tree.modules, ""})
            new = self.names.find_module(".".join(parts[:length])) if length else ROOT
            if new is None:
                raise MoveError(f"{path.relative_to(self.root)}: its package is dissolved")
            folder = Path(self._find_path(new)).parent
            target = folder.joinpath(*parts[length:], path.name).as_posix()
            if target != path.relative_to(self.root).as_posix():
                moved.renamed[path.relative_to(self.root).as_posix()] = target
                moved.texts[target] = path.read_text(encoding="utf-8")
                moved.gone.add(path.relative_to(self.root).as_posix())

    def _build_contracts(self, moved: Moved) -> None:
        path = self.folder / "contracts.toml"
        if path.exists():
            text = moved.texts.get("pyproject.toml") or (self.root / "pyproject.toml").read_text(encoding="utf-8")
            head = text.partition(CONTRACTS)[0]
            moved.texts["pyproject.toml"] = head + path.read_text(encoding="utf-8")

    def _apply_edits(self, moved: Moved) -> None:
        """Apply what no rule can do: `edits.toml` has a path after the move, a text that it has once, and a new one."""
        path = self.folder / "edits.toml"
        edits = tomllib.loads(path.read_text(encoding="utf-8")).get("edit", []) if path.exists() else []
        for edit in edits:
            text = moved.texts.get(edit["path"]) or (self.root / edit["path"]).read_text(encoding="utf-8")
            if text.count(edit["old"]) != 1:
                raise MoveError(f"edits.toml: {edit['path']} has {text.count(edit['old'])} times {edit['old']!r}")
            moved.texts[edit["path"]] = text.replace(edit["old"], edit["new"].removeprefix("\n"))

    def _find_old_path(self, module: Module) -> str:
        place = build_path(module.name, is_package=module.is_package)
        return f"src/{ROOT}/{place}"

    def _find_path(self, full: str) -> str:
        place = full.removeprefix(f"{ROOT}.")
        path = build_path(place, is_package=place in self.names.packages)
        return path if place.partition(".")[0] == TESTS else f"src/{ROOT}/{path}"

    def write(self, moved: Moved) -> None:
        """Write the files, the map of the new tree, and format what was written."""
        for path in moved.gone:
            (self.root / path).unlink()
        for path, text in moved.texts.items():
            target = self.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        _remove_empty(self.root / "src" / ROOT)
        for name in APPLIED:
            (self.folder / name).unlink(missing_ok=True)
        write_placement(self.folder, build_placement(self.placement, self.tree))
        format_files(self.root, moved)


def _find(docstrings: Mapping[str, str], module: str) -> str:
    if module not in docstrings:
        raise MoveError(f"{module} is new and has no docstring in docstrings.toml")
    return docstrings[module]


def _replace_docstring(text: str, docstring: str) -> str:
    head, quotes, rest = text.partition('"""')
    if head.strip() or not quotes:
        return f'"""{docstring}"""\n{text}'
    return f'"""{docstring}"""{rest.partition(quotes)[2]}'


def _remove_empty(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and all(one.name == "__pycache__" for one in path.iterdir()):
            for compiled in path.rglob("*.pyc"):
                compiled.unlink()
            for cache in path.iterdir():
                cache.rmdir()
            path.rmdir()


def build_placement(placement: Placement, tree: Tree) -> Placement:
    """Return the map of the tree after the move: everything is where it goes, and the merge is still to be done."""
    modules: dict[str, Place] = {}
    for name in tree.modules:
        place = placement.modules[name]
        if place.moved_to != GONE and place.moved_to.partition(".")[0] != TESTS:
            modules[place.moved_to] = Place(place.moved_to, place.merged_into)
    splits: dict[Definition, Place] = {}
    for definition, place in placement.splits.items():
        own = modules.setdefault(place.moved_to, place)
        if own.merged_into != place.merged_into:
            splits[Definition(place.moved_to, definition.name)] = place
    parents = {name.rpartition(".")[0] for name in modules} - {"", *modules}
    while parents:
        modules |= {name: Place(name, name) for name in parents}
        parents = {name.rpartition(".")[0] for name in parents} - {"", *modules}
    return Placement(modules, splits)


def write_placement(folder: Path, placement: Placement) -> None:
    """Write `map.csv` and `split.csv`."""
    _write_rows(
        folder / "map.csv",
        ("module", "moved_to", "merged_into"),
        ((name, place.moved_to, place.merged_into) for name, place in sorted(placement.modules.items())),
    )
    _write_rows(
        folder / "split.csv",
        ("module", "name", "moved_to", "merged_into"),
        ((*definition, place.moved_to, place.merged_into) for definition, place in sorted(placement.splits.items())),
    )


def _write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def format_files(root: Path, moved: Moved) -> None:
    """Sort the imports of the changed files, delete those that a definition took with it, and format."""
    changed = sorted(path for path in moved.texts if path.endswith(".py"))
    split = sorted(moved.split & {*changed})
    for command in (
        ["check", "--quiet", "--select", "F401,TC005", "--fix", *split] if split else [],
        ["check", "--quiet", "--select", "I", "--fix", *changed],
        ["format", "--quiet", *changed],
    ):
        if command:
            ruff = Path(sys.executable).with_name("ruff")
            subprocess.run([str(ruff), *command], cwd=root, check=False)
