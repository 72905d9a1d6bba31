"""How much workers write into their logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from seamark.change.step import CanNotUndo, Intent, Observed, Step
from seamark.change.world import World
from seamark.errors import RefusedError, SeamarkError, UnknownOutcomeError
from seamark.model.logger import ROOT, expect_level, find_level, is_below, rank_name
from seamark.model.plan import StepData

Levels = Mapping[str, str]
_WORKER, _CLUSTER = "worker", "cluster"


@dataclass(frozen=True, slots=True)
class SetLogger:
    """Loggers get levels: `levels` holds them by worker URL, then by name.

    Connect sets a logger and everything whose name begins with it. So the images hold every such name whose level
    differs, and undo puts all of them back, the shortest names first. A level can't be taken away: a logger that only
    followed another one gets, by undo, the level that it followed.

    With `scope` "cluster" one request reaches all workers, also those that no URL leads to; every worker of `levels`
    then has the same. What is seen are the workers of `levels`. `worker` is the one that is meant alone.
    """

    kind: ClassVar[str] = "set-logger"
    aspect: ClassVar[str] = "levels"
    # Every restart of a worker brings back the levels of its own log config.
    drifts: ClassVar[bool] = True
    acts: ClassVar[bool] = True
    # With scope "cluster" the word goes through the config topic, which workers read within a second or two.
    settle_seconds: ClassVar[float] = 15.0

    cluster: str
    logger: str
    levels: Mapping[str, Levels]
    scope: str = _WORKER
    worker: str = ""

    @property
    def subject(self) -> str:
        return f"logger/{self.cluster}/{self.logger}" + (f"@{self.worker}" if self.worker else "")

    def describe(self) -> str:
        words = {found.get(self.logger, "") for found in self.levels.values()}
        return f"set {self.subject} to {' and '.join(sorted(words))}"

    def intend(self, world: World) -> Intent:
        before = {url: self._read_image(world, url) for url in self.levels}
        return Intent(before=before, after={url: dict(wanted) for url, wanted in self.levels.items()})

    def perform(self, world: World, intent: Intent) -> None:
        del intent
        connect = world.connect(self.cluster)
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
        before: Mapping[str, Levels] = {url: found for url, found in intent.before.items() if all(found.values())}
        if not before:
            return CanNotUndo("the worker did not tell the levels it had")
        same = len({tuple(sorted(found.items())) for found in before.values()}) == 1
        scope = self.scope if same and len(before) == len(intent.before) else _WORKER
        return SetLogger(self.cluster, self.logger, before, scope=scope, worker=self.worker)

    def to_data(self, *, lane: str = "", always: bool = False) -> StepData:
        levels = {url: dict(found) for url, found in self.levels.items()}
        arguments = {
            "cluster": self.cluster,
            "logger": self.logger,
            "levels": levels,
            "scope": self.scope,
            "worker": self.worker,
        }
        return StepData(self.kind, self.subject, arguments, lane=lane, always=always)

    @classmethod
    def from_data(cls, data: StepData) -> Self:
        step = cls(**data.arguments)
        if step.scope not in (_WORKER, _CLUSTER) or not step.levels:
            raise RefusedError(f"{data.subject} is not a step that sets levels", hint="make the plan anew")
        return step

    def _acts(self, world: World) -> Iterator[tuple[str | None, str, str]]:
        """Every request to be sent: worker, logger, level. What stands above comes before what stands below."""
        is_one = self.scope == _CLUSTER
        for url, wanted in list(self.levels.items())[: 1 if is_one else None]:
            # Several levels are those of an undo, which must not leave others touched by the way.
            known = _read_levels(world, self.cluster, url) if len(wanted) > 1 else {}
            levels = _spare_others(wanted, known)
            yield from ((None if is_one else url, name, levels[name]) for name in sorted(levels, key=rank_name))

    def _read_image(self, world: World, url: str) -> dict[str, str]:
        """The levels that may be touched, without those that only follow the one before them."""
        levels = _read_levels(world, self.cluster, url)
        read = self._build_reader(world, url)
        top = [name for name in self.levels[url] if not any(_begins(name, other) for other in self.levels[url])]
        image = {name: read(name, levels) for name in sorted(top, key=rank_name)}
        for name in sorted(levels, key=rank_name):
            above = [kept for kept in image if _begins(name, kept)]
            if above and name not in image and levels[name] != image[max(above, key=rank_name)]:
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
        return self.world.connect(self.cluster).read_logger(name, url=self.url) or find_level(name, levels)


def _read_levels(world: World, cluster: str, url: str) -> dict[str, str]:
    return {logger.name: logger.level for logger in world.connect(cluster).read_loggers(url)}


def _compare(levels: Levels, *, before: Levels, after: Levels, read: _Read) -> Observed:
    """Where a worker stands. Only loggers of the same branch count: others of like names may or may not have moved."""
    names = {name for name in before if any(is_below(name, target) for target in after)} | set(after)
    now = {name: read(name, levels) for name in names}
    if all(now[name] == expect_level(name, after) for name in names):
        return Observed.AFTER
    return Observed.BEFORE if all(now[name] == expect_level(name, before) for name in names) else Observed.BETWEEN


def _spare_others(wanted: Levels, known: Iterable[str]) -> dict[str, str]:
    """The levels, and those of loggers that a request for another one would touch for its letters alone."""
    levels = dict(wanted)
    for name in sorted(known, key=rank_name):
        touching = [other for other in levels if _begins(name, other)]
        own = expect_level(name, wanted)
        if name not in levels and touching and own and levels[max(touching, key=rank_name)] != own:
            levels[name] = own
    return levels


def _begins(name: str, other: str) -> bool:
    """Whether a request for `other` may touch `name`, which is not the same. Connect looks at the letters alone."""
    return name != other and (other == ROOT or name.startswith(other))
