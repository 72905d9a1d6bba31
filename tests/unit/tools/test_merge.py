"""The merge of modules, on a small repository."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest

from tools.structure.__main__ import main

FILES = {
    "src/seamark/__init__.py": '"""A package."""\n\n_LAZY = {"move": "seamark.offsets.verbs"}\n',
    "src/seamark/core/__init__.py": '"""Values."""\n',
    # Has the name of the target. It needs `limits` when it is loaded, and `order` only when it runs.
    "src/seamark/core/offset.py": '''"""Offsets.

The text of the module.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from seamark.core.limits import LIMIT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from seamark.core.order import Order

__all__ = ["LIMIT", "Offset"]
T = TypeVar("T")
_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class Offset:
    """See `seamark.core.order.sort` and `src/seamark/core/limits.py`."""

    # A comment.
    at: int = LIMIT
    places: Sequence[Path] = ()

    def move(self, order: Order) -> list[Offset]:
        """Move."""
        from seamark.core.order import sort

        _LOGGER.info("moved")
        return sort([self])
''',
    "src/seamark/core/limits.py": '''"""Limits.

A limit of three is what a
broker takes.

- one point
  of two lines
- see `seamark.core.order`
"""

# Why three.
LIMIT = 3
"""The limit."""
''',
    "src/seamark/core/order.py": '''"""Orders."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TypeVar

from seamark.core.offset import Offset

T = TypeVar("T")
_LOGGER = logging.getLogger(__name__)


class Order(Offset):
    """An order."""


def sort(offsets: Sequence[T]) -> list[T]:
    """Sort."""
    return list(offsets)


if __name__ == "__main__":
    print(sort([1]))
''',
    "src/seamark/offsets/__init__.py": '"""Verbs."""\n\nfrom seamark.offsets.verbs import move\n\n__all__ = ["move"]\n',
    "src/seamark/offsets/verbs.py": '''"""Verbs on offsets, of which there are more than of others."""

from __future__ import annotations

from seamark.core import limits, order
from seamark.core.offset import Offset


def move(offset: Offset) -> int:
    """Move."""
    from seamark.core.limits import LIMIT  # noqa: PLC0415
    from seamark.core.order import Order, sort  # noqa: PLC0415

    return sort([offset])[0].at + LIMIT + limits.LIMIT + len(order.sort([Order]))
''',
    "src/seamark/offsets/nouns.py": '"""Nouns."""\n\nNOUN = "offset"\n',
    "tests/test_verbs.py": """import seamark.core.limits as limits
from seamark.core import order
from seamark.core.limits import LIMIT
from seamark.core.order import sort


def test_verbs(monkeypatch):
    monkeypatch.setattr("seamark.core.limits.LIMIT", 4)
    monkeypatch.setattr(order, "sort", sort)
    monkeypatch.setattr(limits, "LIMIT", LIMIT)
""",
    "docs/page.md": "See `src/seamark/core/limits.py`, `src/seamark/core/order.py`; `offsets/verbs.py`.\n",
    "pyproject.toml": '[project.scripts]\nrun = "seamark.core.order:sort"\n\n[[tool.importlinter.contracts]]\n'
    'source_modules = ["seamark.core.limits", "seamark.core.order"]\n\n'
    "[tool.ruff]\nline-length = 120\n[tool.ruff.lint]\n"
    'select = ["F", "I", "PLC0415", "RUF100", "D202"]\npreview = true\n',
    "tools/mutants/mutants.toml": "".join(
        f"[[mutant]]\nname = '{name}'\nmodule = 'src/seamark/core/{module}.py'\nold = '{old}'\nnew = '{new}'\n\n"
        for name, module, old, new in (
            ("once", "limits", "LIMIT = 3", "LIMIT = 4"),
            ("twice", "order", "    return ", "    return not "),
        )
    ),
    "tools/structure/map.csv": """module,moved_to,merged_into
