"""A port on which nobody listens, and the worker group as it is read."""

import socket

import pytest


@pytest.fixture
def free_port():
    # Bound but not listening: a connection is refused, and nobody else can take the port meanwhile.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.fixture(autouse=True)
def without_worker_group():
    """Reading the worker group is what is tested here."""
