"""The report of a verification, as a value, as JSON and in words."""

from __future__ import annotations

import json

import pytest

from seamark.copies.verify.report import (
    Compared,
    Coordinates,
    CopyFinding,
    Gone,
    Kind,
    Level,
    Verification,
    choose_examples,
    count_findings,
    describe_finding,
    describe_verification,
)


def build(*findings, level=Level.FULL, gone=(), notes=(), limit=20):
    return Verification(
        "p",
        source="orders",
        target="orders-6",
        level=level,
        compared=Compared(control_records=3, runs=4, told_records=10, source_records=9, target_records=10),
        counts=count_findings(findings),
        findings=choose_examples(findings, limit=limit),
        gone=tuple(gone),
        notes=tuple(notes),
    )


@pytest.mark.parametrize(
    ("place", "words"),
    [(Coordinates(3, 17), "3@17"), (Coordinates(3, 17, 17), "3@17"), (Coordinates(3, 17, 25), "3@17-25")],
)
def test_coordinates_read_as_partition_and_offset(place, words):
    assert str(place) == words
    assert place.to_dict() == {"partition": 3, "offset": 17, "last": int(words.split("-")[-1].split("@")[-1])}


def test_report_without_findings_has_passed():
    report = build()
    assert report.is_passed
    assert describe_verification(report) == (
        "passed: orders to orders-6, level full",
        "compared: every record, its offset and its order. 3 control records describe 10 records in 4 runs",
        "read: 9 records of the source, 10 of the target",
    )


def test_counts_are_of_all_and_examples_of_each_kind():
    lost = [CopyFinding(Kind.LOST, source=Coordinates(0, offset)) for offset in range(30)]
    report = build(*lost, CopyFinding(Kind.FOREIGN, target=Coordinates(1, 5), count=7), limit=3)
    assert report.counts == ((Kind.LOST, 30), (Kind.FOREIGN, 7))
    assert (report.count(Kind.LOST), report.count(Kind.MOVED)) == (30, 0)
    assert [one.kind for one in report.findings] == [Kind.LOST, Kind.LOST, Kind.FOREIGN]
    lines = describe_verification(report)
    assert lines[0].startswith("FAILED")
    assert "  lost source 0@0" in lines
    assert "  foreign record (7) target 1@5" in lines
    assert "  and 28 more" in lines


def test_what_is_gone_is_said_and_is_no_failure():
    gone = [Gone(Coordinates(place, 0, 9), 2) for place in range(7)]
    report = build(gone=gone, notes=["a transaction is open"])
    assert report.is_passed
    assert describe_verification(report)[-2:] == (
        (
            "not compared with the source: 14 records that compaction or retention has deleted there since, in "
            "0@0-9, 1@0-9, 2@0-9, 3@0-9, 4@0-9 and 2 more ranges"
        ),
        "note: a transaction is open",
    )


def test_report_is_json():
    finding = CopyFinding(Kind.WRONG_PARTITION, Coordinates(1, 2), Coordinates(3, 4), words="it belongs to 0@9")
    report = build(finding, level=Level.QUICK, gone=[Gone(Coordinates(0, 1), 1)])
    found = json.loads(json.dumps(report.to_dict()))
    assert (found["passed"], found["level"], found["counts"]) == (False, "quick", {"wrong partition": 1})
    assert found["findings"][0]["target"] == {"partition": 3, "offset": 4, "last": 4}
    assert found["gone"] == [{"source": {"partition": 0, "offset": 1, "last": 1}, "count": 1}]
    assert found["compared"]["told_records"] == 10
    assert describe_finding(finding) == "wrong partition source 1@2, target 3@4: it belongs to 0@9"
    assert not any(line.startswith("read:") for line in describe_verification(report))
