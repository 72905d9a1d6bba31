"""Twelve tables from PostgreSQL to Delta on S3, in one application, while six things fail."""

from __future__ import annotations

from tests.spark.pipelines.lake_soak import soak


def test_twelve_tables_with_six_faults_equal_their_sources(stack, tmp_path):
    counts = soak(stack, tmp_path, logs=8, codes=2, bulks=2, changes=100_000, faults=6, every=20, end_seconds=240)
    assert counts["changes"] >= 100_000
    assert counts["faults"] == 6
    # Each has its turn: the driver is killed, S3 and the broker restart, offsets are moved, and two applications run.
    assert min(counts[name] for name in ("kill_driver", "restart_s3", "move_offsets", "start_twice")) == 1
    assert counts["restarts"] >= 1
