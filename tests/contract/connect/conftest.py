"""Each case is written once and runs on every target that can give it.

A case takes the fixture `target`. Without a marker it runs on the fake and on both real clusters. `fake_only` keeps it
to the fake, `needs(capability)` leaves out real clusters that are too old, `old_only` runs it on a Connect 3.5.2, the
fake's and the real one. Nothing is skipped: what a target can't give is not collected for it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seamark.connect.capability import Capability, build_capabilities
from seamark.connect.client import ConnectClient
from seamark.devstack import Stack
from tests.contract.connect.targets import FAKE, FAKE_OLD, REAL_NEW, REAL_OLD, Target, TargetSpec
from tests.fakes.connect import FakeConnect


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "target" in metafunc.fixturenames:
        specs = choose_targets(metafunc.definition)
        metafunc.parametrize("target", specs, ids=[spec.id for spec in specs], indirect=True)


def choose_targets(item: Any) -> list[TargetSpec]:
    """The targets of a case, by its markers."""
    if item.get_closest_marker("fake_only"):
        return [FAKE]
    if item.get_closest_marker("old_only"):
        return [FAKE_OLD, REAL_OLD]
    needed = [Capability[mark.args[0]] for mark in item.iter_markers("needs")]
    return [
        spec
        for spec in (FAKE, REAL_NEW, REAL_OLD)
        if all(build_capabilities(spec.id, [spec.version]).has(capability) for capability in needed)
    ]


@pytest.fixture(scope="session")
def shared_sources(stack: Stack) -> Iterator[dict[str, str]]:
    """The shared source of each real cluster, by target; deleted when all cases are done."""
    names: dict[str, str] = {}
    yield names
    for spec in (REAL_NEW, REAL_OLD):
        if spec.id in names:
            with ConnectClient(stack.connect[str(spec.cluster)].urls) as client:
                client.delete_connector(names[spec.id])


@pytest.fixture
def target(
    request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    """A Connect cluster to try a case on."""
    spec: TargetSpec = request.param
    # Workers run as the same user, so they can read and write below the test's own folder.
    if spec.cluster is not None:
        # Asked for here and not in the signature: cases on the fake need no stack.
        endpoint = request.getfixturevalue("stack").connect[spec.cluster]
        shared = request.getfixturevalue("shared_sources")
        found = Target(spec, endpoint.urls, tmp_path, shared=shared, shared_folder=tmp_path_factory.getbasetemp())
        yield found
        found.close()
        return
    mark = request.node.get_closest_marker("fake")
    setup = {"version": spec.version, "workers": 2, "status_lag_seconds": 0.05} | (mark.kwargs if mark else {})
    with FakeConnect(**setup) as fake:
        found = Target(spec, fake.urls, tmp_path, fake)
        yield found
        fake.faults.clear()
        found.close()


@pytest.fixture
def fake(target: Target) -> FakeConnect:
    """The fake behind a `fake_only` case."""
    assert target.fake is not None
    return target.fake


def pytest_collection_finish(session: pytest.Session) -> None:
    """Write what was collected to the file that `SEAMARK_CONTRACT_CATALOGUE` names; see catalogue.py."""
    path = os.environ.get("SEAMARK_CONTRACT_CATALOGUE")
    if not path:
        return
    cases = [
        {
            "case": item.originalname,
            "file": item.path.name,
            "target": item.callspec.params["target"].id,
            "quirks": sorted(number for mark in item.iter_markers("quirk") for number in mark.args),
        }
        for item in session.items
        if isinstance(item, pytest.Function) and "target" in getattr(getattr(item, "callspec", None), "params", {})
    ]
    Path(path).write_text(json.dumps(cases))
