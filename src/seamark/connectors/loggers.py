"""The loggers of the workers: read and change their log levels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Self

from seamark.changes.action import LOCKS, Reads, StandaloneStep, StepSeen, action_kind, needs_permission
from seamark.changes.effect import ChangeKind, Effect, FieldChange
from seamark.changes.environment import Environment
from seamark.changes.plan import PlannedChange
from seamark.changes.step import CanNotUndo, Intent, Observed, Step, step_kind
from seamark.connect.api import CONNECT
from seamark.connect.capability import Capability
from seamark.connect.clusters import Clusters
from seamark.connect.loggers import (
    LEVELS,
    ROOT,
    FleetLogger,
    LoggerLevel,
    build_fleet_loggers,
    expect_level,
    find_level,
    is_below,
    rank_name,
)
from seamark.core.readings import FanOut, Reading, fan_out
from seamark.errors import RefusedError, SeamarkError, UnknownOutcomeError, UnreachableError, UsageError
from seamark.policy.permissions import Permission
from seamark.report.words import render_count

if TYPE_CHECKING:
    from seamark.changes.planner import Planner


Levels = Mapping[str, str]
_WORKER, _CLUSTER = "worker", "cluster"


@action_kind("set-logger")
@needs_permission(Permission.OPERATE)
@step_kind("set-logger")
@dataclass(frozen=True, slots=True)
class SetLogger(StandaloneStep):
    """Set log levels: `levels` has them by worker URL, then by logger.

    Connect sets a logger and all loggers below it, so the images contain every level there that differs, and undo
    restores all of them, from the top down. A level can't be removed: a logger that inherited its level gets this level
    explicitly by an undo. Up to 3.9 Connect compares string prefixes, so that `a.Work` also changes `a.Worker`: `extra`
    contains those, and undo is `exact`: it also corrects the other loggers that its own requests change.

    With `scope` "cluster" one request reaches all workers, including those without a known URL; every worker of
    `levels` then has the same. Only the workers of `levels` are checked. `worker` is set if only one worker is meant.
    """

    aspect: ClassVar[str] = "levels"
    # A worker that restarts uses the levels of its own log config again.
    drifts: ClassVar[bool] = True
    # With scope "cluster" the change goes through the config topic, which workers read within a second or two.
    settle_seconds: ClassVar[float] = 15.0

    cluster: str
    logger: str
    levels: Mapping[str, Levels]
    scope: str = _WORKER
    worker: str = ""
    exact: bool = False

    def __post_init__(self) -> None:
        if self.scope not in (_WORKER, _CLUSTER) or not self.levels:
            raise RefusedError(f"{self.subject} is not a step that sets levels", hint="create a new plan")

    @property
    def subject(self) -> str:
        return f"logger/{self.cluster}/{self.logger}" + (f"@{self.worker}" if self.worker else "")

    def describe(self) -> str:
        words = {found.get(self.logger, "") for found in self.levels.values()}
        return f"set {self.subject} to {' and '.join(sorted(words))}"

    @classmethod
    def find_locks(cls, actions: Sequence[Self], reads: Reads) -> Sequence[frozenset[str]]:
        return [frozenset({reads.use(LOCKS).find_loggers(action.cluster)}) for action in actions]

    def build_effect(self, seen: StepSeen) -> Effect:
        before, after = seen.intent.before, seen.intent.after
        workers = [url for url in after if before[url] != after[url]]
        fields = tuple(
            FieldChange(f"{name} on {url}", expect_level(name, before[url]), expect_level(name, after[url]))
            for url in workers
            for name in sorted(before[url].keys() | after[url].keys())
        )
        words = f"changes log levels of {render_count(len(workers), 'worker')}"
        return Effect(ChangeKind.CHANGE, self.subject, words, fields)

    def intend(self, world: Environment) -> Intent:
        known = {url: _read_levels(world, self.cluster, url) for url in self.levels}
        return Intent(
            before={url: self._build_image(world, url, levels) for url, levels in known.items()},
            after={url: dict(wanted) for url, wanted in self.levels.items()},
            extra={url: _find_beside(self.levels[url], levels) for url, levels in known.items()},
        )

    def perform(self, world: Environment, intent: Intent) -> None:
        connect = world.use(CONNECT)(self.cluster)
        has_acted = False
        try:
            for url, name, level in self._acts(world):
                connect.set_logger(name, level, scope=self.scope, url=url)
                has_acted = True
        except SeamarkError as error:
            if not has_acted or isinstance(error, UnknownOutcomeError):
                raise
            raise UnknownOutcomeError(
                f"{self.subject}: some levels were set, others were not", cause=f"{error.message}: {error.cause}"
            ) from error

    def observe(self, world: Environment, intent: Intent) -> Observed:
        now = {url: _read_levels(world, self.cluster, url) for url in self.levels}
        found = {
            _compare(levels, before=intent.before[url], after=intent.after[url], read=self._build_reader(world, url))
            for url, levels in now.items()
        }
        return found.pop() if len(found) == 1 else Observed.BETWEEN

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        told = {url: found for url, found in intent.before.items() if all(found.values())}
        if not told:
            return CanNotUndo("the worker did not report its previous levels")
        levels: Mapping[str, Levels] = {url: found | intent.extra[url] for url, found in told.items()}
        same = len({tuple(sorted(found.items())) for found in levels.values()}) == 1
        scope = self.scope if same and len(levels) == len(intent.before) else _WORKER
        return SetLogger(self.cluster, self.logger, levels, scope=scope, worker=self.worker, exact=True)

    def _acts(self, world: Environment) -> Iterator[tuple[str | None, str, str]]:
        """Return every request to send: worker, logger, level. Parents come before their children."""
        is_one = self.scope == _CLUSTER
        for url, wanted in list(self.levels.items())[: 1 if is_one else None]:
            levels = _spare_others(wanted, _read_levels(world, self.cluster, url)) if self.exact else wanted
            yield from ((None if is_one else url, name, levels[name]) for name in sorted(levels, key=rank_name))

    def _build_image(self, world: Environment, url: str, levels: Levels) -> dict[str, str]:
        """Build the levels of the affected branches, without those that are inherited."""
        read = self._build_reader(world, url)
        wanted = self.levels[url]
        top = [name for name in wanted if not any(is_below(name, other) for other in wanted if other != name)]
        image = {name: read(name, levels) for name in sorted(top, key=rank_name)}
        for name in sorted(levels, key=rank_name):
            if name not in image and expect_level(name, image) not in ("", levels[name]):
                image[name] = levels[name]
        return image

    def _build_reader(self, world: Environment, url: str) -> _Read:
        return _Read(world, self.cluster, url)


@dataclass(frozen=True, slots=True)
class _Read:
    """Reads the effective level of one logger. The list of all loggers omits those that are OFF."""

    world: Environment
    cluster: str
    url: str

    def __call__(self, name: str, levels: Levels) -> str:
        if name in levels:
            return levels[name]
        return self.world.use(CONNECT)(self.cluster).read_logger(name, url=self.url) or find_level(name, levels)


def _read_levels(world: Environment, cluster: str, url: str) -> dict[str, str]:
    return {logger.name: logger.level for logger in world.use(CONNECT)(cluster).read_loggers(url)}


def _compare(levels: Levels, *, before: Levels, after: Levels, read: _Read) -> Observed:
    """Compare a worker's levels with an intent. Loggers that only share the prefix are ignored: they may differ."""
    names = {name for name in before if any(is_below(name, target) for target in after)} | set(after)
    now = {name: read(name, levels) for name in names}
    if all(now[name] == expect_level(name, after) for name in names):
        return Observed.AFTER
    return Observed.BEFORE if all(now[name] == expect_level(name, before) for name in names) else Observed.BETWEEN


