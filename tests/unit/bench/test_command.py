"""`python -m bench` as it is typed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import bench.__main__ as command
from bench.harness.catalog import list_names, load_bench, load_benches
from bench.harness.record import ROOT, read_records
from tests.unit.bench.fakes import Stage, build_bench


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    """The command runs a fake bench under the name of a real one, on a clock of its own."""
    stage = Stage({"a": [0.9], "b": [1.0]})
    run = command.execute_bench
    monkeypatch.setattr(command, "load_bench", lambda _: build_bench(stage))
    monkeypatch.setattr(command, "execute_bench", lambda one, **named: run(one, **named, clock=stage.clock))
    return stage


def last_line(text: str) -> dict[str, object]:
    found = json.loads(text.splitlines()[-1])
    assert isinstance(found, dict)
    return found


def test_held_bench_ends_with_its_line_and_zero(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["run", "connect-list", "--quick"]) == 0
    line = last_line(capsys.readouterr().out)
    assert line["bench"] == "fake"
    assert line["ratios"] == {"a over b": 0.9}
    assert line["bars"] == {"a over b": 0.7}
    assert line["quick"] is True
    assert line["held"] is True
    assert "error" not in line


def test_bench_that_misses_its_bar_ends_with_one(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.costs["a"] = [0.5]
    assert command.main(["run", "connect-list"]) == 1
    printed = capsys.readouterr()
    assert last_line(printed.out)["held"] is False
    assert "not held: a over b is 0.5, the bar is at least 0.7" in printed.err


def test_wrong_result_ends_with_one_and_its_error(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.answers["b"] = "junk"
    assert command.main(["run", "connect-list"]) == 1
    printed = capsys.readouterr()
    line = last_line(printed.out)
    assert line["held"] is False
    assert line["error"] == "wrong result: got junk"
    assert "error: wrong result: got junk" in printed.err


def test_record_appends_the_printed_result(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.jsonl"
    append = command.append_record
    monkeypatch.setattr(command, "append_record", lambda record: append(record, path))
    assert command.main(["run", "connect-list", "--record"]) == 0
    line = last_line(capsys.readouterr().out)
    (record,) = read_records(path)
    assert json.loads(record.as_line()).items() >= line.items()
    assert record.versions["kafka"] == "4.3.1"


def test_wrong_result_is_not_recorded(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.answers["b"] = "junk"
    monkeypatch.setattr(command, "append_record", lambda _: pytest.fail("recorded"))
    assert command.main(["run", "connect-list", "--record"]) == 1


def test_unknown_bench_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["run", "no-such-bench"])
    assert ended.value.code == 64
    assert "connect-list" in capsys.readouterr().err


def test_list_names_every_bench_with_its_bars(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["list"]) == 0
    printed = capsys.readouterr().out
    for bench in load_benches():
        assert bench.compares in printed
        for claim in bench.claims:
            assert f"  {claim.name}: " in printed


def test_each_bench_has_the_name_of_its_module() -> None:
    assert "connect-list" in list_names()
    assert [bench.name for bench in load_benches()] == list(list_names())


def test_harness_is_no_bench() -> None:
    with pytest.raises(KeyError):
        load_bench("harness")


def test_module_runs_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "list"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert "connect-list: " in done.stdout
