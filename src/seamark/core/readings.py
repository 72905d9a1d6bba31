"""Asking many at once, with a bounded number of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import copy_context
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from seamark.errors import PartialError, SeamarkError, UnreachableError, UnsettledError

T = TypeVar("T")

# The work is waiting for answers, so threads are cheap. 16 reads the 100 Connect clusters that
# seamark is built for in 7 rounds, and never looks like an attack to a proxy before them.
MAX_THREADS = 16


@dataclass(frozen=True, slots=True)
class FanOut(Generic[T]):
    """Answers and failures by name, each in the order of the calls."""

    results: Mapping[str, T]
    failures: Mapping[str, SeamarkError]


def fan_out(calls: Mapping[str, Callable[[], T]]) -> FanOut[T]:
    """Run all calls, at most 16 at a time. Our own errors are kept by name; any other is a bug and is raised."""
    # One call needs no thread, and its traceback stays readable.
    run_all = _run_here if len(calls) <= 1 else _run_in_threads
    outcomes = run_all(calls)
    results: dict[str, T] = {}
    failures: dict[str, SeamarkError] = {}
    for name, (result, error) in outcomes.items():
        if error is not None:
            failures[name] = error
        else:
            results[name] = result[0]
    return FanOut(results=results, failures=failures)


def read_all(calls: Iterable[tuple[str, Callable[[], T]]]) -> list[T]:
    """Run all calls and return their answers in order; the names are those of what is read.

    Raises:
        SeamarkError: some could not be read. A single failure is raised as it is.
    """
    numbered = {f"{number} {name}": call for number, (name, call) in enumerate(calls)}
    answers = fan_out(numbered)
    if answers.failures:
        raise build_failure({name.partition(" ")[2]: error for name, error in answers.failures.items()})
    return list(answers.results.values())


def build_failure(failures: Mapping[str, SeamarkError]) -> SeamarkError:
    """Return the error for a plan whose resources could not all be read."""
    if len(failures) == 1:
        return next(iter(failures.values()))
    kinds = (UnsettledError, UnreachableError, SeamarkError)
    kind = next(kind for kind in kinds if all(isinstance(error, kind) for error in failures.values()))
    return kind(
        f"can't create a plan: {len(failures)} resources could not be read; no changes were made",
        cause="; ".join(f"{subject}: {error.message}" for subject, error in failures.items()),
        hint="find the problem: seamark doctor",
    )


def _run_here(calls: Mapping[str, Callable[[], T]]) -> dict[str, tuple[tuple[T, ...], SeamarkError | None]]:
    return {name: _run(call) for name, call in calls.items()}


def _run_in_threads(calls: Mapping[str, Callable[[], T]]) -> dict[str, tuple[tuple[T, ...], SeamarkError | None]]:
    # Not at the top: it imports logging, and every command that only prints a help text would pay for both.
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    pool = ThreadPoolExecutor(max_workers=min(MAX_THREADS, len(calls)), thread_name_prefix="seamark-fleet")
    try:
        # Each in a copy of this context, which holds the deadline of the request that the calls belong to.
        futures = {name: pool.submit(copy_context().run, _run, call) for name, call in calls.items()}
        return {name: future.result() for name, future in futures.items()}
    finally:
        # On Ctrl-C nothing new is begun; what runs ends by its own deadline.
        pool.shutdown(wait=True, cancel_futures=True)


def _run(call: Callable[[], T]) -> tuple[tuple[T, ...], SeamarkError | None]:
    # A tuple of one tells an answer of None from no answer.
    try:
        return (call(),), None
    except SeamarkError as error:
        return (), error


class Severity(StrEnum):
    """How bad a finding is, worst first. OK means looked at and fine."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing the doctor looked at.

    `check` is the stable name of the check, `subject` what was looked at, `message` what was
    seen, `fix` the next step; an OK finding needs none.
    """

    check: str
    severity: Severity
    subject: str
    message: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """What was read, and by name what could not be: never a silently short list."""

    items: tuple[T, ...] = ()
    failures: Mapping[str, SeamarkError] = field(default_factory=dict)

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def is_complete(self) -> bool:
        """Whether every place answered."""
        return not self.failures

    def require_complete(self, *, what: str) -> tuple[T, ...]:
        """The items, or a PartialError that names every place that did not answer."""
        if self.failures:
            raise PartialError(
                f"{what} could not be read everywhere: {', '.join(self.failures)} did not respond",
                failures=self.failures,
                hint="find the problem: seamark doctor",
            )
        return self.items
