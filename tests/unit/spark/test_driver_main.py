"""The program of a driver: where it finds seamark."""

from __future__ import annotations

import io
import os
import tarfile

import pytest

from seamark.spark import driver_main
from seamark.spark import packing as spark_pack
from seamark.spark.driver_main import find_environment
from seamark.spark.packing import build_paths

PATH = "spark.executorEnv.PYTHONPATH"


def pack(folder, text=b"1"):
    archive = folder / "seamark-env.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        entry = tarfile.TarInfo("seamark/__init__.py")
        entry.size = len(text)
        packed.addfile(entry, io.BytesIO(text))
    return archive


def test_archive_is_unpacked_once_beside_itself(tmp_path):
    archive = pack(tmp_path)
    found = find_environment(tmp_path, tmp_path / "elsewhere")
    assert (found / "seamark" / "__init__.py").read_text() == "1"
    (found / "seen").touch()
    assert find_environment(tmp_path, tmp_path) == found
    assert (found / "seen").exists()
    # A newer archive has a folder of its own: the files of a driver that runs stay.
    pack(tmp_path, b"2")
    os.utime(archive, ns=(1, 1))
    newer = find_environment(tmp_path, tmp_path)
    assert (newer / "seamark" / "__init__.py").read_text() == "2"
    assert (found / "seamark" / "__init__.py").read_text() == "1"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([archive.name, found.name, newer.name])


def test_what_the_cluster_has_unpacked_is_taken(tmp_path):
    (tmp_path / "seamark-env" / "seamark").mkdir(parents=True)
    assert find_environment(tmp_path / "nowhere", tmp_path) == tmp_path / "seamark-env"


def test_missing_archive_is_named(tmp_path):
    with pytest.raises(SystemExit, match=r"seamark-env\.tar\.gz was not found, neither beside this program"):
        find_environment(tmp_path, tmp_path)


def test_broken_archive_leaves_nothing(tmp_path):
    (tmp_path / "seamark-env.tar.gz").write_bytes(b"no archive")
    with pytest.raises(tarfile.ReadError):
        find_environment(tmp_path, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["seamark-env.tar.gz"]


def test_words_are_those_of_the_pack():
    # The program stands alone, and can't import them.
    assert (spark_pack.FOLDER, spark_pack.ENVIRONMENT_VARIABLE) == (driver_main._FOLDER, driver_main._VARIABLE)


def test_processes_of_the_driver_are_told_where_it_is():
    assert build_paths({PATH: "seamark-env"}, {}) == {}
    environ = {spark_pack.ENVIRONMENT_VARIABLE: "/there"}
    assert build_paths({PATH: "seamark-env"}, environ) == {PATH: f"seamark-env{os.pathsep}/there"}
    assert build_paths({}, environ) == {PATH: "/there"}
