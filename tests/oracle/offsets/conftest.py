"""The oracles, each compiled once a session."""

from __future__ import annotations

import pytest

from tests.oracle.offsets.oracle import Oracle, compile_oracle


def start(folder, version):
    compile_oracle(folder, version=version)
    return Oracle(folder, version=version)


@pytest.fixture(scope="session")
def oracle(tmp_path_factory):
    """The newest Connect."""
    program = start(tmp_path_factory.mktemp("oracle"), "4.3.1")
    yield program
    program.close()


@pytest.fixture(scope="session")
def older_oracle(tmp_path_factory):
    """The oldest Connect that is fully supported."""
    program = start(tmp_path_factory.mktemp("older-oracle"), "3.5.2")
    yield program
    program.close()
