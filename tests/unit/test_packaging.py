"""What is installed is what is said: version, types, public names."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import seamark

ROOT = Path(__file__).parents[2]


def test_version_is_the_same_everywhere():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert seamark.__version__ == declared == version("seamark")


def test_package_is_typed():
    assert Path(seamark.__file__).with_name("py.typed").exists()


def test_wheel_has_no_fake():
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"][
        "packages"
    ]
    modules = [path.relative_to(ROOT) for package in packages for path in (ROOT / package).rglob("*.py")]
    assert len(modules) > 100
    assert [path for path in modules if "fake" in str(path)] == []


def test_every_public_name_can_be_reached():
    assert all(getattr(seamark, name) is not None for name in seamark.__all__)


def test_unknown_name_is_an_attribute_error():
    assert not hasattr(seamark, "no_such_name")


def test_importing_the_package_loads_no_client():
    said = subprocess.run(
        [sys.executable, "-c", "import seamark, sys; print(*sorted(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout.split()
    assert not {"httpx2", "confluent_kafka", "pydantic", "rich", "click"} & set(said)


def test_locks_name_no_host_and_hash_every_package():
    for lock in sorted((ROOT / "locks").glob("*.txt")):
        text = lock.read_text()
        assert "://" not in text
        packages = [line for line in text.splitlines() if "==" in line and not line.startswith((" ", "#"))]
        assert len(packages) > 30
        assert all(line.endswith("\\") for line in packages)
