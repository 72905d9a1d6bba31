"""`fleet-apply`: 500 connectors created, 50 changed, 50 deleted, 100 run, against a bare loop of the same calls."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import httpx2

import seamark
from bench.fixtures.fleets.bare_rest import BareRest, State, is_running
from bench.fixtures.fleets.rounds import RUNNING, Round, build_rounds, write_files
from bench.harness.definition import Bench, BenchError, Leg, Prepared, Ratio, WrongResultError
from seamark.changes.outcome import StepResult
from seamark.changes.setup import make_setup
from seamark.changes.timing import FLEET_PACE, Pace
from seamark.context import open_context
from seamark.devstack import Stack, StackSpec, load_stack, start_stack

SIZE = 500
PREFIX = "bench-"
# What nobody should ever see: that Connect was busy is ours to wait out.
_HIDDEN = "409"
_NAME = re.compile(rf"{PREFIX}\S+")


@dataclass(slots=True)
class Site:
    """A Connect cluster, and the run that is going on there: its files, its journal, what it shall come to."""

    size: int
    bare: BareRest
    folder: Path
    context: Mapping[str, object]
    pace: Pace = FLEET_PACE
    run: str = ""
    rounds: tuple[Round, ...] = ()

    def begin(self) -> None:
        """Clear what the run before left, and lay out a new one with a journal of its own."""
        self.bare.clear(PREFIX)
        self.run = uuid4().hex[:6]
        self.rounds = build_rounds(self.size, prefix=f"{PREFIX}{self.run}", file=str(self.folder / "nothing.txt"))
        journal = {"journal_topic": f"bench-{self.run}", "journal_folder": str(self.folder / f"journal-{self.run}")}
        contexts = {"current": "bench", "contexts": {"bench": {**self.context, **journal}}}
        (self.folder / "seamark.yaml").write_text(json.dumps(contexts))
        make_setup(open_context(environ=self.environ))

    @property
    def environ(self) -> dict[str, str]:
        """The environment in which the run's context counts."""
        return {"SEAMARK_CONFIG": str(self.folder / "seamark.yaml"), "XDG_STATE_HOME": str(self.folder / "state")}


@dataclass(slots=True)
class Told:
    """Everything that a run said, and how long each round took."""

    words: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def opened(self, change: str, *, steps: int) -> None:
        """A change has its id: letters and digits, which say nothing here."""

    def begun(self, number: int, words: str) -> None:
        """A step begins."""
        self.words.append(words)

    def waiting(self, words: str) -> None:
        """Something is waited for."""
        self.words.append(words)

    def ended(self, result: StepResult) -> None:
        """A step ended."""
        if result.error is not None:
            self.failures.append(json.dumps(result.error.as_dict()))

    @contextmanager
    def timed(self, title: str) -> Iterator[None]:
        """Take the time of a part."""
        begin = time.perf_counter()
        yield
        self.seconds[title] = time.perf_counter() - begin


def apply_ours(site: Site) -> Told:
    """Four times: the files are written, planned and applied."""
    told = Told()
    spec = site.folder / f"spec-{site.run}"
    with seamark.Fleet(open_context(environ=site.environ)) as fleet:
        for one in site.rounds:
            write_files(spec, one.wanted, spec=site.run)
            with told.timed(f"{one.title}: plan"):
                planned = fleet.plan(spec)
            with told.timed(f"{one.title}: apply"):
                result = fleet.apply(planned, told, pace=site.pace)
            if not result.is_done:
                told.failures.append(f"{one.title}: {result.ending}, left: {result.left[:3]}")
    return told


def apply_bare(site: Site) -> Told:
    """The same calls by hand."""
    told = Told()
    for one in site.rounds:
        with told.timed(one.title):
            site.bare.go(one)
    return told


