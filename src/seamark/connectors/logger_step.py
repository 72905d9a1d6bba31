"""How much workers write into their logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from seamark.changes.action import LOCKS, Reads, StandaloneStep, StepSeen, action_kind, needs_permission
from seamark.changes.effect import Effect, FieldChange, Sign
from seamark.changes.step import CanNotUndo, Intent, Observed, Step, step_kind
from seamark.changes.world import World
from seamark.connect.loggers import ROOT, expect_level, find_level, is_below, rank_name
from seamark.connect.ports import CONNECT
from seamark.errors import RefusedError, SeamarkError, UnknownOutcomeError
from seamark.policy.permission import Permission
from seamark.report.words import render_count

Levels = Mapping[str, str]
_WORKER, _CLUSTER = "worker", "cluster"


@action_kind("set-logger")
@needs_permission(Permission.OPERATE)
@step_kind("set-logger")
@dataclass(frozen=True, slots=True)
class SetLogger(StandaloneStep):
    """Loggers get levels: `levels` holds them by worker URL, then by name.

    Connect sets a logger and everything below it, so the images hold every level there that differs, and undo puts all
    of them back, from above to below. A level can't be taken away: a logger that only followed another one gets, by
    undo, the level that it followed. Up to 3.9 Connect looks at the letters alone, and `a.Work` touches `a.Worker` too:
    `extra` holds those, and undo is `exact`: it puts right what its own requests touch beside what they are for.

    With `scope` "cluster" one request reaches all workers, also those that no URL leads to; every worker of `levels`
    then has the same. What is seen are the workers of `levels`. `worker` is the one that is meant alone.
    """

    aspect: ClassVar[str] = "levels"
    # Every restart of a worker brings back the levels of its own log config.
    drifts: ClassVar[bool] = True
    # With scope "cluster" the word goes through the config topic, which workers read within a second or two.
    settle_seconds: ClassVar[float] = 15.0

    cluster: str
    logger: str
    levels: Mapping[str, Levels]
    scope: str = _WORKER
    worker: str = ""
    exact: bool = False

    def __post_init__(self) -> None:
        if self.scope not in (_WORKER, _CLUSTER) or not self.levels:
            raise RefusedError(f"{self.subject} is not a step that sets levels", hint="make the plan anew")

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
        words = f"changes what {render_count(len(workers), 'worker')} log{'s' if len(workers) == 1 else ''}"
        return Effect(Sign.CHANGE, self.subject, words, fields)

    def intend(self, world: World) -> Intent:
        known = {url: _read_levels(world, self.cluster, url) for url in self.levels}
        return Intent(
            before={url: self._build_image(world, url, levels) for url, levels in known.items()},
            after={url: dict(wanted) for url, wanted in self.levels.items()},
            extra={url: _find_beside(self.levels[url], levels) for url, levels in known.items()},
        )

    def perform(self, world: World, intent: Intent) -> None:
        del intent
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

    def observe(self, world: World, intent: Intent) -> Observed:
        now = {url: _read_levels(world, self.cluster, url) for url in self.levels}
        found = {
            _compare(levels, before=intent.before[url], after=intent.after[url], read=self._build_reader(world, url))
            for url, levels in now.items()
        }
        return found.pop() if len(found) == 1 else Observed.BETWEEN

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        told = {url: found for url, found in intent.before.items() if all(found.values())}
        if not told:
            return CanNotUndo("the worker did not tell the levels it had")
        levels: Mapping[str, Levels] = {url: found | intent.extra[url] for url, found in told.items()}
        same = len({tuple(sorted(found.items())) for found in levels.values()}) == 1
        scope = self.scope if same and len(levels) == len(intent.before) else _WORKER
        return SetLogger(self.cluster, self.logger, levels, scope=scope, worker=self.worker, exact=True)

    def _acts(self, world: World) -> Iterator[tuple[str | None, str, str]]:
        """Every request to be sent: worker, logger, level. What stands above comes before what stands below."""
        is_one = self.scope == _CLUSTER
        for url, wanted in list(self.levels.items())[: 1 if is_one else None]:
            levels = _spare_others(wanted, _read_levels(world, self.cluster, url)) if self.exact else wanted
            yield from ((None if is_one else url, name, levels[name]) for name in sorted(levels, key=rank_name))

    def _build_image(self, world: World, url: str, levels: Levels) -> dict[str, str]:
        """The levels of the branches that are meant, without those that only follow the one above them."""
        read = self._build_reader(world, url)
        wanted = self.levels[url]
        top = [name for name in wanted if not any(is_below(name, other) for other in wanted if other != name)]
        image = {name: read(name, levels) for name in sorted(top, key=rank_name)}
        for name in sorted(levels, key=rank_name):
            if name not in image and expect_level(name, image) not in ("", levels[name]):
                image[name] = levels[name]
        return image

    def _build_reader(self, world: World, url: str) -> _Read:
        return _Read(world, self.cluster, url)


@dataclass(frozen=True, slots=True)
class _Read:
    """Reads the level that one logger works with. The list of all does not show one that is OFF."""

    world: World
    cluster: str
    url: str

    def __call__(self, name: str, levels: Levels) -> str:
        if name in levels:
            return levels[name]
        return self.world.use(CONNECT)(self.cluster).read_logger(name, url=self.url) or find_level(name, levels)


def _read_levels(world: World, cluster: str, url: str) -> dict[str, str]:
    return {logger.name: logger.level for logger in world.use(CONNECT)(cluster).read_loggers(url)}


def _compare(levels: Levels, *, before: Levels, after: Levels, read: _Read) -> Observed:
    """Where a worker stands. Only loggers of the same branch count: others of like names may or may not have moved."""
    names = {name for name in before if any(is_below(name, target) for target in after)} | set(after)
    now = {name: read(name, levels) for name in names}
    if all(now[name] == expect_level(name, after) for name in names):
        return Observed.AFTER
    return Observed.BEFORE if all(now[name] == expect_level(name, before) for name in names) else Observed.BETWEEN


def _find_beside(wanted: Levels, levels: Levels) -> dict[str, str]:
    """The levels of loggers that a request would touch for their letters alone, one for each branch of them."""
    beside: dict[str, str] = {}
    for name in sorted(levels, key=rank_name):
        if _is_beside(name, wanted) and expect_level(name, beside) != levels[name]:
            beside[name] = levels[name]
    return beside


def _spare_others(wanted: Levels, levels: Levels) -> dict[str, str]:
    """The levels that are wanted, and those of loggers beside them, which shall be what they follow."""
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
    """Whether a name only looks as if it stood below one of the others, as `a.Worker` does below `a.Work`."""
    return any(name.startswith(other) and not is_below(name, other) for other in others)
