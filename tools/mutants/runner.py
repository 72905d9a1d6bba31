"""Run the tests of one mutant in a copy of `src`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.mutants.catalog import ROOT, Mutant

TIMEOUT_SECONDS = 600
# Exit codes of pytest.
_PASSED, _FAILED = 0, 1


class Verdict(StrEnum):
    """What the tests did with a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    # It counts as a survivor: a slow machine also runs into the limit.
    TIMED_OUT = "timed out"
    # pytest could not run the tests, which shows nothing about the mutant.
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Trial:
    """How the tests ended; `detail` is the first failed test or pytest's last line."""

    verdict: Verdict
    seconds: float
    detail: str = ""


class Overlay:
    """A copy of `src` that the tests import instead of the original."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._folder = Path(tempfile.mkdtemp(prefix="seamark-mutant-"))
        shutil.copytree(root / "src", self._folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
        self._written_at = int(time.time())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def run_mutant(self, mutant: Mutant, *, timeout: float = TIMEOUT_SECONDS) -> Trial:
        """Run a mutant's tests with it in place, and remove it again."""
        if not mutant.tests:
            return Trial(Verdict.SURVIVED, 0.0, "no fast test is named")
        original = (self._root / mutant.module).read_text()
        self._write(mutant.module, mutant.build_text(original))
        try:
            return self.run_tests(mutant.tests, timeout=timeout)
        finally:
            self._write(mutant.module, original)

    def run_tests(self, tests: Sequence[str], *, timeout: float) -> Trial:
        """Run tests on the copy until the first one fails."""
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "--tb=no", "-p", "no:cacheprovider"]
        # The order is fixed, so that two runs of one mutant end at the same test.
        command += ["-p", "no:randomly", *tests]
        began_at = time.monotonic()
        process = subprocess.Popen(
            command,
            cwd=self._root,
            env=self._build_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            return Trial(Verdict.TIMED_OUT, time.monotonic() - began_at)
        finally:
            # What a killed test started ends with its process group.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        return _build_trial(process.returncode, output, time.monotonic() - began_at)

    def _build_environment(self) -> dict[str, str]:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPATH"] = os.pathsep.join((str(self._folder / "src"), str(self._root)))
        # Compiled modules are kept from mutant to mutant, outside of the checkout.
        environment["PYTHONPYCACHEPREFIX"] = str(self._folder / "pycache")
        return environment

    def _write(self, module: str, text: str) -> None:
        """Write a module with a time of its own: Python compares whole seconds and the size with its compiled file."""
        path = self._folder / module
        path.write_text(text)
        self._written_at += 2
        os.utime(path, (self._written_at, self._written_at))


def _build_trial(code: int, output: str, seconds: float) -> Trial:
    lines = [line for line in output.splitlines() if line.strip()]
    failed = next((line for line in lines if line.startswith("FAILED ")), "")
    # An error in a fixture is a failure of pytest's code 1 too.
    failed = failed or next((line for line in lines if line.startswith("ERROR ")), "")
    if code == _FAILED:
        return Trial(Verdict.KILLED, seconds, failed.removeprefix("FAILED ").partition(" - ")[0])
    if code == _PASSED:
        return Trial(Verdict.SURVIVED, seconds, lines[-1] if lines else "")
    return Trial(Verdict.INVALID, seconds, f"pytest exited with {code}: {' | '.join(lines[-3:])}")
