"""Spec programs: what they give, and what they can't do."""

from __future__ import annotations

import json
import os
import time

import pytest

from seamark.errors import SpecError, UsageError
from seamark.specs.program import SpecEnvironment, connector, topic
from seamark.specs.sandbox import run_program

PROGRAM = '''\
"""Code tables."""
from seamark.specs import connector, topic

SELECT = "SELECT *, '{shard}' AS shard FROM {table}"

def resources(env):
    print("noise on standard output")
    for shard in env.list("SHARDS"):
        yield connector(
            f"code-{shard}", {"query": SELECT.format(shard=shard, table="npc"), "n": 1, "b": True, "gone": None,
                              "mark": "${{ x }}"},
            base="jdbc-bulk", state="stopped",
        )
    yield topic("code", partitions=3, config={"retention.ms": 5})
'''


def test_a_program_gives_resources_with_bases_and_defaults(folder):
    folder.environ["SHARDS"] = "a, b"
    folder.write(
        "_defaults.yaml", "cluster: game\ndefaults: {gone: x}\nbases: {jdbc-bulk: {connector.class: J, n: 9}}\n"
    )
    folder.write("code.py", PROGRAM)
    spec = folder.load(allow_python=True)
    first, second = spec.connectors
    assert (first.owner, second.owner, first.state) == ("game/code-a", "game/code-b", "STOPPED")
    assert dict(first.config) == {
        "connector.class": "J", "n": "1", "b": "true", "query": "SELECT *, 'a' AS shard FROM npc", "mark": "${{ x }}",
    }  # fmt: skip
    assert (first.place.line, first.place.file) == (9, str(folder.path / "code.py"))
    assert [(found.name, found.partitions, dict(found.config)) for found in spec.find("topics")] == [
        ("code", 3, {"retention.ms": "5"})
    ]


def test_a_program_is_not_run_unasked(folder):
    marker = folder.path / "ran"
    folder.write("x.py", f"open({str(marker)!r}, 'w')\ndef resources(env): return []\n")
    error = folder.fail()
    assert isinstance(error, UsageError)
    assert "--allow-python" in error.hint
    assert not marker.exists()
    folder.load(allow_python=True)
    assert marker.exists()


def test_secrets_do_not_reach_a_program(folder, monkeypatch):
    monkeypatch.setenv("SEAMARK_TEST_CANARY", "canary-parent")
    url = "postgres://me:canary-secret@db/game"
    folder.environ.update(os.environ, DB_PASSWORD="canary-secret", DATABASE_URL=url, STAGE="dev")
    folder.write(
        "x.py",
        """\
        import json, os
        from seamark.specs import connector
        def resources(env):
            seen = json.dumps([dict(os.environ), [env[name] for name in env]])
            yield connector("x", {"connector.class": "A", "seen": seen, "stage": env["STAGE"]})
        """,
    )
    config = folder.configs(allow_python=True)["x"]
    assert config["stage"] == "dev"
    assert "canary-secret" not in config["seen"]
    assert set(json.loads(config["seen"])[0]) <= {"PATH", "LANG", "LC_ALL", "TZ", "LC_CTYPE"}


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ("def resources(env):\n    x = 1\n    raise ValueError('no table')\n", "x.py:3: ValueError: no table"),
        ("def resources(env:\n", "x.py:1:14: SyntaxError"),
        ("x = 1\n", "x.py: TypeError: the program has no function resources(env)"),
        ("def resources(env):\n    yield 1\n", "x.py: TypeError: resources(env) returned a int"),
        ("def resources(env):\n    env['DB_PASSWORD']\n", "x.py:2: KeyError: 'DB_PASSWORD appears to be a secret"),
        ("def resources(env):\n    env.list('GONE')\n", "x.py:2: KeyError: 'the environment variable GONE is not set'"),
        ("import sys\nsys.exit(3)\n", "x.py:2: SystemExit: 3"),
        (
            "import os\nprint('bye', flush=True)\nos._exit(7)\n",
            "x.py: the program ended with exit code 7 and returned nothing",
        ),
        (
            "from seamark.specs import connector\ndef resources(env):\n    yield connector('x', {'k': []})\n",
            "x.py:3: Type",
        ),
        (
            "from seamark.specs import connector\ndef resources(env):\n    yield connector('x', {})\n",
            "x.py:3: connector x",
        ),
        (
            "from seamark.specs import connector\ndef resources(env):\n    yield connector('x', {}, base='b')\n",
            "x.py:3: unknown base b",
        ),
    ],
)
def test_a_program_that_fails_says_where(folder, body, cause):
    folder.environ["DB_PASSWORD"] = "hunter2"
    folder.write("x.py", body)
    error = folder.fail(allow_python=True)
    assert isinstance(error, SpecError)
    assert error.cause.startswith(cause)
    assert "hunter2" not in str(error.as_dict())


