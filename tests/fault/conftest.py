"""Fixtures of the fault tier."""

from __future__ import annotations

import pytest

from seamark.devstack import StackSpec, start_stack
from tests.fault.rig import Rig

ON_OWN_STACK = ("test_brokers_die_midway.py", "test_like_real_connect.py")


def pytest_xdist_make_scheduler(config, log):
    """Have one process run all that is done on the own stack, from the beginning, and share the rest out.

    (`--dist loadgroup` is for that, but xdist 3.8 does not find its marks with pytest 9.2.)
    """
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415 - not there where nobody runs in parallel

    class OwnStackFirst(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return "own stack" if any(module in nodeid for module in ON_OWN_STACK) else nodeid

    return OwnStackFirst(config, log)


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

    The modules that use it stand in `ON_OWN_STACK`: then there is one of it in a run.
    """
    with start_stack(StackSpec(brokers=3, workers=2), name="own") as stack:
        code, _, err = Rig(stack, tmp_path_factory.mktemp("init")).seamark("init", "--yes")
        assert code == 0, err
        yield stack