def _find_beside(wanted: Levels, levels: Levels) -> dict[str, str]:
    """Return the levels of loggers that a request would change only by their prefix, one for each branch."""
    beside: dict[str, str] = {}
    for name in sorted(levels, key=rank_name):
        if _is_beside(name, wanted) and expect_level(name, beside) != levels[name]:
            beside[name] = levels[name]
    return beside


def _spare_others(wanted: Levels, levels: Levels) -> dict[str, str]:
    """Return the wanted levels, and for loggers that only share their prefix the levels that these inherit."""
    spared = dict(wanted)
    truth = {**levels, **wanted}
    for name in sorted(levels, key=rank_name):
        if name in wanted or not _is_beside(name, spared):
            continue
        own = expect_level(name, wanted) or find_level(name.rpartition(".")[0] or ROOT, truth)
        if own:
            spared[name] = truth[name] = own
    return spared


def _is_beside(name: str, others: Iterable[str]) -> bool:
    """Return whether a name only has one of the others as a string prefix, as `a.Worker` has `a.Work`."""
    return any(name.startswith(other) and not is_below(name, other) for other in others)


_RESTARTS = "a worker that restarts returns to the levels of its own log config"


class Loggers:
    """Every logger of every worker of a context. `set` returns a plan and changes nothing."""

    def __init__(self, clusters: Clusters, *, planner: Callable[[], Planner]) -> None:
        self._clusters = clusters
        self._planner = planner

    def list(self, *, cluster: str | None = None, worker: str | None = None) -> Reading[FleetLogger]:
        """Return all loggers that have a level. A worker that does not respond is in `failures`, as `CLUSTER URL`."""
        items: list[FleetLogger] = []
        failures: dict[str, SeamarkError] = {}
        for name, urls in self._choose(cluster=cluster, workers=(worker,) if worker else ()).items():
            answers = self._read(name, urls)
            items += build_fleet_loggers(name, answers.results)
            failures |= {f"{name} {url}": error for url, error in answers.failures.items()}
        return Reading(items=tuple(items), failures=failures)

    def set(
        self,
        logger: str,
        level: str,
        *,
        cluster: str | None = None,
        workers: Iterable[str] = (),
        all_workers: bool = False,
    ) -> PlannedChange:
        """Plan another level for a logger and everything whose name begins with it.

        `workers` are URLs. `all_workers` is for the whole Connect cluster: from Connect 3.7 on this also reaches
        workers that the context does not name. One of the two is required if a Connect cluster has several workers.

        Raises:
            UsageError: No worker was selected, or the level is invalid.
        """
        word = level.upper()
        if word not in LEVELS:
            raise UsageError(f"invalid log level {level!r}", hint=f"use one of {', '.join(LEVELS)}")
        if not logger:
            raise UsageError("no logger is given", hint="use root for all loggers")
        named = tuple(workers)
        if cluster is None and not named and len(self._clusters.names) > 1:
            raise UsageError(
                f"the context has {len(self._clusters.names)} Connect clusters",
                cause=", ".join(self._clusters.names),
                hint="choose one: --cluster NAME",
            )
        steps: list[SetLogger] = []
        notes: list[str] = []
        for name, urls in self._choose(cluster=cluster, workers=named).items():
            self._refuse_undecided(urls, is_decided=all_workers or bool(named))
            found, silent = self._build_steps(name, logger, word, urls=urls, is_whole=all_workers)
            steps += found
            notes += silent
        return self._planner().plan(f"set logger {logger} to {word}", steps, notes=(*notes, _RESTARTS))

    def _build_steps(
        self, cluster: str, logger: str, level: str, *, urls: Sequence[str], is_whole: bool
    ) -> tuple[Sequence[SetLogger], Sequence[str]]:
        answers = self._read(cluster, urls)
        if not answers.results:
            raise next(iter(answers.failures.values()))
        if answers.failures and not is_whole:
            raise UnreachableError(
                f"can't read the log levels of {', '.join(answers.failures)}",
                cause="; ".join(error.cause or error.message for error in answers.failures.values()),
                hint="exclude this worker, or wait until it responds",
            )
        silent = [f"{url} did not respond: its log level may not be changed" for url in answers.failures]
        wanted = {url: {logger: level} for url in answers.results}
        client = self._clusters.client(cluster)
        if is_whole and client.read_capabilities().has(Capability.CLUSTER_LOGGERS):
            return [SetLogger(cluster, logger, wanted, scope="cluster")], silent
        # One step per worker: if one fails, the others continue.
        return [SetLogger(cluster, logger, {url: levels}, worker=url) for url, levels in wanted.items()], silent

    def _read(self, cluster: str, urls: Sequence[str]) -> FanOut[tuple[LoggerLevel, ...]]:
        client = self._clusters.client(cluster)
        return fan_out({url: partial(client.read_loggers, url) for url in urls})

    def _choose(self, *, cluster: str | None, workers: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
        """Return the selected workers by Connect cluster."""
        names = self._clusters.names if cluster is None else (self._clusters.settings(cluster).name,)
        known = {name: self._clusters.settings(name).urls for name in names}
        if not workers:
            return known
        wanted = {url.rstrip("/") for url in workers}
        found = {name: tuple(url for url in urls if url.rstrip("/") in wanted) for name, urls in known.items()}
        if strangers := wanted - {url.rstrip("/") for urls in found.values() for url in urls}:
            raise UsageError(
                f"the context has no worker {', '.join(sorted(strangers))}",
                cause=f"its workers: {', '.join(url for urls in known.values() for url in urls)}",
                hint="list the workers: seamark workers list",
            )
        return {name: urls for name, urls in found.items() if urls}

    def _refuse_undecided(self, urls: Sequence[str], *, is_decided: bool) -> None:
        if len(urls) > 1 and not is_decided:
            raise UsageError(
                "no worker is selected; a log level belongs to one worker",
                cause=f"the workers are {', '.join(urls)}",
                hint="pass --all-workers or --worker URL",
            )
