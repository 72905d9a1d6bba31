"""Nothing but its own package knows a concrete step or action: everything else uses what all of them have."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

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


PARSING = {"partition", "rpartition", "startswith", "removeprefix"}
PREFIXES = ("connector/", "topic/", "group/", "pipeline/", "offsets/", "copy/")
NAMED = {"owner", "owners", "subject", "subjects"}


def find_prefix(node, constants):
    """Return the known prefix that an argument is, written out or by the name of a constant; "" if it is none."""
    if isinstance(node, ast.Tuple):
        return next(filter(None, (find_prefix(one, constants) for one in node.elts)), "")
    if isinstance(node, ast.Name):
        return constants.get(node.id, "")
    if isinstance(node, ast.JoinedStr):
        # f"{cluster}/", f"connector/{cluster}/"
        text = ast.unparse(node)
        return text if text.endswith("/'") and "cluster}" in text else ""
    return node.value if isinstance(node, ast.Constant) and node.value in PREFIXES else ""


def find_parsing(tree):
    """Return the lines that take a subject or an owner apart."""
    constants = {
        target.id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and node.value.value in PREFIXES
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in PARSING):
            continue
        called_on = ast.unparse(node.func.value).rpartition(".")[2]
        # A message of the Kafka client has a method `partition` without arguments.
        if node.args and (called_on in NAMED or any(find_prefix(one, constants) for one in node.args)):
            yield node.lineno


def test_subjects_and_owners_are_taken_apart_in_one_module():
    """Names of connectors may contain slashes: each module that cuts at one cuts elsewhere."""
    modules = parse_modules()
    assert list(find_parsing(modules[SOURCE / "core" / "refs.py"]))
    found = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path, tree in modules.items()
        if path != SOURCE / "core" / "refs.py"
        for line in find_parsing(tree)
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "owner.partition('/')",
        "effect.subject.removeprefix('x')",
        "name.startswith('group/')",
        "name.startswith(('topic/', 'connector/'))",
        "P = 'pipeline/'\nname.removeprefix(P)",
        "name.startswith(f'{self.cluster}/')",
    ],
)
def test_every_way_of_taking_names_apart_is_found(text):
    assert list(find_parsing(ast.parse(text)))


@pytest.mark.parametrize("text", ["message.partition()", "path.startswith('/')", "name.partition('=')"])
def test_other_texts_may_be_taken_apart(text):
    assert list(find_parsing(ast.parse(text))) == []
