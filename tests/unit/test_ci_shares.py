"""The list of the long tests that run as rotating shares, .ci/shares."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import OFFSET_STACK

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "spark": "tests/spark",
    "integration": "tests/integration",
    "offset-fault": "tests/fault",
    "recovery": "tests/fault",
    "fault": "tests/fault",
    "pages": "tests/integration",
}
SHARES = 18


def read_shares():
    lines = (ROOT / ".ci" / "shares").read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    assert all(len(row) == 3 for row in rows), rows
    return [(int(share), kind, test) for share, kind, test in rows]


def list_functions(path):
    """The names of the test functions of a module."""
    body = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
    return {one.name for one in body if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")}


def test_every_listed_test_exists_in_the_folder_of_its_kind():
    for _, kind, test in read_shares():
        path, _, case = test.partition("::")
        function = case.partition("[")[0]
        assert str(Path(path).parents[1]) == FOLDERS[kind], test
        functions = list_functions(path)
        assert not function or function in functions, test
        # pytest deselects by the beginning of a name: another test must not begin with the same one.
        assert not function or [one for one in functions if one.startswith(function)] == [function], test


def test_each_test_is_in_one_share_only():
    rows = read_shares()
    assert {share for share, _, _ in rows} == set(range(SHARES))
    tests = Counter(test for _, _, test in rows)
    assert max(tests.values()) == 1, tests.most_common(1)
    files = {test for test in tests if "::" not in test}
    assert not [test for test in tests if "::" in test and test.partition("::")[0] in files]


def list_marked(marker):
    """The modules of the fault tier whose tests all have a marker."""
    found = re.compile(rf"^pytestmark = .*\bpytest\.mark\.{marker}\b", re.MULTILINE)
    return {path for path in (ROOT / "tests" / "fault").rglob("test_*.py") if found.search(path.read_text())}


@pytest.mark.parametrize("kind", ["offset-fault", "recovery"])
def test_tests_of_a_tier_by_marker_are_in_shares(kind):
    listed = [test.partition("::") for _, other, test in read_shares() if other == kind]
    assert {ROOT / path for path, _, _ in listed} == list_marked(kind.replace("-", "_"))
    # The tier runs all tests of a module; one that isn't listed would run in no usual run.
    for path in {path for path, _, case in listed if case}:
        assert {case for other, _, case in listed if other == path} == list_functions(path)


def test_tests_that_share_a_stack_with_proxies_are_the_offset_faults():
    # The scheduler of xdist knows the names of tests only, not their markers.
    assert {path.name for path in list_marked("offset_fault")} == set(OFFSET_STACK)
