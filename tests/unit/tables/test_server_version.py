"""Which servers pipelines can use."""

from __future__ import annotations

import pytest

from seamark.errors import ConfigurationError
from seamark.tables.postgres.writer import check_server_version


@pytest.mark.parametrize("version", [140_000, 150_018, 180_001])
def test_server_that_has_what_is_needed_is_accepted(version):
    check_server_version(version)


@pytest.mark.parametrize(("version", "name"), [(130_022, "13"), (90_624, "9")])
def test_older_server_is_refused_by_name(version, name):
    with pytest.raises(ConfigurationError, match=f"the server has version {name}$"):
        check_server_version(version)
