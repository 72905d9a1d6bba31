"""`python -m tools.coverage [ARGUMENT…]`: the lines of each package that the unit tier runs.

Without arguments the whole unit tier runs, and the exit code is 1 if `changes` or `offsets` are below 92 %. Arguments
are those of pytest, such as a folder of tests; then the figures are printed only. This module is also the plugin of
pytest that notes the lines: coverage.py isn't among the locked dependencies, and a count of lines per package doesn't
need it. Lines that run in child processes aren't counted.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "seamark"
TESTS = "tests/unit"
LIMITS = {"changes": 92.0, "offsets": 92.0}
# The folder to which each process of pytest writes its lines.
VARIABLE = "SEAMARK_COVERAGE"

Lines = Mapping[str, frozenset[int]]


@dataclass(frozen=True, slots=True)
class Share:
    """How many lines of a package ran."""

    package: str
    lines: int
    covered: int

    @property
    def percent(self) -> float:
        """The covered lines in percent."""
        return 100.0 * self.covered / self.lines if self.lines else 100.0


class LineTracer:
    """Notes which lines run below a folder.

    A function is traced until each of its lines has run once, so that the cost of the trace falls during a run.
    """

    def __init__(self, folder: Path) -> None:
        self._prefix = f"{folder}{os.sep}"
        # By the identity of a code object, because functions of two files can be equal. The object is kept, so that no
        # other one gets its identity.
        self._missing: dict[int, tuple[CodeType, set[int]]] = {}
        self._previous: tuple[Any, Any] = (None, None)
        self.seen: dict[str, set[int]] = defaultdict(set)

    def start(self) -> None:
        """Trace this thread and all that start later."""
        self._previous = (sys.gettrace(), threading.gettrace())
        threading.settrace(self._enter)
        sys.settrace(self._enter)

    def stop(self) -> None:
        """Trace as before."""
        own, threads = self._previous
        sys.settrace(own)
        threading.settrace(threads)

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        del event, argument
        code = frame.f_code
        if not code.co_filename.startswith(self._prefix):
            return None
        if id(code) not in self._missing:
            self._missing[id(code)] = (code, {line for _, _, line in code.co_lines() if line})
        if not self._missing[id(code)][1]:
            return None
        self._note(code, frame.f_lineno)
        return self._step

    def _step(self, frame: FrameType, event: str, argument: Any) -> Any:
        del argument
        if event == "line":
            self._note(frame.f_code, frame.f_lineno)
        return self._step

    def _note(self, code: CodeType, line: int) -> None:
        self._missing[id(code)][1].discard(line)
        self.seen[code.co_filename].add(line)


def find_lines(path: Path) -> frozenset[int]:
    """Return the lines of a module that can run.

    What only type checkers read doesn't count: blocks of `if TYPE_CHECKING`, and bodies that are `...`.
    """
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    unread = {line for node in ast.walk(tree) for line in _find_unread(node)}
    return frozenset(_list_lines(compile(tree, str(path), "exec", dont_inherit=True))) - unread


def _find_unread(node: ast.AST) -> range:
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return range(node.body[0].lineno, (node.body[-1].end_lineno or 0) + 1)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value is ...:
        return range(node.lineno, node.lineno + 1)
    return range(0)


def _list_lines(code: CodeType) -> Iterator[int]:
    yield from (line for _, _, line in code.co_lines() if line)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _list_lines(constant)


def build_shares(seen: Lines, folder: Path = SOURCE) -> tuple[Share, ...]:
    """Return the share of each package; modules beside the packages count as one of the folder's name."""
    lines: dict[str, int] = defaultdict(int)
    covered: dict[str, int] = defaultdict(int)
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).parts
        package = parts[0] if len(parts) > 1 else folder.name
        known = find_lines(path)
        lines[package] += len(known)
        covered[package] += len(known & seen.get(str(path), frozenset()))
    return tuple(Share(package, lines[package], covered[package]) for package in sorted(lines))


def find_misses(shares: Sequence[Share], limits: Mapping[str, float]) -> list[str]:
    """Return a line for each package below its limit."""
    return [
        f"{share.package}: {share.percent:.1f} % of lines covered, expected at least {limits[share.package]:g} %"
        for share in shares
        if share.package in limits and share.percent < limits[share.package]
    ]


def format_shares(shares: Sequence[Share]) -> str:
    """Return a table of packages."""
    total = Share("all", sum(share.lines for share in shares), sum(share.covered for share in shares))
    rows = [f"{one.package:<14} {one.lines:>7,} {one.covered:>8,} {one.percent:>7.1f}" for one in (*shares, total)]
    return "\n".join([f"{'package':<14} {'lines':>7} {'covered':>8} {'percent':>7}", *rows])


def read_seen(folder: Path) -> Lines:
    """Read what the processes of a run have written."""
    seen: dict[str, set[int]] = defaultdict(set)
    for path in folder.glob("*.json"):
        for name, lines in json.loads(path.read_text(encoding="utf-8")).items():
            seen[name].update(lines)
    return {name: frozenset(lines) for name, lines in seen.items()}


_TRACER = LineTracer(SOURCE)
# At import, not in a hook: conftest.py files import most of seamark before the first hook of a plugin.
if VARIABLE in os.environ:
    _TRACER.start()


def pytest_unconfigure() -> None:
    """Write the lines of this process, which is one of several with `-n`."""
    if folder := os.environ.get(VARIABLE):
        _TRACER.stop()
        seen = {name: sorted(lines) for name, lines in _TRACER.seen.items()}
        (Path(folder) / f"{os.getpid()}.json").write_text(json.dumps(seen), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests, print the shares, and return 1 if a test failed or a package is below its limit."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    with tempfile.TemporaryDirectory(prefix="seamark-coverage-") as folder:
        # A traced test can take longer than the usual limit of a test.
        command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-n", "2", "-o", "timeout=900"]
        done = subprocess.run([*command, *(words or [TESTS])], cwd=ROOT, env=_build_environment(folder), check=False)
        shares = build_shares(read_seen(Path(folder)))
    print(format_shares(shares))
    misses = [] if words else find_misses(shares, LIMITS)
    for miss in misses:
        print(f"error: {miss}", file=sys.stderr)
    return 1 if misses or done.returncode else 0


def _build_environment(folder: str) -> dict[str, str]:
    # In the environment, because a process of `-n` loads plugins of the command line after the conftest.py files.
    paths = [str(SOURCE.parent), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, VARIABLE: folder, "PYTEST_PLUGINS": "tools.coverage", "PYTHONPATH": os.pathsep.join(paths)}


if __name__ == "__main__":
    sys.exit(main())
