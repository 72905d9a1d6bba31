"""The figures of the tree as it would be after the move and after the merge, for the goals of the structure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tools.structure.placement import GONE, Placement
from tools.structure.tree import Definition, Tree, Use

LONGEST = 600
SHORTEST = 60
MOST_SIBLINGS = 30
_OUTSIDE = {"tests", GONE}


@dataclass(frozen=True, slots=True)
class Figures:
    """Sizes and import figures of one arrangement. Lines are estimates: a merge also joins imports and docstrings."""

    modules: int
    core_lines: int
    long: Mapping[str, int]
    short: tuple[str, ...]
    single: tuple[str, ...]
    """Modules with one importing module."""
    crowded: Mapping[str, int]
    """Packages with too many modules of their own."""
    clashes: tuple[str, ...]
    """Names that two definitions would share."""
    cycles: tuple[tuple[str, ...], ...]
    """Modules that need each other while they are loaded."""


def read_figures(tree: Tree, uses: Iterable[Use], placement: Placement, *, merged: bool) -> Figures:
    """Return the figures after the merge, or after the move alone."""

    def find(definition: Definition) -> str:
        place = placement.find(definition)
        return place.merged_into if merged else place.moved_to

    lines, names = _read_sizes(tree, placement, merged=merged)
    importers: dict[str, set[str]] = defaultdict(set)
    edges: dict[str, set[str]] = defaultdict(set)
    loaded = {name: tree.find_loaded(name) for name in tree.modules}
    for use in uses:
        user, used = find(use.user), find(use.used)
        if user != used and not {user.partition(".")[0], used.partition(".")[0]} & _OUTSIDE:
            importers[used].add(user)
            if use.user.module == use.used.module or use.used in loaded[use.user.module]:
                edges[user].add(used)
    packages = {target.rpartition(".")[0] for target in lines}
    plain = {target: size for target, size in lines.items() if target not in packages}
    siblings: dict[str, int] = defaultdict(int)
    for target in plain:
        siblings[target.rpartition(".")[0]] += 1
    missing = {package for package in packages if package} - lines.keys()
    return Figures(
        modules=len(lines) + len(missing),
        core_lines=sum(size for target, size in lines.items() if target.partition(".")[0] == "core"),
        long={target: size for target, size in sorted(plain.items()) if size > LONGEST},
        short=tuple(sorted(target for target, size in plain.items() if size < SHORTEST)),
        single=tuple(sorted(target for target in plain if len(importers[target]) == 1)),
        crowded={package: count for package, count in sorted(siblings.items()) if package and count > MOST_SIBLINGS},
        clashes=tuple(sorted(f"{target}:{name}" for (target, name), count in names.items() if count > 1)),
        cycles=tuple(find_cycles(edges)),
    )


def _read_sizes(
    tree: Tree, placement: Placement, *, merged: bool
) -> tuple[Mapping[str, int], Mapping[tuple[str, str], int]]:
    lines: dict[str, int] = defaultdict(int)
    names: dict[tuple[str, str], int] = defaultdict(int)
    for module in tree.modules.values():
        rest = module.lines
        own = placement.modules[module.name]
        own_target = own.merged_into if merged else own.moved_to
        for name, size in module.definitions.items():
            split = placement.splits.get(Definition(module.name, name))
            target = own_target if split is None else split.merged_into if merged else split.moved_to
            if split is not None:
                lines[target] += size + 2
                rest -= size + 2
            if not name.startswith("__"):
                names[target, name] += 1
        lines[own_target] += max(rest, 0)
    outside = [target for target in lines if target.partition(".")[0] in _OUTSIDE]
    for target in outside:
        del lines[target]
    return lines, names


def find_cycles(edges: Mapping[str, set[str]]) -> Iterable[tuple[str, ...]]:
    """Yield the strongly connected components of more than one module (Tarjan, without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    held: list[str] = []
    for root in sorted(edges):
        if root in index:
            continue
        work = [(root, iter(sorted(edges.get(root, ()))))]
        index[root] = low[root] = len(index)
        held.append(root)
        while work:
            node, following = work[-1]
            for target in following:
                if target not in index:
                    index[target] = low[target] = len(index)
                    held.append(target)
                    work.append((target, iter(sorted(edges.get(target, ())))))
                    break
                if target in held:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    part = held[held.index(node) :]
                    del held[held.index(node) :]
                    if len(part) > 1:
                        yield tuple(sorted(part))
