"""Connector releases are looked for, and what is missing is said."""

from __future__ import annotations

import zipfile

import pytest

from seamark.devstack import command, layout
from seamark.devstack import java as plugins


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder that is searched for releases, and no other."""
    folder = tmp_path / "releases"
    folder.mkdir()
    monkeypatch.setenv("SEAMARK_PLUGINS", str(folder))
    monkeypatch.setenv("SEAMARK_CACHE", str(tmp_path / "cache"))
    dependencies = tmp_path / "dependencies"
    dependencies.mkdir()
    (dependencies / "driver.jar").touch()
    monkeypatch.setattr(plugins, "read_jars", lambda name: dependencies)
    return folder


def write_jar(path, *, manifest):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x", "")
        if manifest:
            archive.writestr("META-INF/services/org.apache.kafka.connect.sink.SinkConnector", "x")


def test_missing_release_is_named_with_the_place_to_put_it(place, tmp_path):
    built = plugins.build_plugins(tmp_path / "out", wanted=frozenset({"jdbc", "s3"}))
    assert built.names == ()
    assert len(built.missing) == 2
    assert "release v6.10.0" in built.missing[0]
    assert str(place) in built.missing[0]


def test_bare_jar_is_laid_out_with_its_dependencies(place, tmp_path):
    write_jar(place / "jdbc-connector-for-apache-kafka-6.10.0.jar", manifest=True)
    built = plugins.build_plugins(tmp_path / "out", wanted=frozenset({"jdbc"}))
    assert built.names == ("jdbc",)
    assert built.has_manifests
    names = sorted(path.name for path in (tmp_path / "out" / "jdbc").iterdir())
    assert names == ["driver.jar", "jdbc-connector-for-apache-kafka-6.10.0.jar"]


def test_unpacked_release_is_taken_whole_and_scanned_where_it_has_no_manifest(place, tmp_path):
    unpacked = place / "s3-connector-for-apache-kafka-3.0.0"
    unpacked.mkdir()
    write_jar(unpacked / "s3-connector-for-apache-kafka-3.0.0.jar", manifest=False)
    built = plugins.build_plugins(tmp_path / "out", wanted=frozenset({"s3"}))
    assert built.names == ("s3",)
    assert not built.has_manifests


def test_what_is_not_wanted_is_not_looked_for(place, tmp_path):
    assert plugins.build_plugins(tmp_path / "out", wanted=frozenset()).missing == ()


def test_dependencies_of_the_connectors_that_are_wanted_are_fetched(place, monkeypatch):
    write_jar(place / "jdbc-connector-for-apache-kafka-6.10.0.jar", manifest=True)
    write_jar(place / "s3-connector-for-apache-kafka-2.15.0.jar", manifest=True)
    fetched = []
    monkeypatch.setattr(plugins, "read_jars", fetched.append)
    plugins.fetch_plugins(frozenset({"jdbc"}))
    assert fetched == ["plugin-jdbc-6.10.0"]


def test_fetch_command_downloads_what_up_needs_and_starts_nothing(place, monkeypatch, capsys):
    write_jar(place / "s3-connector-for-apache-kafka-2.15.0.jar", manifest=True)
    fetched = []
    monkeypatch.setattr(plugins, "read_jars", fetched.append)
    for name in ("kafka_jars", "spark_jars", "find_spark", "read_gateway", "read_toxiproxy"):
        monkeypatch.setattr(layout, name, lambda name=name: fetched.append(name))
    monkeypatch.setattr(layout, "connect_jars", fetched.append)
    words = ["fetch", "--connect-version", "4.3.1", "--connect-version", "3.5.2", "--s3", "--spark", "--toxiproxy"]
    assert command.main(words) == 0
    assert fetched == [
        "kafka_jars", "4.3.1", "3.5.2", "plugin-s3-2.15.0", "read_gateway", "read_toxiproxy", "find_spark", "spark_jars"
    ]  # fmt: skip
    assert "jars and programs are ready" in capsys.readouterr().out
