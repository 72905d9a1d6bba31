"""From a result to the committed file and back, and to the page drawn from it."""

from __future__ import annotations

import dataclasses
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from pydantic import ValidationError

from bench.harness.catalog import load_benches
from bench.harness.definition import BenchError, Growth, Limit, Ratio
from bench.harness.execute import execute_bench
from bench.harness.record import ROOT, Record, append_record, build_record, read_commit, read_records
from bench.harness.report import PAGE, PLOTS, build_report, write_report
from tests.unit.bench.fakes import Stage, build_bench

SVG = "{http://www.w3.org/2000/svg}"


def make_record(*, cost: float = 1.0, quick: bool = False, date: str = "2026-11-15T10:00:00Z") -> Record:
    stage = Stage({"a": [cost], "b": [1.0]})
    outcome = execute_bench(build_bench(stage), quick=quick, note=lambda _: None, clock=stage.clock)
    return build_record(outcome.result, commit="0123456789ab", date=date, versions=outcome.versions)


def test_record_and_read_give_the_same(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    written = (make_record(), make_record(cost=0.1, quick=True))
    for record in written:
        append_record(record, path)
    assert read_records(path) == written
    assert len(path.read_text().splitlines()) == 2


def test_record_tells_versions_and_cores_and_no_host() -> None:
    record = make_record()
    assert set(record.versions) == {"python", "seamark", "kafka"}
    assert record.machine.cores >= 1
    assert set(type(record.machine).model_fields) == {"cores", "system"}


def test_no_file_is_no_record(tmp_path: Path) -> None:
    assert read_records(tmp_path / "none.jsonl") == ()


def test_unknown_field_in_the_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(make_record().as_line().replace('{"bench"', '{"extra":1,"bench"') + "\n")
    with pytest.raises(ValidationError, match="extra"):
        read_records(path)


def test_wrong_result_is_not_recorded() -> None:
    stage = Stage({"a": [1.0], "b": [1.0]}, answers={"a": "junk"})
    outcome = execute_bench(build_bench(stage), quick=True, note=lambda _: None, clock=stage.clock)
    with pytest.raises(BenchError, match="not recorded: wrong result: got junk"):
        build_record(outcome.result, commit="c", date="d", versions={})


def test_commit_says_when_the_code_is_not_the_committed_one(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        names = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *names, *arguments], cwd=tmp_path, check=True, capture_output=True, timeout=30)

    for folder in ("src", "bench"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "one.py").write_text("one = 1\n")
    (tmp_path / "bench" / "results").mkdir()
    (tmp_path / "bench" / "results" / "results.jsonl").write_text("")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "one")
    clean = read_commit(tmp_path)
    assert len(clean) == 12
    (tmp_path / "bench" / "results" / "results.jsonl").write_text("{}\n")
    assert read_commit(tmp_path) == clean, "the results themselves do not count"
    (tmp_path / "src" / "one.py").write_text("one = 2\n")
    assert read_commit(tmp_path) == f"{clean}+changes"


def test_commit_is_unknown_outside_a_repository(tmp_path: Path) -> None:
    assert read_commit(tmp_path / "nowhere") == "unknown"


def test_report_shows_the_last_result_and_all_before_it() -> None:
    records = [make_record(cost=0.5, quick=True, date="2026-11-14T10:00:00Z"), make_record(cost=0.9)]
    page = build_report(records, benches=[build_bench(Stage({}))])[PAGE]
    assert "| a over b | at least 0.7 | 0.9 | 0.9 to 0.9 (94%) | yes |" in page
    rows = [line for line in page.splitlines() if line.startswith("| 2026-11-")]
    assert [row.split(" | ")[2] for row in rows] == ["1", "1"]
    assert [row.split(" | ")[4] for row in rows] == ["yes", "**no**"]
    assert [row.split(" | ")[5] for row in rows] == ["5", "quick"]
    assert "(performance/fake-a-over-b.svg)" in page


def test_plot_has_a_mark_for_each_result_and_a_shape_for_a_miss() -> None:
    records = [make_record(cost=0.5), make_record(cost=0.9), make_record(cost=1.1, quick=True)]
    drawn = build_report(records, benches=[build_bench(Stage({}))])[PLOTS / "fake-a-over-b.svg"]
    tree = ET.fromstring(drawn)
    circles = tree.findall(f"{SVG}circle")
    assert [circle.get("fill") for circle in circles] == ["#1f5fa8", "#ffffff"]
    assert len(tree.findall(f"{SVG}path")) == 1
    assert len([line for line in tree.findall(f"{SVG}line") if line.get("stroke-dasharray")]) == 1
    description = tree.find(f"{SVG}desc")
    assert description is not None
    assert "0.5, not held" in (description.text or "")


