"""The move of a source tree, on a small repository."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest

from tools.structure.__main__ import main

FILES = {
    "src/seamark/__init__.py": '''"""A package."""

from typing import Any

__all__ = ["move"]
_LAZY = {"move": "seamark.moving.verbs"}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)
''',
    # `order` leaves with its helper; `_LIMIT` stays, because both halves need it.
    "src/seamark/model.py": '''"""Values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FIRST", "Offset", "order"]

_LIMIT = 3
# Tuned: see `seamark.model.order`.
FIRST = 1
"""The first one."""


@dataclass(frozen=True)
class Offset:
    """Where `src/seamark/moving/verbs.py` is."""

    at: int = _LIMIT


def _compare(one: Any) -> int:
    return one.at


def order(offsets: Sequence[Offset]) -> list[Offset]:
    """Order at most three."""
    return sorted(offsets, key=_compare)[: _LIMIT + FIRST - FIRST]
''',
    # Dissolved.
    "src/seamark/moving/__init__.py": '"""Verbs."""\n\nfrom seamark.moving.verbs import move\n\n__all__ = ["move"]\n',
    "src/seamark/moving/verbs.py": '''"""Verbs on offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.model import Offset, order as sort

if TYPE_CHECKING:
    from seamark.brokers import read


def move(offset: Offset, reader: read | None = None) -> Offset:
    from seamark import brokers
    from seamark.model import FIRST, Offset as Made  # noqa: PLC0415

    return Made(sort([offset])[0].at + FIRST + brokers.read())
''',
    "src/seamark/life.py": '''"""Connectors."""

import seamark.model
from seamark import model as values


def start() -> int:
    """See `seamark.model`, and the source `seamark.lake`."""
    return values.FIRST + seamark.model.FIRST
''',
    # What stays uses what leaves.
    "src/seamark/lake.py": '"""Tables."""\n\n# Why.\nROOT = "s3"\n"""Where."""\nPLACE = ROOT + "/x"\n',
    "src/seamark/brokers.py": '"""Topics."""\n\n\ndef read() -> int:\n    return 1\n',
    "src/seamark/kinds/__init__.py": '''"""Every kind."""

# Each of these registers its kinds.
from seamark.kinds import first, second  # noqa: F401
''',
    "src/seamark/kinds/first.py": '"""First."""\n\nKIND = "first"\n',
    "src/seamark/kinds/second.py": '"""Second."""\n\nKIND = "second"\n',
    "src/pyspark_seamark/__init__.py": "from seamark.moving import move\n",
    "tests/test_life.py": """import seamark.life
from seamark.life import start
from seamark.moving import move, verbs

PROGRAM = "import seamark.life; from seamark.model import order\\nprint(order)"
PATHS = ["moving/verbs.py", "tests/unit/moving/verbs.py", "seamark/v1", "/etc/seamark/model.py"]
FILES = ["seamark/__init__.py", "seamark/model.py"]


def test_life(monkeypatch):
    monkeypatch.setattr("seamark.moving.verbs.sort", None)
    monkeypatch.setattr("seamark.model.order.__doc__", "")
    monkeypatch.setattr(seamark.life, "start", start)
    assert verbs.move is move
""",
    "docs/page.md": "`src/seamark/{model,lake}.py`, `src/seamark/moving/verbs.py`, `model.py`; "
    "`format('seamark.lake')`.\n",
    "pyproject.toml": '[project.scripts]\nrun = "seamark.life:start"\nsort = "seamark.model:order"\n\n'
    "[tool.importlinter]\nold = true\n",
    "tools/mutants/mutants.toml": "".join(
        f"[[mutant]]\nname = '{name}'\nmodule = 'src/seamark/model.py'\nold = '{old}'\n\n"
        for name, old in {"stays": "_LIMIT = 3", "leaves": "return one.at"}.items()
    ),
    "tools/structure/map.csv": """module,moved_to,merged_into
brokers,topics.service,topics.service
kinds,fleet.kinds,fleet.kinds
kinds.first,connectors.first,connectors.steps
kinds.second,topics.later,topics.steps
lake,tables.delta,tables.delta
life,connectors.service,connectors.service
model,core.offset,core.offset
moving,-,-
moving.verbs,lifecycle.move,lifecycle.move
seamark,seamark,seamark
""",
    "tools/structure/split.csv": """module,name,moved_to,merged_into
model,order,core.order,core.order
lake,ROOT,core.place,core.x
""",
    "tools/structure/docstrings.toml": "".join(
        f'"seamark.{name}" = "The {name}."\n'
        for name in ("connectors", "core", "core.order", "core.place", "fleet", "lifecycle", "tables", "topics")
    ),
    "tools/structure/contracts.toml": "[tool.importlinter]\nnew = true\n",
    "tools/structure/edits.toml": "[[edit]]\npath = 'docs/page.md'\nold = '`model.py`'\nnew = 'the model'\n",
}


@pytest.fixture
def repository(tmp_path):
    """A repository with one commit."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x")
    return tmp_path