core,core,core
core.limits,core.limits,core.offset
core.offset,core.offset,core.offset
core.order,core.order,core.offset
offsets,offsets,offsets
offsets.nouns,offsets.nouns,offsets.words
offsets.verbs,offsets.verbs,offsets.words
seamark,seamark,seamark
""",
    "tools/structure/split.csv": "module,name,moved_to,merged_into\n",
    "tools/structure/baseline": "0\n",
}


@pytest.fixture
def repository(tmp_path):
    """A repository with one commit."""
    for name, text in FILES.items():
        write(tmp_path, name, text)
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    return tmp_path


def git(root, *arguments):
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout


def commit(root):
    git(root, "add", "-A")
    git(root, "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x")


def run(root, *arguments):
    return main(list(arguments), root=root, folder=root / "tools" / "structure")


def read(root, path):
    return (root / path).read_text()


def write(root, path, text):
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def change(root, path, old, new):
    text = read(root, path)
    assert old in text
    write(root, path, text.replace(old, new, 1))


@pytest.fixture
def merged(repository, capsys):
    assert run(repository, "merge") == 0, capsys.readouterr().out
    return repository


def test_fragments_become_one_module_in_the_order_of_their_imports(merged):
    assert (
        read(merged, "src/seamark/core/offset.py")
        == '''"""Offsets.

The text of the module.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pathlib import Path


# A limit of three is what a broker takes.
#
# - one point of two lines
# - see `seamark.core.offset`

# Why three.
LIMIT = 3
"""The limit."""


T = TypeVar("T")
_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class Offset:
    """See `seamark.core.offset.sort` and `src/seamark/core/offset.py`."""

    # A comment.
    at: int = LIMIT
    places: Sequence[Path] = ()

    def move(self, order: Order) -> list[Offset]:
        """Move."""
        _LOGGER.info("moved")
        return sort([self])


class Order(Offset):
    """An order."""


def sort(offsets: Sequence[T]) -> list[T]:
    """Sort."""
    return list(offsets)


if __name__ == "__main__":
    print(sort([1]))
