"""Old names and paths of the source tree, and what each becomes by the merge."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from tools.structure.contract import TESTS, find_direction
from tools.structure.placement import GONE, Placement
from tools.structure.tree import ROOT, Definition, Tree

# Names of Spark's data sources and of loggers. They have the form of a module's name and aren't modules.
OTHER_NAMES = frozenset({f"{ROOT}.lake"})
_NAME = r"[A-Za-z_]\w*"
_DOTTED = re.compile(rf"(?<![\w./-]){ROOT}((?:\.{_NAME})+)(:{_NAME})?")
_ALIAS = rf"{_NAME}(?: as {_NAME})?"
_FROM = re.compile(rf"\bfrom {ROOT}((?:\.{_NAME})+) import ({_ALIAS}(?:, ?{_ALIAS})*)")
_PATH = re.compile(rf"(?<![\w.~-])(src/{ROOT}|(?<!/){ROOT})((?:/\w+)*(?:/\{{[\w,]+\}})?(?:\.py)?)(/?)(?![\w{{])")
_BARE = re.compile(r"(?<![\w./~-])([a-z_]+(?:/\w+)+\.py)(?!\w)")
_FOLDER = re.compile(r"`([a-z_]+(?:/\w+)*)/`")


class Imported(NamedTuple):
    """What one name of an import statement stands for after the merge."""

    source: str
    name: str


@dataclass(slots=True)
class Notes:
    """What a person has to look at after the merge."""

    lines: list[str] = field(default_factory=list)

    def add(self, line: str) -> None:
        """Keep a line, once."""
        if line not in self.lines:
            self.lines.append(line)


@dataclass(frozen=True)
class Names:
    """Translates names of modules, definitions and files."""

    tree: Tree
    placement: Placement
    notes: Notes = field(default_factory=Notes)

    @cached_property
    def packages(self) -> frozenset[str]:
        """The packages after the merge, without the name of the root package."""
        targets = {place.moved_to for place in self.placement.modules.values()}
        targets |= {place.moved_to for place in self.placement.splits.values()}
        parents: set[str] = set()
        for target in targets - {GONE, ROOT}:
            parts = target.split(".")
            parents.update(".".join(parts[:length]) for length in range(1, len(parts)))
        return frozenset(parents)

    @cached_property
    def modules(self) -> frozenset[str]:
        """The whole names of the modules after the merge, also of packages."""
        places = (*self.placement.modules.values(), *self.placement.splits.values())
        return frozenset(build_full(one) for one in {place.moved_to for place in places} - {GONE} | self.packages)

    def find_module(self, old: str) -> str | None:
        """Return the whole new name of a module; None if it is dissolved."""
        place = self.placement.modules[old].moved_to
        return None if place == GONE else build_full(place)

    def find_definition(self, definition: Definition) -> str:
        """Return the whole new name of the module that has a definition after the merge."""
        return build_full(self.placement.find(definition).moved_to)

    def find_imported(self, source: str, name: str, *, importing: str) -> Imported | None:
        """Return what `from source import name` becomes in a module; None if it isn't of the tree.

        A re-export is imported from the module that re-exports it, unless that is dissolved or the importing package
        may not import it: then the definition itself is imported.
        """
        module = self.tree.modules.get(source)
        if module is None:
            return None
        if name in module.definitions:
            return Imported(self.find_definition(Definition(source, name)), name)
        # A package that imports its own module binds no other thing by that name.
        is_other = module.imported.get(name, Definition(source, name)) != Definition(source, name)
        inner = name if source == ROOT else f"{source}.{name}"
        if not is_other and inner in self.tree.modules:
            return self._find_submodule(inner)
        kept = self.find_module(source)
        if kept is not None and not (is_other and _breaks(importing, kept)):
            return Imported(kept, name)
        return self._find_original(Definition(source, name))

    def _find_original(self, exported: Definition) -> Imported | None:
        found = self.tree.find(exported)
        if found is None or found == Definition(exported.module):
            self.notes.add(f"{exported.module}: dissolved, and {exported.name} is imported from it")
            return None
        return Imported(self.find_definition(found), found.name) if found.name else self._find_submodule(found.module)

    def _find_submodule(self, old: str) -> Imported | None:
        new = self.find_module(old)
        if new is None:
            self.notes.add(f"{old}: dissolved, and imported as a module")
            return None
        parent, _, name = new.rpartition(".")
        return Imported(parent, name)

    def find_dotted(self, dotted: str) -> str:
        """Return what `a.b.NAME.attribute` below the root becomes."""
        parts = dotted.split(".")
        length = next((n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in self.tree.modules), 0)
        if not length:
            return f"{ROOT}.{dotted}"
        old, rest = ".".join(parts[:length]), parts[length:]
        module = self.tree.modules[old]
        if rest and rest[0] in module.definitions:
            return ".".join([self.find_definition(Definition(old, rest[0])), *rest])
        return ".".join([self._find_module_or_package(old), *rest])

    def _find_module_or_package(self, old: str) -> str:
        return self.find_module(old) or build_full(self._find_most(old))

    def _find_most(self, old: str) -> str:
        """Return the package that most modules of a dissolved one go to."""
        counted: Counter[str] = Counter()
        for name, place in self.placement.modules.items():
            if name.startswith(f"{old}.") and place.moved_to != GONE:
                counted[place.moved_to.partition(".")[0]] += 1
        package = counted.most_common(1)[0][0]
        if len(counted) > 1:
            self.notes.add(f"{old}: dissolved into {', '.join(sorted(counted))}; its name in texts became {package}")
        return package

    def rewrite_text(self, text: str, *, importing: str = TESTS) -> str:
        """Translate names of modules and their paths in prose, in strings and in data."""

        def rewrite_from(match: re.Match[str]) -> str:
            return self._rewrite_from(match, importing)

        text = _FROM.sub(rewrite_from, text)
        text = _sub_outside(_FROM, _DOTTED, self._rewrite_dotted, text)
        text = _PATH.sub(self._rewrite_path, text)
        text = _BARE.sub(self._rewrite_bare, text)
        return _FOLDER.sub(self._rewrite_folder, text)

    def _rewrite_from(self, match: re.Match[str], importing: str) -> str:
        source = match[1].removeprefix(".")
        if source not in self.tree.modules:
            return match[0]
        sources, aliases = set(), []
        for alias in re.split(r", ?", match[2]):
            name, _, renamed = alias.partition(" as ")
            found = self.find_imported(source, name, importing=importing)
            if found is None:
                return match[0]
            sources.add(found.source)
            aliases.append(build_alias(found.name, renamed or name))
        if len(sources) > 1:
            self.notes.add(f"{match[0]!r}: the names go to {', '.join(sorted(sources))}")
            return match[0]
        return f"from {sources.pop()} import {', '.join(aliases)}"

    def _rewrite_dotted(self, match: re.Match[str]) -> str:
        dotted, name = match[1].removeprefix("."), match[2] or ""
        if match[0] in OTHER_NAMES:
            return match[0]
        if name and dotted in self.tree.modules and name[1:] in self.tree.modules[dotted].definitions:
            return self.find_definition(Definition(dotted, name[1:])) + name
        return self.find_dotted(dotted) + name

    def _rewrite_path(self, match: re.Match[str]) -> str:
        root, path, slash = match.groups()
        path = path.removeprefix("/")
        if not path:
            return match[0]
        found = [self._find_path(one) for one in _expand(path)]
        if any(one is None for one in found):
            return match[0]
        full = [one if one.startswith("tests/") else f"{root}/{one}" for one in found if one is not None]
        parents = {one.rpartition("/")[0] for one in full}
        if len(full) == 1:
            return full[0] + slash
        if len(parents) == 1 and path.endswith(".py"):
            stems = ",".join(one.rpartition("/")[2].removesuffix(".py") for one in full)
            return f"{parents.pop()}/{{{stems}}}.py"
        return "`, `".join(full)

    def _rewrite_bare(self, match: re.Match[str]) -> str:
        # With the root's folder it is a match of the other pattern.
        return match[0] if match[1].startswith(f"{ROOT}/") else self._find_path(match[1]) or match[0]

    def _rewrite_folder(self, match: re.Match[str]) -> str:
        found = self._find_path(match[1])
        return match[0] if found is None else f"`{found}/`"

    def _find_path(self, path: str) -> str | None:
        """Return the new path of a module or package below the root's folder; None if there is no such module."""
        is_file = path.endswith(".py")
        is_package = path.endswith("/__init__.py")
        name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        module = self.tree.modules.get(name)
        if module is None or (is_file and module.is_package != is_package):
            return None
        new = self._find_module_or_package(name)
        if not is_file:
            return _cut_root(new).replace(".", "/")
        if self.find_module(name) is None:
            return None
        return build_path(_cut_root(new), is_package=_cut_root(new) in self.packages)


