"""The check of the new structure, on a tree of its own."""

from __future__ import annotations

import pytest

from tools.structure.__main__ import main
from tools.structure.placement import read_placement
from tools.structure.tree import Definition, Use, read_tree

# connectors and topics are side by side, below offsets and above core.
MODULES = {
    "__init__": "",
    "model": "class Offset:\n    pass\n\n\nLIMIT = 3\n",
    "moving": "from seamark.model import Offset\n\n\ndef move(offset: Offset) -> None:\n    pass\n",
    "life": "from seamark import model\n\n\ndef start():\n    return model.LIMIT\n",
    "brokers": "def read():\n    return 1\n",
}
MAP = {
    "seamark": "seamark",
    "model": "core.model",
    "moving": "offsets.move",
    "life": "connectors.service",
    "brokers": "topics.service",
}

# In the module that is below all others.
ANNOTATED = """from __future__ import annotations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seamark.moving import move

LIMIT = 3


class Offset:
    mover: list[move]
"""
QUOTED = """from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seamark import moving

LIMIT = 3


class Offset:
    def read(self, mover: "moving.move | None") -> None:
        pass
"""


@pytest.fixture
def plant(tmp_path):
    """Write a tree with its map, and return what runs the check on it."""

    def run(modules=None, placed=None, split=(), baseline=0, command="check"):
        for name, text in {**MODULES, **(modules or {})}.items():
            path = tmp_path / "src" / "seamark" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        rows = [f"{old},{new},{new}" for old, new in (MAP if placed is None else placed).items()]
        (tmp_path / "map.csv").write_text("\n".join(["module,moved_to,merged_into", *rows, ""]))
        (tmp_path / "split.csv").write_text("\n".join(["module,name,moved_to,merged_into", *split, ""]))
        (tmp_path / "baseline").write_text(f"{baseline}\n")
        return main([command], root=tmp_path, folder=tmp_path)

    return run


def test_tree_that_keeps_the_contract_passes(plant, capsys):
    assert plant() == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("module", "text", "violation"),
    [
        (
            "life",
            "from seamark.moving import move\n\n\ndef start():\n    move(1)\n",
            "upward: connectors -> offsets: life:start -> moving:move",
        ),
        (
            "life",
            "from seamark import brokers\n\n\ndef start():\n    return brokers.read()\n",
            "sideways: connectors -> topics: life:start -> brokers:read",
        ),
        (
            "life",
            "import seamark.brokers\n\n\ndef start():\n    return seamark.brokers.read()\n",
            "sideways: connectors -> topics: life:start -> brokers:read",
        ),
        (
            "model",
            ANNOTATED,
            "upward: core -> offsets: model:Offset -> moving:move",
        ),
        (
            "model",
            QUOTED,
            "upward: core -> offsets: model:Offset -> moving:move",
        ),
        (
            "life",
            "def start():\n    from .moving import move\n\n    return move\n",
            "upward: connectors -> offsets: life:start -> moving:move",
        ),
        (
            "life",
            "from typing import cast\n\nfrom seamark.moving import move\n\n\ndef start(x):\n    cast('move', x)\n",
            "upward: connectors -> offsets: life:start -> moving:move",
        ),
        # For its effect alone.
        ("life", "from seamark import moving  # noqa: F401\n", "upward: connectors -> offsets: life -> moving"),
        ("life", "import seamark.moving  # noqa: F401\n", "upward: connectors -> offsets: life -> moving"),
        (
            "life",
            "def start():\n    import seamark.moving\n",
            "upward: connectors -> offsets: life:start -> moving",
        ),
    ],
)
def test_planted_violation_is_found(plant, capsys, module, text, violation):
    assert plant({module: text}) == 1
    out = capsys.readouterr().out.splitlines()
    assert out == [violation, "error: 1 violations of the layer contract, and baseline allows 0"]


def test_use_through_a_package_is_that_of_the_definition(plant, capsys):
    placed = MAP | {"gate": "core.gate"}
    modules = {"gate": "from seamark.moving import move\n\n__all__ = ['move']\n"}
    modules["life"] = "from seamark.gate import move\n\n\ndef start():\n    move(1)\n"
    assert plant(modules, placed) == 1
    assert capsys.readouterr().out.splitlines()[:2] == [
        "upward: connectors -> offsets: life:start -> moving:move",
        "upward: core -> offsets: gate -> moving:move",
    ]


