"""`fleet-plan`: the plan for 10,000 connectors on 20 clusters against the bare reading of the same."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2

from bench.fixtures.fleets.child import Child
from bench.fixtures.fleets.game import CLUSTERS, Row, build_rows, write_spec
from bench.fixtures.fleets.plan import WARM
from bench.harness.definition import Bench, BenchError, Growth, Leg, Limit, Prepared, Ratio, WrongResultError

GAME = "game"
# One connector for each cluster; the first of them differs.
_WARM_SIZE = len(CLUSTERS)
_MEGABYTE = 1 << 20

Taken = Mapping[str, Any]


@dataclass(slots=True)
class Stage:
    """The running fleet, the files that say how it should be, and the child that waits for its word."""

    signs: frozenset[str]
    running: int
    environ: Mapping[str, str]
    orders: Mapping[str, Mapping[str, Any]]
    waiting: list[Child] = field(default_factory=list)

    def start(self, leg: str) -> None:
        """Start the child of a leg; it loads everything it needs and waits."""
        order = {"leg": leg, "started_at": time.time(), WARM: self.orders[WARM], "fleet": self.orders[GAME]}
        self.waiting.append(Child("bench.fixtures.fleets.plan", order, environ=self.environ))

    def go(self) -> Taken:
        """Let the child work, and give what it said."""
        taken: Taken = self.waiting.pop().go()
        return taken


def check_plan(stage: Stage, taken: Taken) -> None:
    """Every connector was read; and the plan, where there is one, has exactly what differs."""
    if taken["read"] != stage.running:
        raise WrongResultError(f"{taken['read']} connectors were read instead of {stage.running}")
    if not taken["lines"]:
        return
    signs = taken["signs"]
    if len(signs) != len(stage.signs) or set(signs) != stage.signs:
        odd = sorted(stage.signs ^ set(signs))
        raise WrongResultError(f"{len(signs)} changes instead of {len(stage.signs)}, first {odd[:3]}")
    if taken["lines"] < len(signs):
        raise WrongResultError(f"{taken['lines']} lines tell {len(signs)} changes")


def read_gauges(taken: Taken) -> Mapping[str, float]:
    """What a child measured of itself."""
    return {
        "seconds from start to end": taken["life_seconds"],
        "MB at most": taken["peak_bytes"] / _MEGABYTE,
        "MB of its own": taken["work_bytes"] / _MEGABYTE,
    }


@contextmanager
def open_stage(size: int) -> Iterator[Prepared[Stage]]:
    """20 FakeConnect clusters in one process, and a fleet on them that an apply made and people changed a little."""
    fleets = {GAME: build_rows(size), WARM: build_rows(_WARM_SIZE)}
    served = dict.fromkeys(fleets, CLUSTERS)
    with TemporaryDirectory(prefix="seamark-bench-") as folder, Child("bench.fixtures.fleets.serve", served) as servers:
        environ = _write_contexts(Path(folder), servers.said)
        orders = {
            name: {"context": name, "spec": str(Path(folder) / name), "urls": servers.said[name]} for name in fleets
        }
        for name, rows in fleets.items():
            _make_fleet(rows, orders[name], environ)
        stage = Stage(
            signs=frozenset(find_signs(fleets[GAME])),
            running=sum(not row.is_missing for row in fleets[GAME]),
            environ=environ,
            orders=orders,
        )
        try:
            yield Prepared(stage, pids={"clusters": servers.pid})
        finally:
            for child in stage.waiting:
                child.end()


def find_signs(rows: Sequence[Row]) -> set[str]:
    """What the plan must have."""
    return {f"~ {row.name}" for row in rows if row.is_changed} | {f"+ {row.name}" for row in rows if row.is_missing}


def _make_fleet(rows: tuple[Row, ...], order: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Apply the files, then let somebody change and delete a little by hand."""
    write_spec(Path(order["spec"]), rows)
    made = Child("bench.fixtures.fleets.make", order, environ=environ).go()
    if made != {"ending": "done", "steps": len(rows)}:
        raise BenchError(f"the fleet could not be made: {made}")
    with httpx2.Client(timeout=100.0, trust_env=False) as client:
        for row in rows:
            url = f"{order['urls'][row.cluster][0]}/connectors/{row.name}"
            if row.is_changed:
                client.put(f"{url}/config", json=row.build_other_config()).raise_for_status()
            elif row.is_missing:
                client.delete(url).raise_for_status()


def _write_contexts(folder: Path, urls: Mapping[str, Mapping[str, list[str]]]) -> dict[str, str]:
    """A contexts file with both fleets; gives the environment in which it counts."""
    contexts = {
        name: {
            "journal": "file",
            "journal_folder": str(folder / f"journal-{name}"),
            "connect": {
                cluster: {"urls": found, "group_id": cluster, "offsets_topic": f"{cluster}-offsets"}
                for cluster, found in clusters.items()
            },
        }
        for name, clusters in urls.items()
    }
    (folder / "seamark.yaml").write_text(json.dumps({"current": GAME, "contexts": contexts}))
    for name in urls:
        (folder / f"journal-{name}").mkdir(mode=0o700)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("SEAMARK_")}
    return {**kept, "SEAMARK_CONFIG": str(folder / "seamark.yaml"), "XDG_STATE_HOME": str(folder / "state")}


BENCH: Bench[Stage, Taken] = Bench(
    name="fleet-plan",
    compares=(
        "The plan for 10,000 connectors on 20 clusters (FakeConnect, in a process of its own) from a folder of YAML "
        "files. An earlier apply created all of them and is in the journal, a folder; 100 were changed and 50 deleted "
        "by hand since. Against it stand the bare GETs of the same clusters, parsed as JSON. Each run is a process of "
        "its own that has loaded its modules before; a plan is made, validated by Connect, and printed."
    ),
    setup=open_stage,
    check=check_plan,
    legs=(
        Leg("bare", Stage.go, prepare=lambda stage: stage.start("bare")),
        Leg("ours", Stage.go, prepare=lambda stage: stage.start("ours")),
    ),
    # No goal but a guard: what the files, the journal and the comparison cost beside the bare reading.
    ratios=(Ratio("bare over ours", over="bare", under="ours", bar=0.05),),
    sizes=(1_000, 10_000),
    growths=(
        Growth("growth of seconds", leg="ours", bar=1.15),
        Growth("growth of memory", leg="ours", bar=1.15, gauge="MB of its own"),
    ),
    limits=(
        Limit("seconds, start-up included", leg="ours", gauge="seconds from start to end", bar=10.0),
        Limit("memory in MB", leg="ours", gauge="MB at most", bar=600.0),
    ),
    read_gauges=read_gauges,
)
