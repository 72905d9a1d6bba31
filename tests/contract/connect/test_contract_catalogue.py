"""The suite is as large as it says."""

from __future__ import annotations

from collections import Counter

from tests.contract.connect.catalogue import collect_cases


def test_contract_counts():
    counts = Counter(case.target for case in collect_cases())
    assert set(counts) == {"fake", "real-4.3.1", "real-3.5.2"}
    assert counts["fake"] >= 45
    assert counts["real-4.3.1"] >= 30
    assert counts["real-3.5.2"] >= 25