'''
    )
    assert not (merged / "src/seamark/core/order.py").exists()


def test_module_with_a_new_name_has_the_docstring_of_its_biggest_fragment(merged):
    text = read(merged, "src/seamark/offsets/words.py")
    assert text.startswith('"""Verbs on offsets, of which')
    assert text.index("NOUN") < text.index("def move")


def test_users_follow(merged):
    words = read(merged, "src/seamark/offsets/words.py")
    assert "from seamark.core import offset as limits\nfrom seamark.core import offset as order\n" in words
    # The import sorter joins both statements and would put the comment where it has no effect.
    assert "\n    from seamark.core.offset import LIMIT, Order, sort  # noqa: PLC0415\n" in words
    assert read(merged, "src/seamark/__init__.py").endswith('{"move": "seamark.offsets.words"}\n')
    assert "from seamark.offsets.words import move" in read(merged, "src/seamark/offsets/__init__.py")
    test = read(merged, "tests/test_verbs.py")
    assert "import seamark.core.offset as limits\nfrom seamark.core import offset as order\n" in test
    assert "from seamark.core.offset import LIMIT, sort\n" in test
    assert '"seamark.core.offset.LIMIT"' in test
    assert read(merged, "docs/page.md") == "See `src/seamark/core/offset.py`; `offsets/words.py`.\n"
    project = tomllib.loads(read(merged, "pyproject.toml"))
    assert project["project"]["scripts"] == {"run": "seamark.core.offset:sort"}
    assert project["tool"]["importlinter"]["contracts"] == [{"source_modules": ["seamark.core.offset"]}]


def test_anchor_that_another_fragment_has_too_becomes_longer(merged):
    mutants = {one["name"]: one for one in tomllib.loads(read(merged, "tools/mutants/mutants.toml"))["mutant"]}
    assert {one["module"] for one in mutants.values()} == {"src/seamark/core/offset.py"}
    assert mutants["once"]["old"] == "LIMIT = 3"
    assert mutants["twice"]["old"] == '    """Sort."""\n    return '
    assert mutants["twice"]["new"] == '    """Sort."""\n    return not '


def test_merged_tree_has_the_same_definitions_and_runs(merged, capsys):
    capsys.readouterr()
    assert run(merged, "same", "HEAD") == 0
    assert capsys.readouterr().out == "10 definitions compared, 0 differ\n"
    code = "import seamark.offsets as o, seamark.core.offset as c; print(o.move(c.Offset()), c.Offset().move(None))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(merged / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("10 [Offset(at=3, places=())]\n", "")


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ("list(offsets)", "[*offsets]", "changed: core.offset:sort"),
        ("def sort(", "def order(", "missing: core.offset:sort"),
        ("class Order(Offset)", "class Extra: ...\n\n\nclass Order(Offset)", "new: core.offset:Extra"),
        ("LIMIT = 3", "LIMIT = 3\nLIMIT = 3", "3 instead of 2 statements: core.offset:LIMIT"),
        # The syntax is the same, and the name means another definition.
        ("import dataclass", "import field as dataclass\nfrom seamark.offsets.words import NOUN as list", "newly uses"),
    ],
)
def test_planted_difference_is_found(merged, capsys, old, new, difference):
    change(merged, "src/seamark/core/offset.py", old, new)
    capsys.readouterr()
    assert run(merged, "same", "HEAD") == 1
    assert difference in capsys.readouterr().out


def test_map_of_the_merged_tree_is_complete(merged, capsys):
    capsys.readouterr()
    assert run(merged, "check") == 0, capsys.readouterr().out
    assert read(merged, "tools/structure/map.csv").splitlines()[1:] == [
        f"{name},{name},{name}" for name in ("core", "core.offset", "offsets", "offsets.words", "seamark")
    ]


def test_second_merge_changes_nothing(merged):
    commit(merged)
    assert run(merged, "merge") == 0
    assert git(merged, "status", "--short") == ""


@pytest.mark.parametrize("chosen", [("--only", "offsets"), ("--without", "core.offset")])
def test_some_targets_are_merged_alone(repository, capsys, chosen):
    assert run(repository, "merge", *chosen) == 0, capsys.readouterr().out
    assert read(repository, "src/seamark/core/order.py") == FILES["src/seamark/core/order.py"]
    assert "from seamark.core import limits, order\n" in read(repository, "src/seamark/offsets/words.py")
    assert "core.order,core.order,core.offset\n" in read(repository, "tools/structure/map.csv")
    assert run(repository, "check") == 0
    assert run(repository, "same", "HEAD") == 0
    assert run(repository, "merge") == 0
    assert run(repository, "same", "HEAD") == 0


def test_dry_run_writes_nothing(repository, capsys):
    assert run(repository, "merge", "--dry-run") == 0
    assert "8 modules -> 5: 2 joined" in capsys.readouterr().out
    assert git(repository, "status", "--short") == ""


def test_notes_name_what_was_unified_and_what_becomes_heavier(repository, capsys):
    change(repository, "src/seamark/core/order.py", "import logging\n", "import logging\nimport rich\n")
    assert run(repository, "merge", "--dry-run") == 0
    out = capsys.readouterr().out
    assert "note: seamark.core.offset: T was the same in core.offset and core.order\n" in out
    assert "note: seamark.core.offset: loads rich, which core.limits, core.offset did not\n" in out


@pytest.mark.parametrize(
    ("path", "old", "new", "problem"),
    [
        ("core/order.py", "def sort(", "LIMIT = 4\n\n\ndef sort(", "LIMIT stands for several things: definition in"),
        # Equal, and each has its own contents.
        ("core/limits.py", "# Why", "_KEPT = {}\n# Why", None),
        ("core/order.py", "class Order", "from os import path as LIMIT\n\n\nclass Order", "import of os.path in core"),
        ("core/order.py", "import logging", "import os as logging", "logging stands for several things"),
        ("core/order.py", "import Offset\n", "import Offset as Place\n", "imports Offset of another fragment as Place"),
        ("core/offset.py", "import sort\n", "import sort as order\n", "imports sort of another fragment as order"),
        ("core/order.py", "import logging\n", "from seamark.core import offset\n", "imports another fragment as"),
        ("core/limits.py", "LIMIT = 3", "LIMIT = 3\n\n\ndef list(): ...", "uses the builtin list, which core.limits"),
        ("core/limits.py", "# Why", 'if __name__ == "__main__":\n    pass\n# Why', "two fragments are programs"),
        ("core/limits.py", "# Why", "try:\n    import os\nfinally:\n    pass\n# Why", "imports in a condition"),
        # A module between two fragments.
        ("core/order.py", "import logging\n", "import logging\nimport seamark.offsets.nouns\n", None),
    ],
)  # fmt: skip
def test_merge_that_can_not_be_done_writes_nothing(repository, capsys, path, old, new, problem):
    change(repository, f"src/seamark/{path}", old, new)
    if problem is None and "_KEPT" in new:
        change(repository, "src/seamark/core/order.py", "class Order", "_KEPT = {}\n\n\nclass Order")
        problem = "_KEPT of core.order has a state of its own"
    elif problem is None:
        change(repository, "src/seamark/offsets/nouns.py", "NOUN", "from seamark.core.limits import LIMIT\n\nNOUN")
        problem = "would import each other: core.offset offsets"
    commit(repository)
    assert run(repository, "merge") == 1
    out = capsys.readouterr().out
    assert problem in out
    assert "error: nothing is merged" in out
    assert git(repository, "status", "--short") == ""