def test_claim_without_a_recorded_figure_has_no_plot() -> None:
    bench = build_bench(Stage({}))
    new = dataclasses.replace(bench, ratios=(*bench.ratios, Ratio("b over a", over="b", under="a", bar=1.0)))
    files = build_report([make_record()], benches=[new])
    assert PLOTS / "fake-a-over-b.svg" in files
    assert PLOTS / "fake-b-over-a.svg" not in files
    assert "b over a" not in files[PAGE]


def test_result_of_another_size_than_the_bench_has_now_says_so() -> None:
    record = make_record()
    said = "The latest result is older than this description: it was measured at 1."
    assert said not in build_report([record], benches=[build_bench(Stage({}))])[PAGE]
    assert said in build_report([record], benches=[build_bench(Stage({}), sizes=(2_000,))])[PAGE]


def test_gauges_are_reported_beside_the_legs_that_have_them() -> None:
    stage = Stage({"a": [1.0], "b": [1.0]})
    bench = build_bench(stage, read_gauges=lambda _: {"p99 s": 2.5})
    outcome = execute_bench(bench, quick=True, note=lambda _: None, clock=stage.clock)
    result = outcome.result.model_copy(update={"gauges": {"a": {"p99 s": 2.5}}})
    page = build_report([build_record(result, commit="c", date="d", versions={})], benches=[bench])[PAGE]
    head, legs = page.split("| leg, one run | ")[1].split("\n", 1)
    assert head.endswith(" | p99 s |")
    rows = [line for line in legs.splitlines() if line.startswith(("| a |", "| b |"))]
    assert [row.split(" | ")[-1] for row in rows] == ["2.5 |", " |"]


def test_growth_is_reported_with_its_sizes() -> None:
    stage = Stage({"a": [1.0], "b": [1.0]})
    bench = build_bench(stage, sizes=(10, 100), growths=(Growth("a grows", leg="a", bar=1.1),))
    outcome = execute_bench(bench, quick=True, note=lambda _: None, clock=stage.clock)
    record = build_record(outcome.result, commit="c", date="2026-11-15T00:00:00Z", versions={})
    files = build_report([record], benches=[bench])
    assert "| a grows: size | 10 | 100 |" in files[PAGE]
    assert PLOTS / "fake-a-grows.svg" in files


def test_limit_is_reported_with_its_interval() -> None:
    stage = Stage({"a": [1.0], "b": [1.0]})
    limit = Limit("memory in MB", leg="a", gauge="MB", bar=600)
    bench = build_bench(stage, limits=(limit,), read_gauges=lambda _: {"MB": 90.5})
    outcome = execute_bench(bench, quick=False, note=lambda _: None, clock=stage.clock)
    record = build_record(outcome.result, commit="c", date="2026-11-15T00:00:00Z", versions={})
    files = build_report([record], benches=[bench])
    assert "| memory in MB | at most 600 | 90.5 | 90.5 to 90.5 (94%) | yes |" in files[PAGE]
    assert "a over b 1; memory in MB 90.5" in files[PAGE]
    assert PLOTS / "fake-memory-in-mb.svg" in files


def test_writing_removes_plots_of_claims_that_are_gone(tmp_path: Path) -> None:
    (tmp_path / PLOTS).mkdir()
    (tmp_path / PLOTS / "old.svg").write_text("<svg/>")
    written = write_report([make_record()], benches=[build_bench(Stage({}))], docs=tmp_path)
    assert written == [PAGE, PLOTS / "fake-a-over-b.svg"]
    assert [path.name for path in (tmp_path / PLOTS).iterdir()] == ["fake-a-over-b.svg"]


def test_result_of_a_bench_that_is_gone_is_still_named() -> None:
    page = build_report([make_record()], benches=[])[PAGE]
    assert "## No longer run\n\nfake" in page


def test_committed_page_is_what_the_committed_results_give() -> None:
    """Fails after a change to results, benches or the generator: run `python -m bench report`."""
    docs = ROOT / "docs"
    files = build_report(read_records(), benches=load_benches())
    assert {path: (docs / path).read_text(encoding="utf-8") for path in files} == files
    drawn = {PLOTS / path.name for path in (docs / PLOTS).glob("*.svg")}
    assert drawn == set(files) - {PAGE}
