"""What can be asked of a Connect cluster, one method each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Self, TypeVar

import httpx2

from seamark.connect import requests, wire
from seamark.connect.answers import HttpResponse, RequestFailure
from seamark.connect.caller import Caller, FailoverUrls, Timing
from seamark.connect.capability import Capabilities, Capability, build_capabilities
from seamark.connect.model import (
    ConfigKey,
    Connector,
    ConnectorStatus,
    LoggerLevel,
    OffsetsChange,
    Plugin,
    Validation,
    Wait,
    Worker,
    WorkerHealth,
)
from seamark.connect.readiness import ReadConfigNames, Readiness
from seamark.connect.requests import Request
from seamark.connect.shared_reads import SharedConfigReads
from seamark.connect.transport import Transport
from seamark.context.urls import build_worker_id
from seamark.core.offsets import Offset
from seamark.core.time import find_deadline
from seamark.errors import NotFoundError, SeamarkError, UnknownOutcomeError, UnreachableError, UnsupportedError


def build_clock_skew(date: str, *, began_at: float, ended_at: float) -> float | None:
    """How far ahead the worker's clock is, in seconds, negative where it is behind; None where the answer has no date.

    A Date has whole seconds, cut off, and was written somewhere between the question and the answer. What lies inside
    that doubt counts as no skew at all.
    """
    try:
        said = parsedate_to_datetime(date).timestamp()
    except ValueError:
        return None
    earliest, latest = said - ended_at, said + 1.0 - began_at
    if earliest <= 0.0 <= latest:
        return 0.0
    return round(earliest if earliest > 0 else latest, 1)


T = TypeVar("T")

# During a rolling upgrade workers come back newer; a minute is short beside that and long beside a command.
_CAPABILITIES_LAST_SECONDS = 60.0
_MOST_WORKERS_AT_ONCE = 8


def _nothing(_body: bytes) -> None:
    """The answer says it is done and nothing more."""


class ConnectClient:
    """A Connect cluster through its REST API.

    Any worker may answer; the one that did is asked first the next time. Every call ends: with a value, or with an
    error of seamark's tree that says whether something may have been changed. Thread-safe. Close it, or use `with`.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        cluster: str = "connect",
        username: str | None = None,
        password: str | None = None,
        ca_file: str | None = None,
        verify: bool = True,
        timing: Timing | None = None,
        transport: httpx2.BaseTransport | None = None,
        read_config_names: ReadConfigNames | None = None,
    ) -> None:
        """Open nothing yet; the first call connects. `transport` replaces the network in tests.

        `read_config_names` reads the names of all connectors from the config topic.
        """
        self.cluster = cluster
        self.timing = timing or Timing()
        workers = FailoverUrls(urls, cluster=cluster)
        self._transport = Transport(
            workers.urls, username=username, password=password, ca_file=ca_file, verify=verify, transport=transport
        )
        self._caller = Caller(workers, self._transport, timing=self.timing, cluster=cluster)
        self._ready = Readiness(
            self._caller,
            self._transport,
            timing=self.timing,
            cluster=cluster,
            read_config_names=read_config_names,
        )
        self._lock = threading.Lock()
        self._capabilities: tuple[float, Capabilities] | None = None
        self._configs = SharedConfigReads(self._read_one_config, self._read_all_configs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        """Where it leads; no credentials."""
        return f"ConnectClient({self.urls!r}, cluster={self.cluster!r})"

    @property
    def urls(self) -> tuple[str, ...]:
        """The workers' URLs."""
        return self._caller.workers.urls

    def close(self) -> None:
        """Close every connection."""
        self._transport.close()

    def waits(self) -> tuple[Wait, ...]:
        """The calls that have not ended yet, and what was answered so far. May be asked from any thread."""
        return self._caller.waits() + self._ready.waits()

    # --- reads -------------------------------------------------------------------------------------------------

    def read_connectors(self) -> tuple[Connector, ...]:
        """The whole fleet with config and status, in one call that does not wait for the herder.

        A connector that was created a moment ago and has no status yet is not in it.
        """
        return self._ask(requests.fleet(), lambda body: wire.build_fleet(body, cluster=self.cluster))

    def read_names(self) -> tuple[str, ...]:
        """The names of all connectors, of those without a status too."""
        return self._ask(requests.names(), wire.build_names)

    def read_statuses(self) -> dict[str, ConnectorStatus]:
        """The status of every connector that has one, in one call."""
        return self._ask(requests.statuses(), wire.build_statuses)

    def read_connector(self, name: str) -> Connector:
        """One connector. Its status is None until the status topic has it."""
        connector = self._ask(requests.info(name), lambda body: wire.build_connector(body, cluster=self.cluster))
        try:
            status = self.read_status(name)
        except NotFoundError:
            return connector
        return Connector(connector.name, connector.cluster, connector.type, connector.config, status)

    def read_status(self, name: str) -> ConnectorStatus:
        """Read the state of a connector from the status topic. After a create it is temporarily not found."""
        return self._ask(requests.status(name), wire.build_status)

    def read_config(self, name: str) -> dict[str, str]:
        """A connector's config, secrets in clear unless it uses references. Many who ask at once share one reading."""
        return self._configs.read(name)

    def _read_one_config(self, name: str) -> dict[str, str]:
        return self._ask(requests.config(name), wire.build_config)

    def _read_all_configs(self, *, elsewhere: bool) -> dict[str, dict[str, str]]:
        if elsewhere:
            # The last in the order is another worker than the one that answered last, where there are several.
            with suppress(SeamarkError, wire.MalformedBodyError):
                answer = self._ready.ask_once(requests.configs(), url=self._caller.workers.order()[-1])
                return wire.build_configs(answer.body)
        return self._ask(requests.configs(), wire.build_configs)

    def read_offsets(self, name: str, url: str | None = None) -> tuple[Offset, ...]:
        """A connector's offsets as any worker tells them, or the one at `url`; from 3.5 on.

        A worker lists the partitions first and reads its topic to the end then: behind a reset by another worker, its
        answer names what is forgotten, with null. It has read by then, so a second answer holds only nulls that last.
        """
        found = self._read_offsets_once(name, url)
        return found if all(one.offset is not None for one in found) else self._read_offsets_once(name, url)

    def _read_offsets_once(self, name: str, url: str | None) -> tuple[Offset, ...]:
        return self._ask(requests.offsets(name), wire.build_offsets, url=url, needs=Capability.READ_OFFSETS)

    def read_topics(self, name: str) -> tuple[str, ...]:
        """The topics a connector has used since the list was last reset."""
        return self._ask(requests.topics(name), wire.build_topics)

    def read_workers(self) -> tuple[Worker, ...]:
        """Every worker by its own answer. One that does not answer has an `error`."""
        with ThreadPoolExecutor(max_workers=min(len(self.urls), _MOST_WORKERS_AT_ONCE)) as pool:
            return tuple(pool.map(self._read_worker, self.urls))

    def read_any_worker(self) -> Worker:
        """Any one worker, without its URL.

        Raises:
            UnreachableError: no worker answers.
        """
        return self._ask(requests.root(), lambda body: wire.build_worker(body, cluster=self.cluster, url=""))

    def find_silent(self, workers: Sequence[str], *, members: Collection[str] | None = None) -> tuple[str, ...]:
        """Return those of these workers, by worker_id, that are not known to be alive; then URLs of ours that hang.

        With `members`, the worker IDs of the worker group, a worker is alive while it is a member; one that the context
        lists must answer too, because a worker that hangs stays a member until its session ends. One of ours that
        answers and isn't a member is returned too, whatever it ran: partitioned from the brokers, it was removed from
        its group, its tasks were given to others, and it stores what it still holds when the partition ends. Without
        members, only those that the context lists can be known to be alive, by any answer. Only URLs of the context are
        called: a worker_id is what someone wrote into the status topic.
        """
        ours = {build_worker_id(url): url for url in self.urls}
        with ThreadPoolExecutor(max_workers=_MOST_WORKERS_AT_ONCE) as pool:
            answers = dict(zip(ours, pool.map(self._knock, ours.values()), strict=True))
        failed = {worker: answer for worker, answer in answers.items() if isinstance(answer, RequestFailure)}
        alive = (ours.keys() if members is None else frozenset(members)) - failed.keys()
        silent = [worker for worker in workers if worker.lower() not in alive]
        hanging = [worker for worker, answer in failed.items() if answer.is_silence]
        # A URL can be an alias or a load balancer, and then it is not a worker ID. If one of them is a member's, all
        # are taken for worker IDs.
        is_by_id = members is not None and not ours.keys().isdisjoint(members)
        removed = [worker for worker in ours if worker not in alive and worker not in failed] if is_by_id else []
        return tuple(dict.fromkeys([*silent, *hanging, *removed]))

    def _knock(self, url: str) -> HttpResponse | RequestFailure:
        seconds = self.timing.connect_seconds
        return self._transport.send(url, requests.root(), connect_seconds=seconds, read_seconds=seconds)

    def read_capabilities(self) -> Capabilities:
        """Return what every worker that answers can do; asked again after a minute.

        While a step sends its request, what is known is enough: the step read it when it looked, and asking the
        workers again can take longer than the request may wait (45.7 s were seen with one worker that hung).

        Raises:
            UnreachableError: no worker answers.
        """
        with self._lock:
            known = self._capabilities
        if known is not None and (
            find_deadline() is not None or time.monotonic() - known[0] < _CAPABILITIES_LAST_SECONDS
        ):
            return known[1]
        workers = self.read_workers()
        if not any(worker.is_up for worker in workers):
            # No worker responded at once; the call with retries either finds one or explains the failure.
            workers = (self.read_any_worker(),)
        capabilities = build_capabilities(self.cluster, [worker.version for worker in workers if worker.is_up])
        with self._lock:
            self._capabilities = (time.monotonic(), capabilities)
        return capabilities

    def read_plugins(self, url: str | None = None, *, connectors_only: bool = True) -> tuple[Plugin, ...]:
        """The plugins of any worker, or of the one at `url`. Workers need not have the same.

        Without `connectors_only`, also transformations, predicates and converters; not from workers older than 3.2.
        """
        return self._ask(requests.plugins(connectors_only=connectors_only), wire.build_plugins, url=url)

    def read_password_keys(self, plugin: str) -> frozenset[str]:
        """Return the keys that a plugin types as PASSWORD: a connector, a transformation, a predicate or a converter.

        Raises:
            UnsupportedError: a worker is older than 3.2 (KIP-769).
            NotFoundError: the worker doesn't have the plugin.
        """
        return self._ask(requests.plugin_config(plugin), wire.build_password_keys, needs=Capability.PLUGIN_CONFIG)

    def read_config_keys(self, plugin: str) -> tuple[ConfigKey, ...]:
        """Return the config keys that a plugin defines. The plugin isn't started, and no config is sent to it.

        Raises:
            UnsupportedError: a worker is older than 3.2 (KIP-769).
            NotFoundError: the worker doesn't have the plugin.
        """
        return self._ask(requests.plugin_config(plugin), wire.build_config_keys, needs=Capability.PLUGIN_CONFIG)

    def read_health(self, url: str | None = None) -> WorkerHealth:
        """What a worker says of itself, from 3.9 on."""
        return self._ask(requests.health(), wire.build_health, url=url, needs=Capability.HEALTH)

    def read_loggers(self, url: str | None = None) -> tuple[LoggerLevel, ...]:
        """The loggers of any worker, or of the one at `url`."""
        return self._ask(requests.loggers(), wire.build_loggers, url=url)

    def read_logger(self, name: str, url: str | None = None) -> str | None:
        """The level that a logger works with; None where the worker has none of that name yet.

        The list of all does not show those that are OFF, from 4.0 on.
        """
        try:
            return self._ask(requests.logger(name), wire.build_level, url=url)
        except NotFoundError:
            return None

    def validate_config(self, plugin: str, config: Mapping[str, str]) -> Validation:
        """What the plugin says of a config. Changes nothing."""
        return self._ask(requests.validate(plugin, config), wire.build_validation)

    # --- writes ------------------------------------------------------------------------------------------------

    def create_connector(self, name: str, config: Mapping[str, str], *, initial_state: str | None = None) -> Connector:
        """Create a connector. Connect says "created" before it runs, and before every worker knows of it.

        `initial_state` is RUNNING, PAUSED or STOPPED, from 3.7 on.

        Raises:
            AlreadyExistsError: there is one of that name.
        """
        request = requests.create(name, config, initial_state=initial_state)
        needs = None if initial_state is None else Capability.INITIAL_STATE
        return self._ask(request, lambda body: wire.build_connector(body, cluster=self.cluster), needs=needs)

    def put_config(self, name: str, config: Mapping[str, str]) -> Connector:
        """Give a connector this config, or create it. The same config again restarts it: see `is_same_config`."""
        return self._ask(
            requests.put_config(name, config), lambda body: wire.build_connector(body, cluster=self.cluster)
        )

    def patch_config(self, name: str, changes: Mapping[str, str | None]) -> Connector:
        """Change single keys of a config, from 3.8 on. None removes a key."""
        return self._ask(
            requests.patch_config(name, changes),
            lambda body: wire.build_connector(body, cluster=self.cluster),
            needs=Capability.PATCH_CONFIG,
        )

    def delete_connector(self, name: str) -> None:
        """Delete a connector. Its offsets and a sink's group stay; a connector of the same name resumes from them."""
        self._ask(requests.delete(name), _nothing)

    def pause(self, name: str) -> None:
        """Ask for PAUSED. Tasks keep their places; it takes effect later."""
        self._ask(requests.change_state(name, "pause"), _nothing)

    def resume(self, name: str) -> None:
        """Ask for RUNNING. It takes effect later."""
        self._ask(requests.change_state(name, "resume"), _nothing)

    def stop(self, name: str) -> None:
        """Ask for STOPPED, from 3.5 on. Tasks are taken away; they may still be shutting down when this returns."""
        self._ask(requests.change_state(name, "stop"), _nothing, needs=Capability.STOP)

    def restart(self, name: str, *, include_tasks: bool = False, only_failed: bool = False) -> None:
        """Restart a connector; with `include_tasks` its tasks too, from 3.0 on."""
        needs = Capability.RESTART_TASKS if include_tasks or only_failed else None
        request = requests.restart(name, include_tasks=include_tasks, only_failed=only_failed)
        self._ask(request, _nothing, needs=needs)

    def restart_task(self, name: str, task: int) -> None:
        """Restart one task. Of a stopped connector Connect says "later" for ever: that ends at the deadline."""
        self._ask(requests.restart_task(name, task), _nothing)

    def patch_offsets(self, name: str, offsets: Sequence[Offset]) -> OffsetsChange:
        """Change the offsets of a stopped connector, from 3.6 on. Partitions that are not named keep theirs.

        Raises:
            RejectedError: the connector is not stopped, or the offsets are not of its kind.
            UnknownOutcomeError: some of the partitions may have been changed.
        """
        request = requests.patch_offsets(name, offsets)
        return self._ask(request, wire.build_offsets_change, needs=Capability.WRITE_OFFSETS)

    def delete_offsets(self, name: str) -> OffsetsChange:
        """Forget every offset of a stopped connector, from 3.6 on. For a sink this deletes its consumer group."""
        return self._ask(requests.delete_offsets(name), wire.build_offsets_change, needs=Capability.WRITE_OFFSETS)

    def set_logger(self, name: str, level: str, *, scope: str = "worker", url: str | None = None) -> tuple[str, ...]:
        """Set a log level; gives the loggers it touched.

        `scope` is worker (any one, or the one at `url`) or cluster, from 3.7 on: older workers would take it for worker
        without a word, and then no logger is named.
        """
        needs = Capability.CLUSTER_LOGGERS if scope == "cluster" else None
        return self._ask(
            requests.set_logger(name, level, scope=scope),
            lambda body: wire.build_names(body) if body.strip() else (),
            needs=needs,
            url=url,
        )

    # --- how -------------------------------------------------------------------------------------------------

    def _ask(
        self,
        request: Request,
        decode: Callable[[bytes], T],
        *,
        url: str | None = None,
        needs: Capability | None = None,
    ) -> T:
        if needs is not None and request.writes:
            self.read_capabilities().require(needs, doing=request.doing)
        try:
            answer = self._ready.call(request, url=url)
        except (NotFoundError, UnsupportedError):
            # A read changes nothing, so that it is sent first: the versions of all workers are asked only to explain.
            if needs is not None and not request.writes:
                self.read_capabilities().require(needs, doing=request.doing)
            raise
        try:
            return decode(answer.body)
        except wire.MalformedBodyError as error:
            raise self._build_malformed(request, answer, error) from error

    def _build_malformed(self, request: Request, answer: HttpResponse, error: wire.MalformedBodyError) -> SeamarkError:
        what = f"{request.doing} in Connect cluster {self.cluster}"
        cause = f"{answer.status}, but the body is not a response of Connect: {error}"
        context = {"cluster": self.cluster}
        if request.writes:
            hint = "check the state before you try again"
            message = f"it is unknown whether this was done: {what}"
            return UnknownOutcomeError(message, cause=cause, hint=hint, context=context)
        hint = "check that the URL leads to a Connect worker"
        return UnreachableError(f"can't {what}", cause=cause, hint=hint, context=context)

    def _read_worker(self, url: str) -> Worker:
        try:
            began_at = time.time()
            answer = self._caller.ask_once(requests.root(), url=url)
            skew = build_clock_skew(answer.date, began_at=began_at, ended_at=time.time())
            return wire.build_worker(answer.body, cluster=self.cluster, url=url, clock_skew_seconds=skew)
        except (SeamarkError, wire.MalformedBodyError) as error:
            words = error.cause if isinstance(error, SeamarkError) else f"not a response of Connect: {error}"
            return Worker(cluster=self.cluster, url=url, error=words.removeprefix(f"{url}: "))