def build_full(place: str) -> str:
    """Return the whole name of a module of the map, which leaves out the root package."""
    return place if place == ROOT or place.partition(".")[0] == TESTS else f"{ROOT}.{place}"


def _cut_root(name: str) -> str:
    return name.removeprefix(f"{ROOT}.")


def build_path(place: str, *, is_package: bool) -> str:
    """Return the path of a module of the map; below the root package's folder, or for tests below the repository's."""
    if place == ROOT:
        return "__init__.py"
    return place.replace(".", "/") + ("/__init__.py" if is_package else ".py")


def build_alias(name: str, bound: str) -> str:
    """Return a name of an import statement that binds `bound`."""
    return name if name == bound else f"{name} as {bound}"


def find_package(full: str) -> str:
    """Return the package of the contract that a module with this whole name is in."""
    return _cut_root(full).partition(".")[0]


def _breaks(importing: str, imported: str) -> bool:
    return find_direction(find_package(importing), find_package(imported)) is not None


def _expand(path: str) -> Iterator[str]:
    """Yield the paths that `a/{b,c}.py` names."""
    head, brace, rest = path.partition("{")
    if not brace:
        yield path
        return
    names, _, tail = rest.partition("}")
    for name in names.split(","):
        yield f"{head}{name}{tail}"


def _sub_outside(
    skipped: re.Pattern[str], pattern: re.Pattern[str], replace: Callable[[re.Match[str]], str], text: str
) -> str:
    """Replace a pattern, but not in what another one matches."""
    parts, at = [], 0
    for match in skipped.finditer(text):
        parts += [pattern.sub(replace, text[at : match.start()]), match[0]]
        at = match.end()
    return "".join([*parts, pattern.sub(replace, text[at:])])
