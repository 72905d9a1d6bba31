"""Where each module and definition goes: `map.csv` for modules, `split.csv` for definitions that leave their module."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.structure.tree import Definition, Tree

FOLDER = Path(__file__).parent
GONE = "-"
"""The place of a module that has nothing to move: the docstring of a package that is dissolved."""
# Each module may have its own; a merge keeps or rewrites them by hand.
_OWN = frozenset({"__all__", "__getattr__", "_HOMES", "_LAZY"})


@dataclass(frozen=True, slots=True)
class Place:
    """One row: the module after the move, and after the merge that follows it."""

    moved_to: str
    merged_into: str


@dataclass(frozen=True, slots=True)
class Placement:
    """The places of modules, and of the definitions that leave their module."""

    modules: Mapping[str, Place]
    splits: Mapping[Definition, Place]
    repeated: Sequence[str] = ()
    """Rows for what has a row already."""

    def find(self, definition: Definition) -> Place:
        """Return where a definition goes.

        Raises:
            KeyError: its module has no row.
        """
        split = self.splits.get(definition)
        return self.modules[definition.module] if split is None else split

    def find_package(self, definition: Definition) -> str:
        """Return the package that a definition moves to."""
        return self.find(definition).moved_to.partition(".")[0]


def read_placement(folder: Path = FOLDER) -> Placement:
    """Read both files."""
    modules: dict[str, Place] = {}
    splits: dict[Definition, Place] = {}
    repeated = []
    for row in _read_rows(folder / "map.csv"):
        if row["module"] in modules:
            repeated.append(row["module"])
        modules[row["module"]] = Place(row["moved_to"], row["merged_into"])
    for row in _read_rows(folder / "split.csv"):
        definition = Definition(row["module"], row["name"])
        if definition in splits:
            repeated.append(str(definition))
        splits[definition] = Place(row["moved_to"], row["merged_into"])
    return Placement(modules, splits, repeated)


def _read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def find_problems(tree: Tree, placement: Placement, *, packages: Collection[str]) -> list[str]:
    """Return what keeps the map from covering the tree exactly once, one sentence each."""
    found = [f"{name}: has more than one row" for name in placement.repeated]
    found += [f"{name}: no row in map.csv" for name in sorted(tree.modules.keys() - placement.modules.keys())]
    found += [
        f"{name}: a row in map.csv, but no such module"
        for name in sorted(placement.modules.keys() - tree.modules.keys())
    ]
    for definition in sorted(placement.splits):
        module = tree.modules.get(definition.module)
        if module is None or definition.name not in module.definitions:
            found.append(f"{definition}: a row in split.csv, but no such definition")
    return found or [
        *_find_homeless(tree, placement),
        *_find_clashes(tree, placement),
        *_find_wrong_modules(tree, placement),
        *_find_unknown_packages(placement, packages),
    ]


def _find_homeless(tree: Tree, placement: Placement) -> Iterator[str]:
    """Yield the definitions of dissolved modules that have no place of their own."""
    for module in tree.modules.values():
        for name in module.definitions:
            definition = Definition(module.name, name)
            if name not in _OWN and placement.find(definition).moved_to == GONE:
                yield f"{definition}: its module is dissolved, and it has no row in split.csv"


def _find_clashes(tree: Tree, placement: Placement) -> Iterator[str]:
    """Yield names that two definitions would have in one module after the move."""
    targets: dict[tuple[str, str], list[Definition]] = defaultdict(list)
    for module in tree.modules.values():
        for name in module.definitions:
            definition = Definition(module.name, name)
            targets[placement.find(definition).moved_to, name].append(definition)
    for (moved_to, name), definitions in sorted(targets.items()):
        if len(definitions) > 1 and name not in _OWN:
            yield f"{moved_to}: two definitions {name}: {', '.join(map(str, definitions))}"


def _find_wrong_modules(tree: Tree, placement: Placement) -> Iterator[str]:
    """Yield modules that two modules move to, and plain modules that others would be below."""
    sources: dict[str, list[str]] = defaultdict(list)
    for name, place in placement.modules.items():
        if place.moved_to != GONE:
            sources[place.moved_to].append(name)
    targets = {*sources, *(place.moved_to for place in placement.splits.values())}
    parents = {target.rpartition(".")[0] for target in targets}
    for target, names in sorted(sources.items()):
        if len(names) > 1:
            yield f"{target}: two modules move there: {', '.join(names)}"
        if target in parents and not all(tree.modules[name].is_package for name in names):
            yield f"{target}: a package, and {', '.join(names)} is none"


def _find_unknown_packages(placement: Placement, packages: Collection[str]) -> Iterator[str]:
    splits = {str(definition): place for definition, place in placement.splits.items()}
    for name, place in {**placement.modules, **splits}.items():
        for target in (place.moved_to, place.merged_into):
            if target != GONE and target.partition(".")[0] not in packages:
                yield f"{name}: {target!r} is in no package of the contract"
