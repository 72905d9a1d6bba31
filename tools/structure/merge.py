"""`python -m tools.structure merge`: join the modules that the map puts into one, and rewrite what names them.

The new texts are built from today's tree in memory and written at the end, so that a dry run finds all that a real one
does. Nothing is written if a name would stand for two things, or if modules would import each other while they load.
"""

from __future__ import annotations

import csv
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from tools.structure.contract import TESTS
from tools.structure.figures import find_cycles
from tools.structure.fragments import find_targets, join
from tools.structure.imports import PythonFile, join_comments
from tools.structure.loading import Loading
from tools.structure.names import Names, build_path
from tools.structure.placement import Place, Placement
from tools.structure.tree import ROOT, Module, Tree, parse_module

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
    "tests/unit/tools/test_merge.py",
    "tests/unit/tools/test_reliability.py",
)
MUTANTS = "tools/mutants/mutants.toml"
_OUTSIDE = Module("", is_package=False, body=(), lines=0)
# `key = ["a", "b"]` of pyproject.toml.
_LIST = re.compile(r"^(\w+ = \[)(\"[^\n\]]*)\]$", re.MULTILINE)
_TWICE = re.compile(r"(`[^`\n]+`)((?:,| and| or) \1)+(?!\w)")
_FILE = re.compile(r"(?<![\w./-])(\w+)\.py\b")
_ANCHOR = re.compile(r"^(old|new) = ('''.*?'''|'[^'\n]*'|\"[^\n]*\")$", re.MULTILINE | re.DOTALL)


class MergeError(Exception):
    """What keeps the merge from being done, one line each."""


