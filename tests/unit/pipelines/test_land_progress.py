"""What Spark tells of a batch."""

from __future__ import annotations

import pytest

from seamark.pipelines.progress import LandProgress, build_progress

TOLD = {
    "name": "land-orders-1",
    "batchId": 3,
    "batchDuration": 1500,
    "numInputRows": 300,
    "sources": [
        {
            "startOffset": {"orders": {"0": 0, "1": 0}},
            "endOffset": {"orders": {"0": 150, "1": 150}},
            "latestOffset": {"orders": {"0": 200, "1": 149, "2": 5}},
        }
    ],
    "observedMetrics": {"seamark_pipeline": {"records": 290, "newest": 1700000000123}},
}


def test_batch_is_read():
    found = build_progress(TOLD)
    # A partition that is new is behind from its beginning; one that was cut off is not ahead.
    assert found == LandProgress(3, records=290, seconds=1.5, behind=55, newest=1700000000123)
    assert round(found.rate) == 193


@pytest.mark.parametrize(
    "gone", [{"observedMetrics": None, "sources": None}, {"observedMetrics": {}, "sources": [{"endOffset": "?"}]}]
)
def test_what_is_not_told_is_not_known(gone):
    found = build_progress({**TOLD, **gone})
    assert (found.records, found.behind, found.newest) == (300, None, None)


def test_nothing_in_no_time_is_no_rate():
    assert build_progress({"batchId": 0}).rate == 0
