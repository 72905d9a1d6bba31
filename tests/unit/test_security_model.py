"""The page about the security model names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "security-model.md"


def test_every_line_of_untrusted_input_names_its_test():
    text = PAGE.read_text()
    rows = [
        line for line in text.partition("## What is not trusted")[2].partition("\n## ")[0].splitlines() if "|" in line
    ]
    named = [re.findall(r"`(tests/[\w/]+\.py)`", row) for row in rows[2:]]
    assert len(named) >= 10
    assert all(named)
    assert [path for row in named for path in row if not (ROOT / path).is_file()] == []


def test_the_page_names_every_permission():
    from seamark.policy.permissions import Permission  # noqa: PLC0415

    assert [one for one in Permission if f"| `{one}` |" not in PAGE.read_text()] == []
