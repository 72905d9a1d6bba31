"""The Korean README says the same as the English one: what can be compared is."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENGLISH = (ROOT / "README.md").read_text(encoding="utf-8")
KOREAN = (ROOT / "README.ko.md").read_text(encoding="utf-8")


def blocks(text):
    return re.findall(r"^```.*?^```", text, re.DOTALL | re.MULTILINE)


def prose(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def test_code_blocks_are_the_same():
    assert blocks(KOREAN) == blocks(ENGLISH)
    assert len(blocks(KOREAN)) > 5


def test_there_are_as_many_sections_and_points():
    for mark in (r"^## ", r"^- \*\*"):
        assert len(re.findall(mark, KOREAN, re.MULTILINE)) == len(re.findall(mark, ENGLISH, re.MULTILINE))


def test_every_page_that_one_links_to_the_other_does_too():
    linked = {text: set(re.findall(r"\]\(([^)#:]+)\)", text)) for text in (ENGLISH, KOREAN)}
    missing = linked[ENGLISH] - linked[KOREAN] - {"README.ko.md"}
    assert missing == set()


def test_words_in_code_are_the_same():
    inline = {text: set(re.findall(r"`([^`\n]+)`", prose(text))) for text in (ENGLISH, KOREAN)}
    assert inline[ENGLISH] - inline[KOREAN] == set()


def test_it_is_korean():
    assert len(re.findall(r"[가-힣]", prose(KOREAN))) > 500
    assert re.search(r"습니다\.", KOREAN)