def git(root, *arguments):
    subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)


def run(root, *arguments):
    return main(list(arguments), root=root, folder=root / "tools" / "structure")


def read(root, path):
    return (root / path).read_text()


@pytest.fixture
def moved(repository, capsys):
    assert run(repository, "move") == 0, capsys.readouterr().out
    return repository


def list_sources(root):
    return sorted(path.relative_to(root / "src").as_posix() for path in (root / "src").rglob("*.py"))


def test_files_are_where_the_map_puts_them(moved):
    names = "connectors connectors/first connectors/service core core/offset core/order core/place fleet fleet/kinds"
    names += " lifecycle lifecycle/move tables tables/delta topics topics/later topics/service"
    packages = {"connectors", "core", "fleet", "lifecycle", "tables", "topics"}
    expected = [f"seamark/{name}{'/__init__' if name in packages else ''}.py" for name in names.split()]
    assert list_sources(moved) == sorted([*expected, "pyspark_seamark/__init__.py", "seamark/__init__.py"])
    assert read(moved, "src/seamark/core/__init__.py") == '"""The core."""\n'


def test_moved_tree_has_the_same_definitions_and_can_be_imported(moved, capsys):
    capsys.readouterr()
    assert run(moved, "same", "HEAD") == 0
    assert capsys.readouterr().out.endswith("definitions compared, 0 differ\n")
    code = (
        "import seamark, seamark.fleet.kinds, seamark.connectors.service as life, seamark.core.offset as values;"
        "import seamark.tables.delta as lake;"
        "print(seamark.move(values.Offset(4)).at, life.start(), lake.PLACE)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(moved / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("6 2 s3/x\n", "")


def test_definition_leaves_with_what_it_needs(moved):
    assert (
        read(moved, "src/seamark/core/order.py")
        == '''"""The core.order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seamark.core.offset import _LIMIT, FIRST, Offset

if TYPE_CHECKING:
    from collections.abc import Sequence


def _compare(one: Any) -> int:
    return one.at


def order(offsets: Sequence[Offset]) -> list[Offset]:
    """Order at most three."""
    return sorted(offsets, key=_compare)[: _LIMIT + FIRST - FIRST]
'''
    )
    assert read(moved, "src/seamark/core/place.py").endswith('\n# Why.\nROOT = "s3"\n"""Where."""\n')
    assert "Wh" not in read(moved, "src/seamark/tables/delta.py")
    assert read(moved, "src/seamark/tables/delta.py").splitlines()[2] == "from seamark.core.place import ROOT"
    left = read(moved, "src/seamark/core/offset.py")
    assert "Sequence" not in left
    assert "_compare" not in left
    assert '__all__ = ["FIRST", "Offset"]' in left
    assert '# Tuned: see `seamark.core.order.order`.\nFIRST = 1\n"""The first one."""' in left
    assert "Where `src/seamark/lifecycle/move.py` is." in left


def test_imports_are_rewritten_wherever_they_are(moved):
    text = read(moved, "src/seamark/lifecycle/move.py")
    assert "\nfrom seamark.core.offset import Offset\nfrom seamark.core.order import order as sort\n" in text
    assert "    from seamark.topics.service import read\n" in text
    assert "    from seamark.core.offset import FIRST  # noqa: PLC0415\n" in text
    assert "    from seamark.core.offset import Offset as Made  # noqa: PLC0415\n" in text
    assert "    from seamark.topics import service as brokers\n" in text
    life = read(moved, "src/seamark/connectors/service.py")
    assert "import seamark.core.offset\nfrom seamark.core import offset as values\n" in life
    assert "values.FIRST + seamark.core.offset.FIRST" in life
    kinds = read(moved, "src/seamark/fleet/kinds.py")
    assert "from seamark.connectors import first  # noqa: F401\n" in kinds
    assert "from seamark.topics import later as second  # noqa: F401\n" in kinds
    assert '_LAZY = {"move": "seamark.lifecycle.move"}' in read(moved, "src/seamark/__init__.py")


def test_reexport_of_a_dissolved_package_is_followed(moved):
    assert read(moved, "src/pyspark_seamark/__init__.py") == "from seamark.lifecycle.move import move\n"
    test = read(moved, "tests/test_life.py")
    assert "from seamark.lifecycle import move as verbs\n" in test
    assert "from seamark.lifecycle.move import move\n" in test


def test_names_and_paths_in_strings_follow(moved):
    test = read(moved, "tests/test_life.py")
    assert '"seamark.lifecycle.move.sort"' in test
    assert '"seamark.core.order.order.__doc__"' in test
    assert "setattr(seamark.connectors.service, " in test
    assert '"import seamark.connectors.service; from seamark.core.order import order\\nprint(order)"' in test
    for path in (
        "lifecycle/move.py",
        "tests/unit/moving/verbs.py",
        "seamark/v1",
        "/etc/seamark/model.py",
        "seamark/__init__.py",
    ):
        assert f'"{path}"' in test
    assert '"seamark/core/offset.py"' in test
    assert "the source `seamark.lake`" in read(moved, "src/seamark/connectors/service.py")
    assert read(moved, "docs/page.md") == (
        "`src/seamark/core/offset.py`, `src/seamark/tables/delta.py`, `src/seamark/lifecycle/move.py`, the model; "
        "`format('seamark.lake')`.\n"
    )
    assert tomllib.loads(read(moved, "pyproject.toml")) == {
        "project": {"scripts": {"run": "seamark.connectors.service:start", "sort": "seamark.core.order:order"}},
        "tool": {"importlinter": {"new": True}},
    }


def test_mutant_in_a_definition_that_leaves_follows_it(moved):
    mutants = tomllib.loads(read(moved, "tools/mutants/mutants.toml"))["mutant"]
    assert {one["name"]: one["module"] for one in mutants} == {
        "stays": "src/seamark/core/offset.py",
        "leaves": "src/seamark/core/order.py",
    }


def test_map_of_the_moved_tree_is_complete(moved, capsys):
    (moved / "tools/structure/baseline").write_text("0\n")
    capsys.readouterr()
    assert run(moved, "check") == 0, capsys.readouterr().out
    assert "\ncore.place,core.place,core.x\n" in read(moved, "tools/structure/map.csv")
    assert "\ncore.order,core.order,core.order\n" in read(moved, "tools/structure/map.csv")
    assert "\nconnectors.first,connectors.first,connectors.steps\n" in read(moved, "tools/structure/map.csv")
    assert read(moved, "tools/structure/split.csv") == "module,name,moved_to,merged_into\n"


def test_second_move_changes_nothing(moved, capsys):
    git(moved, "add", "-A")
    assert run(moved, "move") == 0
    assert "\n0 files renamed" in capsys.readouterr().out
    assert subprocess.run(["git", "diff", "--stat"], cwd=moved, capture_output=True, check=True).stdout == b""


def test_dry_run_writes_nothing(repository, capsys):
    assert run(repository, "move", "--dry-run") == 0
    assert "8 files renamed" in capsys.readouterr().out
    assert {name: read(repository, name) for name in FILES} == FILES


@pytest.mark.parametrize(
    ("path", "old", "new", "difference"),
    [
        ("core/order.py", "_LIMIT + FIRST", "_LIMIT - FIRST", "changed: core.order:order"),
        ("core/order.py", "def order(", "def sort(", "missing: core.order:order"),
        ("core/order.py", "return one.at", "return one.at\n\n\ndef extra():\n    pass", "new: core.order:extra"),
        ("tables/delta.py", '"/x"', '"/x"\nPLACE = ROOT', "2 instead of 1 statements: tables.delta:PLACE"),
        # The syntax is the same, and the name means another definition.
        (
            "lifecycle/move.py",
            "from seamark.core.order import order as sort",
            "from seamark.tables.delta import PLACE as sort",
            "newly uses: lifecycle.move:move -> tables.delta:PLACE",
        ),
        ("lifecycle/move.py", "import FIRST ", "import _LIMIT as FIRST ", "changed: lifecycle.move:move"),
    ],
)
def test_planted_difference_is_found(moved, capsys, path, old, new, difference):
    target = moved / "src" / "seamark" / path
    assert old in target.read_text()
    target.write_text(target.read_text().replace(old, new, 1))
    capsys.readouterr()
    assert run(moved, "same", "HEAD") == 1
    assert difference in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("path", "old", "new", "problem"),
    [
        (
            "docstrings.toml",
            '"seamark.core.order"',
            '"seamark.other"',
            "seamark.core.order is new and has no docstring",
        ),
        ("edits.toml", "`model.py`", "`nothing.py`", "docs/page.md has 0 times '`nothing.py`'"),
    ],
)
def test_move_that_can_not_be_done_writes_nothing(repository, capsys, path, old, new, problem):
    target = repository / "tools" / "structure" / path
    target.write_text(target.read_text().replace(old, new))
    assert run(repository, "move") == 1
    assert problem in capsys.readouterr().out
    assert read(repository, "src/seamark/model.py") == FILES["src/seamark/model.py"]


def test_names_that_clash_where_a_definition_goes_are_refused(repository, capsys):
    split = repository / "tools/structure/split.csv"
    split.write_text(split.read_text().replace("core.order,core.order", "lifecycle.move,lifecycle.move"))
    verbs = repository / "src/seamark/moving/verbs.py"
    verbs.write_text(verbs.read_text().replace("\nfrom seamark", "\nfrom typing import List as Any\n\nfrom seamark", 1))
    assert run(repository, "move") == 1
    assert "Any would stand for typing.List and for" in capsys.readouterr().out
