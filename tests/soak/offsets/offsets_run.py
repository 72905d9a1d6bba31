"""The soak of offset changes: many owners at once, answers that are lost, servers that die."""

from __future__ import annotations

import random
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

from confluent_kafka import Producer

from seamark.devstack.client import ask
from tests.integration.offsets.test_topic_route import build_plugin
from tests.soak.chaos import Chaos
from tests.soak.offsets.brokers import GROUPS, Brokers
from tests.soak.offsets.ledger import CommitLedger, Ledger
from tests.soak.offsets.offset_lane import OffsetLane
from tests.soak.offsets.owners import Site
from tests.soak.offsets.positions import FileSink, IdleGroup, PlainGroup
from tests.soak.offsets.rest import Rest
from tests.soak.offsets.sources import CountingSource, FileSource, IdleSource
from tests.soak.progress import report_progress
from tests.soak.proxy import CUT, ERROR, GATEWAY, LOST, UNHEARD, Proxy

# A change sends up to three requests: with this every second change has one whose answer is lost. Where the request
# itself is lost, nobody knows it for as long as it could still land, so these are fewer.
SPOIL_SHARE = 0.22
SPOILS = (LOST, CUT, ERROR, GATEWAY) * 3 + (UNHEARD,)


# The kinds of the lanes, over and over.
OWNERS = (
    FileSource,
    FileSink,
    PlainGroup,
    FileSource,
    CountingSource,
    FileSource,
    FileSink,
    PlainGroup,
    CountingSource,
)


def build_spoil(rng):
    """What becomes of the answers to requests of this run's connectors."""

    def spoil(name, verb):
        del verb
        return rng.choice(SPOILS) if name.startswith("soak-") and rng.random() < SPOIL_SHARE else ""

    return spoil


def add_plugin(stack, folder):
    """Give the workers the connector whose keys REST spells another way."""
    built = folder / "ordered-source"
    build_plugin(stack.kafka.libs, built)
    lines = Path(stack.connect["connect"].worker_config).read_text().splitlines()
    path = next(line.partition("=")[2] for line in lines if line.startswith("plugin.path="))
    shutil.copytree(built, Path(path) / built.name, dirs_exist_ok=True)
    for number, _ in enumerate(stack.connect["connect"].urls, start=1):
        ask(Path(stack.folder), "restart", f"worker-{number}")


def begin_all(lanes):
    """All owners and their journals, a few at a time: two cores do not start twenty at once."""
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(lane.begin) for lane in lanes]:
            done.result()


def run_lanes(lanes, chaos, seconds):
    """All lanes, for so long or until somebody ends this process with SIGTERM: then too everything is checked."""
    begun, over, told = time.monotonic(), threading.Event(), threading.Event()
    former = signal.signal(signal.SIGTERM, lambda *_: over.set())
    more = lambda: Counter(servers=sum(chaos.counts.values()))  # noqa: E731
    threading.Thread(target=report_progress, args=(lanes, begun, told, more), daemon=True).start()
    try:
        with ThreadPoolExecutor(len(lanes)) as pool:
            running = [pool.submit(lane.run_until, over) for lane in lanes]
            # Little by little: a signal may come to any thread, and is acted upon when this one wakes.
            while time.monotonic() < begun + seconds and not over.wait(1):
                pass
            over.set()
            chaos.end()
            for done in running:
                done.result()
    finally:
        told.set()
        signal.signal(signal.SIGTERM, former)
    return time.monotonic() - begun


def find_strangers(site, lanes):
    """What nobody was to touch and somebody did (I5)."""
    idle = (site.idle_source, site.idle_group)
    wrong = [f"I5: {one.owner} was touched: {one.hold()}" for one in idle if not one.is_untouched()]
    ours = {one.name for one in (*idle, *(lane.owner for lane in lanes))}
    strange = {name for name in site.ledger.names() if name.startswith("soak-")} - ours
    return wrong + [f"I5: somebody wrote offsets for {name}" for name in sorted(strange)]


def soak_offsets(stack, *, minutes, seed, lanes, servers_every, resume_share):
    """Run it. Gives what was counted, the violations, and how long it took.

    `servers_every` is the mean time in seconds from when all servers run until one is killed; with 0 none is.
    `resume_share` is the share of resumes that are disturbed too.
    """
    rng = random.Random(seed)
    with ExitStack() as exits:
        folder = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="seamark-soak-")))
        proxies = [exits.enter_context(Proxy(url, spoil=build_spoil(rng))) for url in stack.connect["connect"].urls]
        add_plugin(stack, folder)
        brokers = exits.enter_context(closing(Brokers(stack)))
        ledger = exits.enter_context(Ledger(stack, brokers, stack.connect["connect"].offsets_topic))
        commits = exits.enter_context(CommitLedger(stack, brokers, GROUPS))
        # What is numbered must stand in the log in its order, also where a broker is slow to answer.
        config = {"bootstrap.servers": stack.kafka.bootstrap_servers, "enable.idempotence": True, "log_level": 0}
        producer = Producer(config)
        site = Site(stack, Rest(stack.connect["connect"].urls), ledger, commits, brokers, folder, producer)
        site.idle_source, site.idle_group = IdleSource(site, rng), IdleGroup(site, rng)
        for idle in (site.idle_source, site.idle_group):
            idle.begin()
        owners = [OWNERS[number % len(OWNERS)](site, random.Random(seed + number)) for number in range(lanes)]
        groups = [site.idle_group.group]
        chaos = Chaos(stack, proxies=proxies, groups=groups, brokers=brokers, rng=rng, every_seconds=servers_every)
        made = [
            OffsetLane(
                owner,
                journal="file" if number % 4 == 3 else "kafka",
                seed=seed + number,
                proxies=proxies,
                chaos=chaos,
                resume_share=resume_share,
            )
            for number, owner in enumerate(owners)
        ]
        begin_all(made)
        groups += [owner.group for owner in owners if hasattr(owner, "group")]
        print(f"{len(made)} owners are there", flush=True)
        with chaos:
            seconds = run_lanes(made, chaos, minutes * 60)
        violations = [violation for lane in made for violation in lane.violations]
        violations += find_strangers(site, made)
        if chaos.trouble:
            violations.append(f"the servers were left in peace too early: {chaos.trouble}")
        for owner in (*owners, site.idle_source):
            owner.end()
    counts = sum((lane.counts for lane in made), Counter())
    counts["server kills"] = sum(chaos.counts.values())
    counts.update({f"killed: {kind}": count for kind, count in chaos.counts.items()})
    counts["slowest resume"] = round(max(lane.slowest_seconds for lane in made))
    return counts, violations, seconds