def test_what_it_printed_is_shown_where_it_fails(folder):
    folder.write("x.py", "print('almost there', flush=True)\nraise ValueError\n")
    assert "almost there" in folder.fail(allow_python=True).cause


def test_a_program_that_hangs_is_ended_with_its_children(folder):
    path = folder.write("x.py", "import subprocess, time\nsubprocess.Popen(['sleep', '600'])\ntime.sleep(600)\n")
    begin = time.monotonic()
    with pytest.raises(SpecError, match=r"x\.py can't be used") as caught:
        run_program(path, environ=os.environ, deadline_seconds=1.0)
    assert "did not end within 1 s" in caught.value.cause
    assert time.monotonic() - begin < 20


def test_a_program_that_gives_too_much_is_ended(folder):
    path = folder.write(
        "x.py",
        "from seamark.specs import connector\ndef resources(env):\n    yield connector('x', {'k': 'v' * 100_000})\n",
    )
    with pytest.raises(SpecError) as caught:
        run_program(path, environ={}, max_bytes=50_000)
    assert "more than 50000 bytes" in caught.value.cause


def test_what_a_program_writes_into_the_pipe_itself_is_checked(folder):
    folder.write(
        "x.py",
        """\
        import json, os, sys
        os.write(int(sys.argv[1]), json.dumps({"resources": [{"kind": "connector", "name": 1}]}).encode())
        os._exit(0)
        """,
    )
    assert "invalid resource" in folder.fail(allow_python=True).cause


def test_a_module_beside_the_program_can_be_imported_and_a_library_can_not_be_replaced(folder):
    folder.write("_tables.py", "TABLES = ['a']\n")
    folder.write("json.py", "def resources(env): return []\n")
    folder.write(
        "x.py",
        """\
        import json
        from _tables import TABLES
        from seamark.specs import connector
        def resources(env):
            return [connector(table, {"connector.class": json.dumps("A")}) for table in TABLES]
        """,
    )
    assert folder.configs(allow_python=True) == {"a": {"connector.class": '"A"'}}
    assert not (folder.path / "__pycache__").exists()


def test_env_is_a_small_mapping():
    env = SpecEnvironment({"A": "1", "L": "x,, y"}, withheld=["SECRET"])
    assert (env["A"], env.get("A"), env.get("B"), env.get("B", "2"), "A" in env, list(env)) == (
        "1", "1", None, "2", True, ["A", "L"],
    )  # fmt: skip
    assert env.list("L") == ["x", "y"]
    assert env.list("B", ["z"]) == ["z"]
    with pytest.raises(KeyError, match="not passed to programs"):
        env.get("SECRET")


@pytest.mark.parametrize(
    "make",
    [
        lambda: connector("", {}),
        lambda: connector("x", []),
        lambda: connector("x", {1: "a"}),
        lambda: connector("x", {}, base=1),
        lambda: topic("t", partitions=0),
        lambda: topic("t", replication_factor=True),
    ],
)
def test_a_wrong_resource_is_refused_where_it_is_made(make):
    with pytest.raises((TypeError, ValueError)):
        make()
