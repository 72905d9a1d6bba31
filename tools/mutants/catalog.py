"""The list of mutants in `mutants.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CATALOG = Path(__file__).with_name("mutants.toml")
FEWEST = 100
# The tests that count for the 95 %: they need no server.
FAST_TESTS = ("tests/unit/", "tests/simulation/")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One wrong version of one place in the code.

    `old` occurs exactly once in `module` and is replaced by `new`. `tests` are paths of the unit or simulation tier.
    `killed_by` names tests of another tier, for a mutant that survives the fast tests.
    """

    name: str
    module: str
    old: str
    new: str
    tests: tuple[str, ...]
    killed_by: tuple[str, ...] = ()

    def build_text(self, text: str) -> str:
        """Return the module's text with this mutant.

        Raises:
            ValueError: the anchor doesn't occur exactly once.
        """
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"the anchor occurs {count} times in {self.module}")
        return text.replace(self.old, self.new)


def read_mutants(path: Path = CATALOG) -> tuple[Mutant, ...]:
    """Read the list of mutants."""
    return tuple(_build_mutant(row) for row in tomllib.loads(path.read_text())["mutant"])


def _build_mutant(row: dict[str, Any]) -> Mutant:
    return Mutant(
        name=row["name"],
        module=row["module"],
        old=row["old"],
        new=row["new"],
        tests=tuple(row.get("tests", ())),
        killed_by=tuple(row.get("killed_by", ())),
    )


def find_problems(mutants: Sequence[Mutant], root: Path = ROOT) -> list[str]:
    """Return what is wrong with the list: anchors, tests that don't exist, equal names, too few mutants."""
    problems = [f"{mutant.name}: {problem}" for mutant in mutants for problem in _find_mutant_problems(mutant, root)]
    names = [mutant.name for mutant in mutants]
    problems += [f"{name}: the name is used twice" for name in sorted({one for one in names if names.count(one) > 1})]
    if len(mutants) < FEWEST:
        problems.append(f"the list has {len(mutants)} mutants, fewer than {FEWEST}")
    return problems


def _find_mutant_problems(mutant: Mutant, root: Path) -> list[str]:
    problems = [
        f"test {test} doesn't exist" for test in (*mutant.tests, *mutant.killed_by) if not _has_test(root, test)
    ]
    problems += [f"test {test} is not a fast test" for test in mutant.tests if not test.startswith(FAST_TESTS)]
    problems += [f"test {test} is a fast test" for test in mutant.killed_by if test.startswith(FAST_TESTS)]
    if not mutant.tests and not mutant.killed_by:
        problems.append("no test is named")
    path = root / mutant.module
    if not path.is_file():
        return [*problems, f"{mutant.module} doesn't exist"]
    if mutant.old == mutant.new:
        problems.append("the mutant changes nothing")
    try:
        # A mutant that Python can't parse is killed by any test and shows nothing.
        compile(mutant.build_text(path.read_text()), mutant.module, "exec", dont_inherit=True)
    except (ValueError, SyntaxError) as error:
        problems.append(str(error))
    return problems


def _has_test(root: Path, test: str) -> bool:
    """Whether a file, a folder or a test function (`PATH::NAME`) exists."""
    path, _, name = test.partition("::")
    if not (root / path).exists():
        return False
    return not name or f"def {name.split('[')[0]}(" in (root / path).read_text()
