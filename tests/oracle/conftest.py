"""The oracle, compiled once a session."""

from __future__ import annotations

import pytest

from tests.oracle.oracle import Oracle, compile_oracle


@pytest.fixture(scope="session")
def oracle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("oracle")
    compile_oracle(folder)
    program = Oracle(folder)
    yield program
    program.close()
