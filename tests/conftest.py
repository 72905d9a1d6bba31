"""Fixtures that every tier shares."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from seamark.devstack import Stack, StackSpec, load_stack, start_stack

# One stack for the whole run: three brokers, two workers of the newest Connect and of the oldest we support fully,
# PostgreSQL and S3. A test that kills servers starts its own.
SHARED = StackSpec(brokers=3, workers=2, connect_versions=("4.3.1", "3.5.2"), postgres=True, s3=True)


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """The shared stack: the one `SEAMARK_DEVSTACK` names, else one that lives as long as this run."""
    if file := os.environ.get("SEAMARK_DEVSTACK"):
        yield load_stack(file)
        return
    with start_stack(SHARED, name="pytest") as started:
        yield started
