"""Kafka's own 27 integration cases of the offsets API, through seamark, on Connect 4.3.1, on 3.9.2 and on 3.5.2.

3.5.2 has no such API but its reading part: there seamark writes to the topic or for the group.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from seamark.devstack import StackSpec, start_stack
from seamark.devstack.client import ask
from tests.integration.offset_rig import OffsetRig
from tests.integration.offsets.offsets_api_cases import CASES, EXACTLY_ONCE
from tests.integration.offsets.offsets_api_stage import Kafka

NEWEST, OLDER, OLDEST = "4.3.1", "3.9.2", "3.5.2"
VERSIONS = (NEWEST, OLDER, OLDEST)
# A case waits for servers most of the time: six at once keep two cores busy and no worker from answering.
AT_ONCE = 6
# Clusters of one worker each, whose brokers are the other Kafka cluster for those of the shared stack.
SPEC = StackSpec(brokers=1, workers=1, connect_versions=(OLDER, NEWEST, OLDEST))
TABLE = [(version, name) for version in VERSIONS for name in CASES]


class Place:
    """One Connect cluster: the stack it is of, and the brokers of another."""

    def __init__(self, stack, cluster, *, other, folder):
        self.stack, self.cluster, self.other, self.folder = stack, cluster, other, folder

    def run(self, name):
        """One case, with a fleet of its own."""
        kafka, other = Kafka(self.stack.kafka.bootstrap_servers), Kafka(self.other.kafka.bootstrap_servers)
        rig = OffsetRig(self.stack, self.folder / name, cluster=self.cluster)
        with ExitStack() as cleaning:
            cleaning.callback(kafka.clean, [f"connect-{rig.run}-sink", rig.name("own-group")])
            cleaning.callback(other.clean, [f"connect-{rig.run}-sink"])
            cleaning.callback(rig.close)
            CASES[name](rig, kafka, other)


def turn_exactly_once(stack, cluster, worker):
    """Let a worker write exactly once from now on."""
    file = Path(stack.connect[cluster].worker_config)
    file.write_text(f"{file.read_text()}exactly.once.source.support=enabled\n")
    ask(Path(stack.folder), "restart", worker)


def run_all(stack, own, folder):
    """Every case on every version: {(version, name): future}."""
    outcomes: dict[tuple[str, str], Future] = {}
    older = "connect"
    exactly = {endpoint.version: name for name, endpoint in own.connect.items() if endpoint.version != OLDER}
    for version, cluster in exactly.items():
        turn_exactly_once(own, cluster, f"{version.replace('.', '-')}-worker-1")
    places = {
        (NEWEST, False): Place(stack, "connect", other=own, folder=folder / "newest"),
        (NEWEST, True): Place(own, exactly[NEWEST], other=stack, folder=folder / "newest-exactly-once"),
        (OLDEST, False): Place(stack, "connect-3-5-2", other=own, folder=folder / "oldest"),
        (OLDEST, True): Place(own, exactly[OLDEST], other=stack, folder=folder / "oldest-exactly-once"),
        (OLDER, False): Place(own, older, other=stack, folder=folder / "older"),
        (OLDER, True): Place(own, older, other=stack, folder=folder / "older-exactly-once"),
    }

    def submit(pool, chosen):
        for version, name in chosen:
            place = places[version, name in EXACTLY_ONCE]
            outcomes[version, name] = pool.submit(partial(place.run, name))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        # The longest first: they wait for a deadline.
        order = sorted(TABLE, key=lambda found: "Zombie" not in found[1])
        late = [found for found in order if found[0] == OLDER and found[1] in EXACTLY_ONCE]
        submit(pool, [found for found in order if found not in late])
    turn_exactly_once(own, older, "worker-1")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        submit(pool, late)
    return outcomes


@pytest.fixture(scope="module")
def outcomes(stack, tmp_path_factory):
    """All cases, run at once: what came of each."""
    with start_stack(SPEC, name="offsets-api") as own:
        yield run_all(stack, own, tmp_path_factory.mktemp("offsets-api"))


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("version", "name"), TABLE, ids=lambda found: found)
def test_case_of_kafkas_offsets_api(outcomes, version, name):
    outcomes[version, name].result(timeout=0)


@pytest.mark.timeout(900)
def test_all_cases_were_run(outcomes):
    assert len(CASES) == 27
    assert set(CASES) > EXACTLY_ONCE
    assert set(outcomes) == {(version, name) for version in VERSIONS for name in CASES}
    assert all(found.done() for found in outcomes.values())
    assert len(outcomes) == 81