def test_local_name_is_no_use(plant):
    text = (
        "from seamark.model import LIMIT\n\n\ndef move(brokers, offset=LIMIT):\n    return [life for life in brokers]\n"
    )
    assert plant({"moving": text}) == 0


def test_definition_that_leaves_its_module_counts_where_it_goes(plant, capsys):
    modules = {"moving": "LIMIT = 1\n\n\ndef move():\n    return LIMIT\n"}
    modules["life"] = "from seamark.moving import move\n\n\ndef start():\n    move()\n"
    assert plant(modules, split=["moving,move,connectors.moves,connectors.moves"]) == 1
    # What it uses in its former module counts too.
    assert capsys.readouterr().out.splitlines()[0] == "upward: connectors -> offsets: moving:move -> moving:LIMIT"
    both = ["moving,move,connectors.moves,connectors.moves", "moving,LIMIT,connectors.moves,connectors.moves"]
    assert plant(modules, split=both) == 0


def test_baseline_may_only_fall(plant, capsys):
    text = {"life": "from seamark.moving import move\n\n\ndef start():\n    move(1)\n"}
    assert plant(text, baseline=1) == 0
    assert capsys.readouterr().out == ""
    assert plant(text, baseline=2) == 1
    assert capsys.readouterr().out.endswith("only 1 violations are left: write 1 into tools/structure/baseline\n")


@pytest.mark.parametrize(
    ("modules", "placed", "split", "problem"),
    [
        ({"fresh": "X = 1\n"}, MAP, (), "fresh: no row in map.csv"),
        ({}, MAP | {"gone": "core.gone"}, (), "gone: a row in map.csv, but no such module"),
        ({}, MAP, ["model,NOTHING,core.x,core.x"], "model:NOTHING: a row in split.csv, but no such definition"),
        ({}, MAP, ["model,LIMIT,core.x,core.x"] * 2, "model:LIMIT: has more than one row"),
        ({}, MAP | {"model": "-"}, (), "model:Offset: its module is dissolved, and it has no row in split.csv"),
        ({}, MAP | {"model": "kernel.model"}, (), "model: 'kernel.model' is in no package of the contract"),
        ({}, MAP | {"life": "topics.service"}, (), "topics.service: two modules move there: life, brokers"),
        ({}, MAP | {"life": "topics"}, (), "topics: a package, and life is none"),
        (
            {"life": "LIMIT = 1\n"},
            MAP,
            ["life,LIMIT,core.model,core.model"],
            "core.model: two definitions LIMIT: life:LIMIT, model:LIMIT",
        ),
    ],
)
def test_map_must_place_everything_once(plant, capsys, modules, placed, split, problem):
    assert plant(modules, placed, split) == 1
    assert problem in capsys.readouterr().out.splitlines()


def test_devstack_is_for_the_demo_alone(plant, capsys):
    placed = MAP | {"stack": "devstack.stack", "play": "demo.play"}
    use = "from seamark.stack import up\n\n\ndef play():\n    up()\n"
    assert plant({"stack": "def up():\n    pass\n", "play": use}, placed) == 0
    assert plant({"stack": "def up():\n    pass\n", "play": use, "life": use}, placed) == 1
    assert "devstack: connectors -> devstack: life:play -> stack:up" in capsys.readouterr().out


def test_figures_are_of_the_merged_modules(plant, capsys):
    assert plant(command="figures") == 0
    assert "after the merge: 9 modules" in capsys.readouterr().out


def test_uses_are_read_by_definition(plant, tmp_path):
    plant()
    uses = read_tree(tmp_path / "src" / "seamark").find_uses()
    assert uses == {
        Use(Definition("moving", "move"), Definition("model", "Offset")),
        Use(Definition("life", "start"), Definition("model", "LIMIT")),
    }


def test_every_row_of_the_real_map_has_both_places():
    placement = read_placement()
    assert all(place.moved_to and place.merged_into for place in placement.modules.values())
    assert all(place.moved_to and place.merged_into for place in placement.splits.values())
