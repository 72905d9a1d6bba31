"""A Connect worker of a stack is ready once its herder answers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from seamark.devstack.servers.connect import _has_started
from tests.fakes.connect import FakeConnect, Page


@pytest.mark.parametrize("version", ["4.3.1", "3.9.0", "3.8.1", "3.5.2"])
def test_a_worker_is_ready_when_it_has_read_its_config_topic(version):
    with FakeConnect(version=version, herder_wait_seconds=0.1) as fake:
        fake.add_connector("a")
        port = int(fake.urls[0].rpartition(":")[2])
        running = SimpleNamespace(server=SimpleNamespace(port=port, version=version))
        assert _has_started(running)
        fake.restart()
        assert not _has_started(running)
        fake.finish_start()
        fake.faults.add(match="GET *", times=1, do=Page(404))
        assert not _has_started(running)
        assert _has_started(running)
        fake.kill(0)
        assert not _has_started(running)