def check_fleet(site: Site, told: Told) -> None:
    """Connect has exactly the fleet of the last round, and nobody was told of a 409."""
    if told.failures:
        raise WrongResultError(f"{len(told.failures)} failures, first {told.failures[0]}")
    if loud := [words for words in told.words if _HIDDEN in _NAME.sub("", words)]:
        raise WrongResultError(f"a 409 was shown: {loud[0]}")
    wanted = {one.name: (one.config, one.state) for one in site.rounds[-1].wanted}
    try:
        # Connect shows what it did a little later; the bare leg does not wait for that, and need not.
        site.bare.wait_until(lambda seen: not find_wrong(seen, wanted), "the fleet is as it should be")
    except BenchError:
        wrong = find_wrong(site.bare.read(), wanted)
        raise WrongResultError(f"{len(wrong)} connectors are not as they should be, first {wrong[:1]}") from None


def find_wrong(seen: State, wanted: Mapping[str, tuple[dict[str, str], str]]) -> list[str]:
    """The connectors that are missing, too many, or not as they should be."""
    own = {name: found for name, found in seen.items() if name.startswith(PREFIX)}
    wrong = sorted(own.keys() ^ wanted.keys())
    for name in sorted(own.keys() & wanted.keys()):
        config, state = wanted[name]
        is_so = is_running(own, name) if state == RUNNING else own[name][1] == state
        if own[name][0] != config or not is_so:
            wrong.append(name)
    return wrong


@contextmanager
def open_site(size: int) -> Iterator[Prepared[Site]]:
    """Two real workers. With SEAMARK_DEVSTACK those of a running stack, where only what was made is deleted again."""
    path = os.environ.get("SEAMARK_DEVSTACK")
    if path:
        with _open_on(load_stack(Path(path)), size) as prepared:
            yield prepared
    else:
        with start_stack(StackSpec(brokers=1, workers=2, full_jit=True)) as stack, _open_on(stack, size) as prepared:
            yield prepared


@contextmanager
def _open_on(stack: Stack, size: int) -> Iterator[Prepared[Site]]:
    endpoint = stack.connect["connect"]
    cluster = {"urls": list(endpoint.urls), "worker_config": endpoint.worker_config}
    context = {"kafka": {"bootstrap.servers": stack.kafka.bootstrap_servers}, "connect": {"connect": cluster}}
    versions = {"kafka": stack.kafka.version, "connect": endpoint.version}
    with open_ground(endpoint.urls[0], size=size, context=context) as site:
        yield Prepared(site, pids={server.name: server.pid for server in stack.servers}, versions=versions)


@contextmanager
def open_ground(url: str, *, size: int, context: Mapping[str, object]) -> Iterator[Site]:
    """A folder and a client for one cluster; at the end nothing of the bench is left there."""
    limits = httpx2.Limits(max_connections=FLEET_PACE.writers, max_keepalive_connections=FLEET_PACE.writers)
    with (
        TemporaryDirectory(prefix="seamark-bench-") as folder,
        httpx2.Client(base_url=url, timeout=100.0, trust_env=False, limits=limits) as client,
    ):
        policy = {"policy": {"files": [f"{folder}/**"]}}
        bare = BareRest(client, writers=FLEET_PACE.writers)
        site = Site(size, bare, Path(folder), {**context, **policy})
        try:
            yield site
        finally:
            bare.clear(PREFIX)


def _build_leg(name: str, run: Callable[[Site], Told]) -> Leg[Site, Told]:
    return Leg(name, run, prepare=Site.begin)


BENCH: Bench[Site, Told] = Bench(
    name="fleet-apply",
    compares=(
        "500 connectors created as STOPPED, 50 of them changed, 50 deleted, then 100 created and waited for until they "
        "run, on two workers: four times plan and apply of a folder of files, with the journal in Kafka, against a "
        f"bare loop of the same REST calls, validation included, with the same {FLEET_PACE.writers} writers and "
        "repeated on 409. The figure is bare seconds over our seconds."
    ),
    setup=open_site,
    check=check_fleet,
    legs=(_build_leg("bare", apply_bare), _build_leg("ours", apply_ours)),
    ratios=(Ratio("bare over ours", over="bare", under="ours", bar=0.9),),
    sizes=(SIZE,),
    quick_sizes=(100,),
)
