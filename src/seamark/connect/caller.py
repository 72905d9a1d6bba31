"""One call from its first attempt to its answer: fail-over, pauses and the deadline."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from seamark.connect.answers import FAILURE_RULES, HttpResponse, Judgement, Phase, Verdict, is_unknown, judge
from seamark.connect.model import Wait
from seamark.connect.requests import Request
from seamark.connect.transport import Transport
from seamark.core.time import Deadline, find_deadline, read_clock
from seamark.errors import (
    DeadlineError,
    InvalidSettingError,
    MissingSettingError,
    SeamarkError,
    UnknownOutcomeError,
    UnreachableError,
    UsageError,
)


@dataclass(frozen=True, slots=True)
class Timing:
    """Every limit of a call. None of them can be switched off.

    `deadline_seconds` is the time in which attempts are begun. A read is cut off there, but gets a second in any case.
    A write that was begun gets its full `herder_seconds`, because cutting it off would only make its outcome unknown:
    it ends at the latest after `deadline_seconds + connect_seconds + herder_seconds`.
    """

    # A worker on the same network accepts within milliseconds; SYN retries come at 1 s and 3 s, so 5 s sees two.
    connect_seconds: float = 5.0
    # Snapshot reads (fleet, status, plugins) do not queue; ten thousand connectors are written in a few seconds.
    read_seconds: float = 30.0
    # What queues on the herder's one thread is given up by Connect itself after 90 s (not configurable). Asking
    # for less would turn its answer into silence; 10 s more cover the hop from a follower to the leader.
    herder_seconds: float = 100.0
    # A rebalance of a large cluster ends within seconds; kcctl gives up after 30 s and users report that as too short.
    deadline_seconds: float = 60.0
    first_pause_seconds: float = 0.1
    # The herder ticks within a second or two; asking more rarely than every 3 s only makes people wait.
    longest_pause_seconds: float = 3.0
    # When no worker accepts a connection: try each worker, pause, try each once more. A worker takes longer to restart
    # than an operator watches a prompt, so that waiting for the whole deadline would not help.
    rounds: int = 2

    def __post_init__(self) -> None:
        """Refuse what would make a call endless.

        Raises:
            UsageError: a limit is not a positive number.
        """
        for name in self.__slots__:
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"{name} must be a positive number", hint="pass a finite number of seconds")

    def pauses(self) -> Iterator[float]:
        """Pauses that double up to the longest, each shortened by chance so that many callers do not come at once."""
        pause = self.first_pause_seconds
        while True:
            yield pause * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
            pause = min(pause * 2, self.longest_pause_seconds)


class FailoverUrls:
    """URLs in the order to try them. Remembers the one that answered, so a dead first one costs once, not always."""

    def __init__(self, urls: Sequence[str], *, cluster: str) -> None:
        if not urls:
            raise MissingSettingError(
                f"Connect cluster {cluster} has no URL",
                hint="set the URL of at least one worker, such as http://connect-1:8083",
                context={"cluster": cluster},
            )
        self.urls: tuple[str, ...] = tuple(dict.fromkeys(_check_url(url, cluster=cluster) for url in urls))
        self._lock = threading.Lock()
        self._good = 0

    def order(self) -> tuple[str, ...]:
        """Every URL, the one that answered last in front."""
        with self._lock:
            good = self._good
        return self.urls[good:] + self.urls[:good]

    def remember(self, url: str) -> None:
        """This one answered."""
        with self._lock:
            self._good = self.urls.index(url)


def _check_url(url: str, *, cluster: str) -> str:
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise InvalidSettingError(
            f"a URL of Connect cluster {cluster} can't be used",
            cause="it must be http:// or https:// with a host",
            hint="write it like http://connect-1:8083",
            context={"cluster": cluster},
        )
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        # Naming the URL here would put the password into the message.
        raise InvalidSettingError(
            f"a URL of Connect cluster {cluster} contains more than an address",
            cause="it contains credentials, a query or a fragment",
            hint="set username and password in the context",
            context={"cluster": cluster},
        )
    return url.rstrip("/")


# What an attempt gets that begins just before the deadline. With less, the last words of a storm of 409s would be our
# own impatience; with more, the deadline would be none.
_SHORTEST_SECONDS = 1.0
_LOOK_FIRST = "check the state before you try again"
_NOT_CONNECTED = FAILURE_RULES[Phase.CONNECTING]
_TOO_LATE = FAILURE_RULES[Phase.TOO_LATE]


@dataclass(slots=True)
class _Progress:
    """What one call has been through so far."""

    doing: str
    began_at: float
    # The deadline of the request that the call belongs to. It counts for the reads of a step too: one that ends after
    # it would only be followed by a request that must not be sent.
    deadline: Deadline | None
    attempts: int = 0
    rechecked: bool = False
    # The last thing each worker said, in the order they were asked.
    last_words: dict[str, str] = field(default_factory=dict)
    # The first answer of an attempt that may have changed something; "" while there is none. No later answer settles
    # it: a rejection says that its own attempt did not happen, and nothing about an earlier one.
    may_have_acted: str = ""
    # What the last attempt that was sent met.
    last: Judgement | None = None
    # Rounds over all workers in which not one of them accepted a connection.
    dead_rounds: int = 0
    round_had_answer: bool = False

    def note(self, url: str, request: Request, judgement: Judgement) -> None:
        if judgement.rule is _TOO_LATE:
            self.last_words.setdefault(url, describe(judgement))
            return
        self.attempts += 1
        self.last = judgement
        self.last_words[url] = describe(judgement)
        if not self.may_have_acted and is_unknown(request, judgement):
            self.may_have_acted = f"{url}: {describe(judgement)}"
        if judgement.rule is not _NOT_CONNECTED:
            self.round_had_answer = True

    def end_round(self) -> None:
        self.dead_rounds = 0 if self.round_had_answer else self.dead_rounds + 1
        self.round_had_answer = False


class Caller:
    """Send one request until it has an outcome. Thread-safe; keeps the worker that responded last and pending calls."""

    def __init__(
        self,
        workers: FailoverUrls,
        transport: Transport,
        *,
        timing: Timing,
        cluster: str,
        now: Callable[[], float] = read_clock,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        """`now` and `sleep` replace the machine's clock in tests."""
        self.workers = workers
        self._now = now
        self._sleep = sleep or time.sleep
        self._transport = transport
        self._timing = timing
        self._cluster = cluster
        # By identity. Each thread adds and removes its own entry; a reader works on a copy.
        self._pending: dict[int, _Progress] = {}

    def waits(self) -> tuple[Wait, ...]:
        """The calls that have not ended yet. May be asked from any thread."""
        now = self._now()
        return tuple(
            Wait(
                self._cluster,
                progress.doing,
                now - progress.began_at,
                next(reversed(list(progress.last_words.values())), ""),
            )
            for progress in list(self._pending.values())
        )

    def call(self, request: Request, *, url: str | None = None) -> HttpResponse:
        """The answer of any worker, or of the one at `url` alone.

        Raises:
            NotFoundError, AlreadyExistsError, RejectedError, AccessError, UnsupportedError: Connect said no.
            UnknownOutcomeError: a write was sent and may have been carried out.
            DeadlineError: it was "later" until the deadline.
            UnreachableError: no worker responds.
        """
        with self._going_on(request) as progress:
            return self._call(request, progress, url=url)

    def _call(self, request: Request, progress: _Progress, *, url: str | None) -> HttpResponse:
        pauses = self._timing.pauses()
        while True:
            # Each round asks every worker at most once; the pause stands between rounds and after a "later".
            for worker in (url,) if url else self.workers.order():
                judgement, answer = self._attempt(worker, request, progress)
                if answer is not None:
                    if url is None:
                        self.workers.remember(worker)
                    return answer
                if not judgement.rule.elsewhere or self._remaining(progress) <= 0:
                    break
            progress.end_round()
            self._pause(request, judgement, progress, seconds=next(pauses))

    def ask_once(self, request: Request, *, url: str) -> HttpResponse:
        """The answer of one worker to a single attempt; anything but "done" is raised."""
        with self._going_on(request) as progress:
            judgement, answer = self._attempt(url, request, progress)
            if answer is None:
                raise self._build_error(request, judgement, progress, judgement.rule.error)
            return answer

    @contextmanager
    def _going_on(self, request: Request) -> Iterator[_Progress]:
        progress = _Progress(request.doing, self._now(), find_deadline())
        self._pending[id(progress)] = progress
        try:
            yield progress
        finally:
            del self._pending[id(progress)]

    def _attempt(self, url: str, request: Request, progress: _Progress) -> tuple[Judgement, HttpResponse | None]:
        remaining = self._remaining(progress)
        limit = self._timing.herder_seconds if request.queues else self._timing.read_seconds
        outcome = self._transport.send(
            url,
            request,
            connect_seconds=min(self._timing.connect_seconds, max(remaining, _SHORTEST_SECONDS)),
            read_seconds=limit if request.writes else min(limit, max(remaining, _SHORTEST_SECONDS)),
            may_send=self._build_check(request, progress),
        )
        judgement = judge(request, outcome)
        if judgement.verdict is Verdict.DONE and isinstance(outcome, HttpResponse):
            return judgement, outcome
        progress.note(url, request, judgement)
        if judgement.verdict is not Verdict.TRY_AGAIN:
            raise self._build_error(request, judgement, progress, judgement.rule.error)
        if judgement.rule.once:
            if progress.rechecked:
                raise self._build_error(request, judgement, progress, judgement.rule.error)
            progress.rechecked = True
        return judgement, None

    def _pause(self, request: Request, judgement: Judgement, progress: _Progress, *, seconds: float) -> None:
        """Wait before the next round, or raise because there can be none."""
        if progress.dead_rounds >= self._timing.rounds:
            raise self._build_error(request, judgement, progress, UnreachableError)
        if self._remaining(progress) < seconds:
            raise self._build_error(request, judgement, progress, DeadlineError)
        self._sleep(seconds)

    def _remaining(self, progress: _Progress) -> float:
        own = progress.began_at + self._timing.deadline_seconds - self._now()
        return own if progress.deadline is None else min(own, progress.deadline.remaining)

    def _build_check(self, request: Request, progress: _Progress) -> Callable[[], bool] | None:
        """Return what is asked right before a byte is sent; None for a read that nothing depends on.

        The pause before the attempt, or the making of a connection, may have taken minutes where the process was
        stopped. Meanwhile another process may have taken the change over.
        """
        if not request.writes and progress.deadline is None:
            return None
        return lambda: self._remaining(progress) > 0

    def _build_error(
        self, request: Request, judgement: Judgement, progress: _Progress, kind: type[SeamarkError]
    ) -> SeamarkError:
        context = {"cluster": self._cluster}
        if request.subject:
            context["name"] = request.subject
        said = "; ".join(f"{url}: {words}" for url, words in progress.last_words.items())
        what = f"{request.doing} in Connect cluster {self._cluster}"
        late = judgement.rule is _TOO_LATE
        # An attempt that was not sent says nothing of what to do.
        last = progress.last if late and progress.last is not None else judgement
        if progress.may_have_acted:
            more = "" if progress.may_have_acted in said else f"{progress.may_have_acted}; then "
            return UnknownOutcomeError(
                f"it is unknown whether this was done: {what}",
                cause=f"{more}{said}",
                hint=(last.rule.hint if is_unknown(request, last) else "") or _LOOK_FIRST,
                context=context,
            )
        if kind is DeadlineError:
            elapsed = self._now() - progress.began_at
            limit = f"it was not ready within {self._timing.deadline_seconds:g} s"
            return DeadlineError(
                f"can't {what}: {'the deadline passed; nothing more was sent' if late else limit}",
                cause=f"asked {progress.attempts} times in {elapsed:.1f} s; last answer of {said}",
                hint=last.rule.hint or "wait until the workers have rebalanced, then run the command again",
                context=context,
            )
        return kind(f"can't {what}", cause=said, hint=judgement.rule.hint, context=context)


def describe(judgement: Judgement) -> str:
    """What the other side said, with its status."""
    words = judgement.text or f"({judgement.rule.name})"
    return f"{judgement.status} {words}" if judgement.status else words
