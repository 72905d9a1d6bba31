"""What importing the package costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ["ruamel.yaml", "cryptography", "pydantic", "platformdirs", "httpx2", "confluent_kafka", "rich"]


def loaded_after(code: str) -> set[str]:
    program = f"import sys\n{code}\nprint(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


def test_the_package_loads_nothing_until_a_name_is_used() -> None:
    modules = loaded_after("import seamark.context")
    assert not modules & set(HEAVY)
    assert {name for name in modules if name.startswith("seamark")} == {"seamark", "seamark.context", "seamark.core"}


def test_a_context_from_the_environment_loads_no_heavy_library() -> None:
    modules = loaded_after(
        "from pathlib import Path\n"
        "from seamark.context import open_context\n"
        "here = Path('/nonexistent')\n"
        "environ = {'SEAMARK_CONTEXTS__DEV__KAFKA__BOOTSTRAP_SERVERS': 'b:1'}\n"
        "context = open_context(environ=environ, cwd=here, user_dir=here, system_dir=here)\n"
        "assert context.kafka.client_config() == {'bootstrap.servers': 'b:1'}"
    )
    assert not modules & set(HEAVY)
    assert "seamark.context.contexts" in modules


def test_a_plain_contexts_file_loads_no_heavy_library(tmp_path) -> None:
    (tmp_path / "seamark.yaml").write_text("contexts:\n  dev:\n    kafka:\n      bootstrap.servers: b:1\n")
    modules = loaded_after(
        "from pathlib import Path\n"
        "from seamark.context import open_context\n"
        f"here, nowhere = Path({str(tmp_path)!r}), Path('/nonexistent')\n"
        "context = open_context(environ={}, cwd=here, user_dir=nowhere, system_dir=nowhere)\n"
        "assert context.kafka.client_config() == {'bootstrap.servers': 'b:1'}"
    )
    assert not modules & set(HEAVY)


def test_every_public_name_can_be_imported() -> None:
    import seamark.context as package  # noqa: PLC0415

    assert all(getattr(package, name) is not None for name in package.__all__)
    assert sorted(package._LAZY) == sorted(package.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        package.nothing  # noqa: B018
