"""`connect-offsets --export`: every rule of KIP-199 for it."""

from __future__ import annotations

import io
import json
import stat
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from seamark.cli.connect_offsets import execute, main
from seamark.cli.session import Session
from seamark.offsets.codec.java_map import write_java_map
from tests.unit.cli.stubs import Outcome
from tests.unit.offsets.scans import FakeScan

DISTRIBUTED = "bootstrap.servers=127.0.0.1:9092\ngroup.id=g\noffset.storage.topic=connect-offsets\n"


@pytest.fixture
def tool(tmp_path):
    return Tool(tmp_path)


class Tool:
    """The program, with a distributed worker's file and its topic."""

    def __init__(self, folder):
        self.folder = folder
        self.scan = FakeScan()
        self.scan.put(("orders", {"table": "o"}), {"seq": 1}).put(("orders", {"table": "o"}), {"seq": 2})
        self.scan.put(("orders", {"table": "p"}), {"seq": 7}).put(("orders", {"table": "p"}), None)
        self.scan.put(("customers", {"table": "c"}), {"seq": 5})
        self.opened = []
        self.config = folder / "worker.properties"
        self.config.write_text(DISTRIBUTED)

    def open_scan(self, config, topic, committed):
        self.opened.append((dict(config), topic, committed))
        return self.scan

    def run(self, *argv):
        out, err = io.StringIO(), io.StringIO()
        session = Session(out=out, err=err, stdin=io.StringIO())
        code = execute([str(word) for word in argv], session=session, open_scan=self.open_scan)
        return Outcome(code, out.getvalue(), err.getvalue())

    def export(self, *argv):
        return self.run("--export", f"--config={self.config}", *argv)

    def make_standalone(self):
        entries = [
            (b'["orders",{"table":"o"}]', b'{"seq":2}'),
            (b'["orders",{"table":"p"}]', None),
            (b'["customers",{"table":"c"}]', b'{"seq":5}'),
        ]
        (self.folder / "connect.offsets").write_bytes(write_java_map(entries))
        self.config.write_text(
            f"bootstrap.servers=127.0.0.1:9092\noffset.storage.file.filename={self.folder}/connect.offsets\n"
        )


ALL = {
    "customers": [{"partition": {"table": "c"}, "offset": {"seq": 5}}],
    "orders": [{"partition": {"table": "o"}, "offset": {"seq": 2}}],
}


@pytest.fixture(params=["distributed", "standalone"])
def either(tool, request):
    if request.param == "standalone":
        tool.make_standalone()
    return tool


def test_export_writes_the_newest_pair_of_every_connector(either):
    ended = either.export()
    assert (ended.code, json.loads(ended.out), ended.err) == (0, ALL, "")


def test_the_text_is_as_the_kip_has_it(tool):
    assert tool.export().out == (
        '{\n"customers": [\n'
        '  {"partition": {"table":"c"}, "offset": {"seq":5}}\n'
        '],\n"orders": [\n'
        '  {"partition": {"table":"o"}, "offset": {"seq":2}}\n'
        "]\n}\n"
    )


def test_nothing_is_an_empty_object(tool):
    tool.scan = FakeScan()
    assert tool.export().out == "{}\n"


def test_connectors_keeps_those_names_only(either):
    ended = either.export("--connectors=orders")
    assert json.loads(ended.out) == {"orders": ALL["orders"]}
    assert json.loads(either.export("--connectors", "orders,customers").out) == ALL


def test_a_name_that_has_no_offsets_is_said(either):
    ended = either.export("--connectors=orders,nobody")
    assert (ended.code, json.loads(ended.out)) == (0, {"orders": ALL["orders"]})
    assert "nobody has no offsets in" in ended.err


def test_from_beginning_shows_what_was_overwritten_in_the_order_of_time(tool):
    ended = tool.export("--from-beginning")
    assert json.loads(ended.out) == {
        "customers": ALL["customers"],
        "orders": [
            {"partition": {"table": "o"}, "offset": {"seq": 1}},
            {"partition": {"table": "o"}, "offset": {"seq": 2}},
            {"partition": {"table": "p"}, "offset": {"seq": 7}},
            {"partition": {"table": "p"}, "offset": None},
        ],
    }
    assert set(json.loads(tool.export("--from-beginning", "--connectors=orders").out)) == {"orders"}


def test_from_beginning_of_a_file_says_that_there_is_nothing_older(tool):
    tool.make_standalone()
    ended = tool.export("--from-beginning")
    assert json.loads(ended.out) == ALL
    assert ended.err == "a standalone worker's file has only the newest offsets\n"


def test_a_named_file_gets_the_json_and_is_the_owners_alone(either):
    file = either.folder / "offsets.json"
    ended = either.export(file)
    assert (ended.code, ended.out) == (0, "")
    assert json.loads(file.read_text()) == ALL
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = either.export(file)
    assert again.code == 1
    assert "already exists" in again.err


def test_the_config_says_where_and_how(tool):
    tool.export()
    tool.config.write_text(f"{DISTRIBUTED}exactly.once.source.support=enabled\n")
    tool.export()
    assert [(config["bootstrap.servers"], topic, committed) for config, topic, committed in tool.opened] == [
        ("127.0.0.1:9092", "connect-offsets", False),
        ("127.0.0.1:9092", "connect-offsets", True),
    ]


def test_what_is_odd_goes_to_standard_error(tool):
    tool.scan.put(b'["orders", {"table": "o"}]', {"seq": 9}).put(b"not json", b"{}")
    ended = tool.export()
    assert json.loads(ended.out) == ALL
    assert "duplicate-encoding: orders: has 2 key encodings" in ended.err
    assert "bad-key: its key is not-json" in ended.err


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        ([], "say what to do: --export or --import"),
        (["--config=x"], "say what to do: --export or --import"),
        (["--export", "--import", "--config=x"], "say what to do: --export or --import"),
        (["--export"], "--config is required"),
        (["--export", "--config=x", "--what"], "No such option"),
        (["--export", "--config=x", "--connectors=a,,b"], "--connectors has an empty name"),
        (["--export", "--config=x", "a", "b"], "Got unexpected extra argument"),
    ],
)
def test_wrong_use_shows_the_parameters_and_fails(tool, argv, why):
    ended = tool.run(*argv)
    assert ended.code == 64
    assert ended.out == ""
    for parameter in ("--export", "--import", "--config", "--connectors", "--from-beginning"):
        assert f"  {parameter}" in ended.err
    assert f"error: {why}" in ended.err


def test_a_config_that_is_missing_or_no_workers_is_told(tool):
    assert tool.run("--export", f"--config={tool.folder}/none").code == 64
    tool.config.write_text("group.id=g\n")
    ended = tool.export()
    assert ended.code == 64
    assert "neither offset.storage.topic nor offset.storage.file.filename" in ended.err


def test_help_goes_to_standard_output_and_is_no_failure(tool, capsys):
    assert tool.run("--help").code == 0
    assert "--from-beginning" in capsys.readouterr().out


def test_the_package_brings_the_program():
    scripts = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, name = scripts["connect-offsets"].partition(":")
    assert getattr(import_module(module), name) is main
