"""Nothing but its own package knows a concrete step or action: everything else uses what all of them have."""

from __future__ import annotations

import ast
from pathlib import Path

import seamark

SOURCE = Path(seamark.__file__).parent
REGISTERS = ("step_kind", "action_kind")


def parse_modules():
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


def find_concrete(modules):
    """Return the package of each class that is registered as a step or an action."""
    return {
        node.name: path.parent
        for path, tree in modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(one).partition("(")[0] in REGISTERS for one in node.decorator_list)
    }


def find_named(node):
    """Return the names of classes that a node asks for."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
        return {one.id for one in ast.walk(node.args[1]) if isinstance(one, ast.Name)}
    if isinstance(node, ast.MatchClass):
        return {ast.unparse(node.cls)}
    if isinstance(node, ast.Compare):
        sides = [ast.unparse(one) for one in (node.left, *node.comparators)]
        # `step.kind == PutConfig.kind`, `type(step) is PutConfig`
        is_type = any(side.startswith("type(") for side in sides)
        return {side.removesuffix(".kind") for side in sides if side.endswith(".kind") or is_type}
    return set()


def test_no_module_outside_its_package_asks_for_a_concrete_step_or_action():
    modules = parse_modules()
    concrete = find_concrete(modules)
    assert len(concrete) > 60
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno} {name}"
        for path, tree in modules.items()
        for node in ast.walk(tree)
        for name in sorted(find_named(node) & concrete.keys())
        if concrete[name] != path.parent
    ]
    assert found == []


def test_no_module_compares_the_kind_of_a_step_or_an_action():
    """The kinds are the names in plan files and in the journal: only the registries look them up."""
    modules = parse_modules()
    kinds = {
        ast.literal_eval(one.args[0])
        for tree in modules.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for one in node.decorator_list
        if isinstance(one, ast.Call) and ast.unparse(one.func) in REGISTERS
    }
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path, tree in modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        and any(ast.unparse(side).endswith(".kind") for side in (node.left, *node.comparators))
        and any(
            isinstance(one, ast.Constant) and one.value in kinds
            for side in (node.left, *node.comparators)
            for one in ast.walk(side)
        )
    ]
    assert found == []
