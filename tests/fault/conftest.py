"""Fixtures of the fault tier."""

from __future__ import annotations

import os

import pytest

from seamark.devstack import StackSpec, load_stack, start_stack
from tests.fault.rig import Rig, build_counter


@pytest.fixture(scope="session")
def journal_topics(stack, tmp_path_factory):
    """The journal's topics on the shared stack."""
    rig = Rig(stack, tmp_path_factory.mktemp("init"))
    code, _, err = rig.seamark("init", "--yes")
    assert code == 0, err


@pytest.fixture(params=["kafka", "file"])
def rig(request, stack, tmp_path, journal_topics):
    """A connector that runs, with a journal in Kafka and one in files."""
    rig = Rig(stack, tmp_path, journal=request.param)
    rig.create()
    yield rig
    rig.delete()


@pytest.fixture
def kafka_rig(stack, tmp_path, journal_topics):
    """A connector that runs, with a journal in Kafka."""
    rig = Rig(stack, tmp_path)
    rig.create()
    yield rig
    rig.delete()


@pytest.fixture(scope="session")
def own_stack(tmp_path_factory):
    """Three brokers, two workers and the journal's topics, for those who kill servers or keep Connect rebalancing.

    The modules that use it stand in `TOGETHER` of tests/conftest.py: then there is one of it in a run.
    """
    if file := os.environ.get("SEAMARK_OWN_DEVSTACK"):
        yield load_stack(file)
        return
    # Only the tier that needs the proxies has them built.
    has_proxies = bool(os.environ.get("SEAMARK_TOXIPROXY"))
    spec = StackSpec(brokers=3, workers=2, toxiproxy=has_proxies, broker_doors=has_proxies, proxied_worker=has_proxies)
    with start_stack(spec, name="own") as stack:
        code, _, err = Rig(stack, tmp_path_factory.mktemp("init")).seamark("init", "--yes")
        assert code == 0, err
        yield stack


@pytest.fixture(scope="session")
def count_records(stack):
    """How many records a topic of one partition has; none where there is no such topic yet."""
    return build_counter(stack)
