"""The numbers of a landing's run: on the terminal, and as a file of Prometheus."""

from __future__ import annotations

import io

import pytest

from seamark.cli.session import Session
from seamark.errors import UsageError
from seamark.pipelines.binding import RetryWait
from seamark.pipelines.progress import BatchLanded, LandMetrics, LandProgress, render_metrics
from seamark.pipelines.views import LandLines
from seamark.report.words import render_number

BATCH = BatchLanded(0, rows=1000, deleted=2, dead=3)
PROGRESS = LandProgress(0, records=1005, seconds=0.5, behind=70, newest=1700000000500)


def read(file):
    """The samples by name; each has its type."""
    lines = file.read_text().splitlines()
    typed = {line.split()[2] for line in lines if line.startswith("# TYPE ")}
    samples = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert typed == {name.partition("{")[0] for name in samples}
    assert all(name.endswith('{pipeline="orders"}') for name in samples)
    return {name.removeprefix("seamark_pipeline_").partition("{")[0]: float(value) for name, value in samples.items()}


def test_file_is_written_after_each_batch(tmp_path):
    file = tmp_path / "orders.prom"
    metrics = LandMetrics("orders", file=file, now=lambda: 1700000001.0)
    metrics.landed(BATCH)
    assert read(file) == {
        "batches_total": 1,
        "rows_total": 1000,
        "deleted_total": 2,
        "dead_letters_total": 3,
        "records_total": 0,
        "retries_total": 0,
        "retry_pause_seconds": 0,
        "suspended": 0,
        "last_batch_timestamp_seconds": 1700000001.0,
    }
    metrics.progressed(PROGRESS)
    metrics.landed(BATCH)
    found = read(file)
    assert (found["rows_total"], found["records_total"], found["behind_records"]) == (2000, 1005, 70)
    assert (found["batch_seconds"], found["records_per_second"]) == (0.5, 2010)
    assert found["newest_record_timestamp_seconds"] == 1700000000.5
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_idle_query_says_how_far_it_is_and_not_how_fast():
    metrics = LandMetrics("orders")
    metrics.progressed(PROGRESS)
    metrics.progressed(LandProgress(1, records=0, seconds=0.01, behind=0))
    assert (metrics.last.behind, metrics.last.seconds, metrics.newest) == (0, 0.5, PROGRESS.newest)


def test_disk_that_is_full_ends_no_landing(tmp_path, caplog):
    file = tmp_path / "there" / "orders.prom"
    with pytest.raises(UsageError, match="for --metrics: its folder does not exist"):
        LandMetrics("orders", file=file)
    file.parent.mkdir()
    metrics = LandMetrics("orders", file=file)
    file.parent.rmdir()
    metrics.landed(BATCH)
    assert "could not write metrics file" in caplog.text


def test_line_says_what_is_known():
    err = io.StringIO()
    metrics = LandMetrics("orders")
    lines = LandLines(Session(err=err).reporter.note, metrics)
    lines.landed(BATCH)
    metrics.progressed(PROGRESS)
    # Nobody reads a line for each batch.
    lines.landed(BATCH)
    lines.close()
    first, last = err.getvalue().splitlines()
    assert first == f"  batch 1 · {render_number(1000)} rows, 2 deleted, 3 dead letters"
    assert last.startswith(f"batch 2 · {render_number(2000)} rows, 4 deleted, 6 dead letters · ")
    assert last.endswith(" records/s · 0.5 s per batch · lag 70")


def test_outage_is_shown_until_the_next_batch(tmp_path):
    file = tmp_path / "orders.prom"
    metrics = LandMetrics("orders", file=file)
    err = io.StringIO()
    lines = LandLines(Session(out=io.StringIO(), err=err).reporter.note, metrics)
    lines.waiting(RetryWait(4, 3, "the database does not answer"))
    assert (read(file)["retries_total"], read(file)["retry_pause_seconds"]) == (1, 4)
    assert err.getvalue() == "  the database does not answer; next try in 4 s\n"
    lines.landed(BATCH)
    assert (read(file)["retries_total"], read(file)["retry_pause_seconds"]) == (1, 0)


def test_metrics_of_many_have_each_description_once():
    first, second = LandMetrics("a"), LandMetrics("b")
    first.landed(BATCH)
    second.set_state(is_suspended=True)
    lines = render_metrics([first, second]).splitlines()
    assert lines[:4] == [
        "# HELP seamark_pipeline_batches_total Batches written by this run.",
        "# TYPE seamark_pipeline_batches_total counter",
        'seamark_pipeline_batches_total{pipeline="a"} 1',
        'seamark_pipeline_batches_total{pipeline="b"} 0',
    ]
    assert 'seamark_pipeline_suspended{pipeline="b"} 1' in lines
    heads = [line for line in lines if line.startswith("#")]
    assert len(heads) == len(set(heads))


def test_nothing_in_no_time_is_no_rate():
    assert LandProgress(0, records=0, seconds=0.0).rate == 0
