"""The loggers of the workers: what they write into their logs, and how to have more or less of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from seamark.changes.planned import Planned
from seamark.connect.capability import Capability
from seamark.connect.clusters import Clusters
from seamark.connect.loggers import LEVELS, FleetLogger, LoggerLevel, build_fleet_loggers
from seamark.connectors.logger_step import SetLogger
from seamark.core.fanout import FanOut, fan_out
from seamark.core.reading import Reading
from seamark.errors import SeamarkError, UnreachableError, UsageError

if TYPE_CHECKING:
    from seamark.changes.planner import Planner
    from seamark.connect.api import ConnectPort

_RESTARTS = "a worker that restarts goes back to the levels of its own log config"


class Loggers:
    """Every logger of every worker of a context. `set` gives a plan and changes nothing."""

    def __init__(self, clusters: Clusters, *, planner: Callable[[], Planner]) -> None:
        self._clusters = clusters
        self._planner = planner

    def all(self, *, cluster: str | None = None, worker: str | None = None) -> Reading[FleetLogger]:
        """All loggers that have a level. A worker that does not answer is in `failures`, as `CLUSTER URL`."""
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
    ) -> Planned:
        """Plan another level for a logger and everything whose name begins with it.

        `workers` are URLs. `all_workers` is for the whole cluster: from Connect 3.7 on this also reaches workers that
        the context does not name. One of the two is needed where a cluster has several workers.

        Raises:
            UsageError: nobody said which workers, or the level is no level.
        """
        word = level.upper()
        if word not in LEVELS:
            raise UsageError(f"{level!r} is no log level", hint=f"one of {', '.join(LEVELS)}")
        if not logger:
            raise UsageError("no logger is named", hint="root is the one above all")
        named = tuple(workers)
        if cluster is None and not named and len(self._clusters.names) > 1:
            raise UsageError(
                f"the context has {len(self._clusters.names)} Connect clusters",
                cause=", ".join(self._clusters.names),
                hint="say which one: --cluster NAME",
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
    ) -> tuple[list[SetLogger], list[str]]:
        answers = self._read(cluster, urls)
        if not answers.results:
            raise next(iter(answers.failures.values()))
        if answers.failures and not is_whole:
            raise UnreachableError(
                f"can't tell the levels of {', '.join(answers.failures)}",
                cause="; ".join(error.cause or error.message for error in answers.failures.values()),
                hint="leave it out, or wait until it answers",
            )
        silent = [f"{url} did not answer: nobody can tell what becomes of its level" for url in answers.failures]
        wanted = {url: {logger: level} for url in answers.results}
        client = self._clusters.client(cluster)
        if is_whole and client.read_capabilities().has(Capability.CLUSTER_LOGGERS):
            return [SetLogger(cluster, logger, wanted, scope="cluster")], silent
        # One step a worker: where one fails, the others go on.
        return [SetLogger(cluster, logger, {url: levels}, worker=url) for url, levels in wanted.items()], silent

    def _read(self, cluster: str, urls: Sequence[str]) -> FanOut[tuple[LoggerLevel, ...]]:
        client = self._clusters.client(cluster)
        return fan_out({url: _bind(client, url) for url in urls})

    def _choose(self, *, cluster: str | None, workers: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
        """The workers that are meant, by cluster."""
        names = self._clusters.names if cluster is None else (self._clusters.settings(cluster).name,)
        known = {name: self._clusters.settings(name).urls for name in names}
        if not workers:
            return known
        wanted = {url.rstrip("/") for url in workers}
        found = {name: tuple(url for url in urls if url.rstrip("/") in wanted) for name, urls in known.items()}
        if strangers := wanted - {url.rstrip("/") for urls in found.values() for url in urls}:
            raise UsageError(
                f"the context names no worker {', '.join(sorted(strangers))}",
                cause=f"it names {', '.join(url for urls in known.values() for url in urls)}",
                hint="seamark workers list shows them",
            )
        return {name: urls for name, urls in found.items() if urls}

    def _refuse_undecided(self, urls: Sequence[str], *, is_decided: bool) -> None:
        if len(urls) > 1 and not is_decided:
            raise UsageError(
                "which workers? A level belongs to one worker",
                cause=f"there are {', '.join(urls)}",
                hint="--all-workers, or --worker URL",
            )


def _bind(client: ConnectPort, url: str) -> Callable[[], tuple[LoggerLevel, ...]]:
    return lambda: client.read_loggers(url)
