"""The package stays as small and as clearly divided as it was made: modules, sizes, names."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import seamark

SOURCE = Path(seamark.__file__).parent
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc"}


@pytest.fixture(scope="module")
def modules():
    return {str(path.relative_to(SOURCE)): path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))}


def count_lines(text):
    return len(text.splitlines())


def test_modules_are_few(modules):
    # The restructuring ended with 420; the commands of daily operation may add a few.
    assert len(modules) <= 440


def test_no_module_is_long(modules):
    found = {name: count_lines(text) for name, text in modules.items()}
    assert {name: lines for name, lines in found.items() if lines > 600} == {}


def test_few_modules_are_fragments(modules):
    short = [name for name, text in modules.items() if count_lines(text) < 60 and not name.endswith("__init__.py")]
    assert len(short) <= 40, short


def test_no_package_is_crowded(modules):
    packages = defaultdict(int)
    for name in modules:
        packages[str(Path(name).parent)] += 1
    assert {name: count for name, count in packages.items() if count > 31} == {}


def test_no_module_has_a_name_for_anything(modules):
    assert [name for name in modules if Path(name).stem in VAGUE] == []


def test_core_is_small_and_imports_the_standard_library_only(modules):
    own = {name: text for name, text in modules.items() if name.startswith("core/")}
    assert sum(map(count_lines, own.values())) <= 1200
    imported = {
        alias
        for text in own.values()
        for node in ast.walk(ast.parse(text))
        for alias in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [one.name for one in node.names]
            if isinstance(node, ast.Import)
            else []
        )
        if alias.startswith("seamark.")
    }
    assert all(name.startswith(("seamark.core", "seamark.errors")) for name in imported)


def test_each_public_class_name_means_one_thing(modules):
    homes = defaultdict(list)
    for name, text in modules.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(name)
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}