@dataclass(slots=True)
class Merged:
    """The files after the merge by their paths in the repository, and the files that are gone."""

    texts: dict[str, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    joined: set[str] = field(default_factory=set)
    """The files that several modules became; some of their imports may be unused."""


def select(placement: Placement, *, only: str | None, without: Collection[str]) -> Placement:
    """Return the places after the merge of the chosen targets: `moved_to` is the module that each one is in then."""
    modules = {}
    for name, place in placement.modules.items():
        target = place.merged_into
        is_chosen = only is None or target == only or target.startswith(f"{only}.")
        modules[name] = Place(target if is_chosen and target not in without else name, target)
    return replace(placement, modules=modules)


@dataclass(frozen=True)
class Merge:
    """The merge of one repository."""

    root: Path
    names: Names
    folder: Path
    """Has the map."""

    @cached_property
    def targets(self) -> Mapping[str, list[str]]:
        """The modules that become each module."""
        return find_targets(self.names)

    def build(self) -> Merged:
        """Build every file that changes.

        Raises:
            MergeError: names clash, or modules would import each other while they are loaded.
        """
        if self.names.placement.splits:
            raise MergeError("split.csv: only whole modules are joined, and it has rows")
        merged = Merged()
        self._build_sources(merged)
        self._check_loading(merged)
        for path in self._list_texts():
            self._build_text(path, merged)
        self._build_mutants(merged)
        return merged

    def _build_sources(self, merged: Merged) -> None:
        problems: list[str] = []
        for target, names in self.targets.items():
            modules = [self.names.tree.modules[name] for name in names]
            texts = [(module, self._read(self._find_old_path(module))) for module in modules]
            path = self._find_path(target)
            if len(names) == 1:
                text = PythonFile(texts[0][1], target, modules[0]).rewrite(self.names)
            else:
                joined = join(target, texts, self.names)
                problems += joined.problems
                for note in joined.notes:
                    self.names.notes.add(note)
                text = joined.text
                merged.joined.add(path)
            old = {self._find_old_path(module) for module in modules}
            merged.gone |= old - {path}
            if len(names) > 1 or old != {path} or text != texts[0][1]:
                merged.texts[path] = text
            self._note_files(target, modules, text)
        if problems:
            raise MergeError("\n".join(problems))

    def _note_files(self, target: str, modules: Iterable[Module], text: str) -> None:
        """Note the names of files in a package's docstring that are gone; it lists them without their folder."""
        for module in modules:
            if module.is_package:
                for stem in _FILE.findall(text):
                    old = f"{module.name}.{stem}"
                    if old in self.names.tree.modules and self.names.find_module(old) != f"{ROOT}.{old}":
                        self.names.notes.add(f"{target}: names {stem}.py, which is {self.names.find_module(old)} now")

    def _check_loading(self, merged: Merged) -> None:
        before, after = Loading(self.names.tree), Loading(self._read_new(merged))
        known = set(find_cycles(before.edges))
        cycles = [cycle for cycle in find_cycles(after.edges) if cycle not in known]
        if cycles:
            raise MergeError("\n".join(f"would import each other: {' '.join(cycle)}" for cycle in cycles))
        for target, names in sorted(self.targets.items()):
            if len(names) == 1:
                continue
            found = after.find_outside(target.removeprefix(f"{ROOT}."))
            lighter = {name: found - before.find_outside(name) for name in names}
            missing: dict[frozenset[str], list[str]] = defaultdict(list)
            for name, packages in lighter.items():
                if packages:
                    missing[packages].append(name)
            for packages, fragments in missing.items():
                loaded = ", ".join(sorted(packages))
                self.names.notes.add(f"{target}: loads {loaded}, which {', '.join(fragments)} did not")

    def _read_new(self, merged: Merged) -> Tree:
        """Return the tree after the merge."""
        modules = {}
        for target in self.targets:
            path = self._find_path(target)
            text = merged.texts.get(path) or self._read(path)
            name = target.removeprefix(f"{ROOT}.")
            modules[name] = parse_module(text, name, is_package=path.endswith("/__init__.py"))
        return Tree(modules)

    def _list_texts(self) -> Iterator[str]:
        for folder in FOLDERS:
            for path in sorted((self.root / folder).rglob("*")):
                name = path.relative_to(self.root).as_posix()
                is_skipped = any(name == one or name.startswith(f"{one}/") for one in SKIPPED)
                if path.is_file() and path.suffix in ENDINGS and not is_skipped and "__pycache__" not in name:
                    yield name
        yield from (name for name in FILES if (self.root / name).exists())

    def _build_text(self, path: str, merged: Merged) -> None:
        old = self._read(path)
        if path.endswith(".py"):
            new = PythonFile(old, f"{TESTS}.any", _OUTSIDE).rewrite(self.names)
        else:
            new = self.names.rewrite_text(old)
        if new != old:
            if path.endswith(".toml") and path != MUTANTS:
                new = _LIST.sub(_drop_repeated, new)
            elif path.endswith(".md"):
                new = _TWICE.sub(r"\1", new)
            merged.texts[path] = new

    def _build_mutants(self, merged: Merged) -> None:
        """Make each anchor that occurs in another fragment, too, longer by the lines above it."""
        if MUTANTS not in merged.texts:
            return
        old_parts, parts = self._read(MUTANTS).split("[[mutant]]"), merged.texts[MUTANTS].split("[[mutant]]")
        for number in range(1, len(parts)):
            before, mutant = tomllib.loads(old_parts[number]), tomllib.loads(parts[number])
            text = merged.texts.get(mutant["module"])
            if text is None or text.count(mutant["old"]) == 1:
                continue
            longer = _lengthen(mutant["old"], self._read(before["module"]), text)
            if longer is None:
                self.names.notes.add(f"{mutant['name']}: its anchor occurs {text.count(mutant['old'])} times")
                continue
            parts[number] = _write_anchor(parts[number], longer + mutant["old"], longer + mutant["new"])
        merged.texts[MUTANTS] = "[[mutant]]".join(parts)

    def _read(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8")

    def _find_old_path(self, module: Module) -> str:
        return f"src/{ROOT}/{build_path(module.name, is_package=module.is_package)}"

    def _find_path(self, full: str) -> str:
        place = full.removeprefix(f"{ROOT}.")
        return f"src/{ROOT}/{build_path(place, is_package=place in self.names.packages)}"

    def write(self, merged: Merged) -> None:
        """Write the files and the map of the new tree, and format what was written."""
        for path in merged.gone:
            (self.root / path).unlink()
        for path, text in merged.texts.items():
            (self.root / path).write_text(text, encoding="utf-8")
        places = self.names.placement.modules
        found = {place.moved_to: Place(place.moved_to, place.merged_into) for place in places.values()}
        _write_map(self.folder / "map.csv", found)
        _format(self.root, merged)


def _write_anchor(part: str, old: str, new: str) -> str:
    values = {"old": old, "new": new}
    return _ANCHOR.sub(lambda match: f"{match[1]} = '''\n{values[match[1]]}'''", part)


def _drop_repeated(match: re.Match[str]) -> str:
    """Keep each name of a list once."""
    return f"{match[1]}{', '.join(dict.fromkeys(match[2].split(', ')))}]"


def _lengthen(anchor: str, old: str, new: str) -> str | None:
    """Return the lines above an anchor that make it occur once in a new text; None if none do."""
    if old.count(anchor) != 1:
        return None
    head = old[: old.index(anchor)]
    start = head.rfind("\n") + 1
    for _ in range(6):
        if new.count(head[start:] + anchor) == 1:
            return head[start:]
        if not start:
            return None
        start = head.rfind("\n", 0, start - 1) + 1
    return None


def _write_map(path: Path, places: Mapping[str, Place]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("module", "moved_to", "merged_into"))
        writer.writerows((name, place.moved_to, place.merged_into) for name, place in sorted(places.items()))


def _format(root: Path, merged: Merged) -> None:
    """Sort the imports of the changed files, delete what the joined ones no longer need, and format."""
    changed = sorted(path for path in merged.texts if path.endswith(".py"))
    _run_ruff(root, "check", "--select", "I", "--fix", *changed)
    for path in changed:
        text = (root / path).read_text(encoding="utf-8")
        (root / path).write_text(join_comments(text), encoding="utf-8")
    # The comments that silence the linter are judged by all rules of the repository.
    fixed = ["check", "--exit-zero", "--fix", "--extend-select", "I,F401,TC005", "--fixable"]
    _run_ruff(root, *fixed, "I,F401,TC005,D202,RUF100", *sorted(merged.joined))
    _run_ruff(root, *fixed, "I,RUF100", *changed)
    _run_ruff(root, "format", *changed)


def _run_ruff(root: Path, *arguments: str) -> None:
    ruff = Path(sys.executable).with_name("ruff")
    subprocess.run([str(ruff), *arguments, "--quiet"], cwd=root, check=False)
