"""Spark is an extra: without it everything else works, and asking for it says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

import seamark.spark
from seamark.errors import ConfigurationError


def test_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr(seamark.spark, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match="pyspark and pyarrow") as caught:
        _ = seamark.spark.open_session
    assert caught.value.hint == "run pip install '.[spark]' in a checkout of seamark"


def test_unknown_name_is_an_attribute_error():
    assert not hasattr(seamark.spark, "no_such_name")


def test_command_line_does_not_load_spark():
    said = subprocess.run(
        [sys.executable, "-c", "import seamark.cli.main, seamark.spark, sys; print(*sorted(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout.split()
    assert not {"pyspark", "pyarrow", "confluent_kafka"} & set(said)
