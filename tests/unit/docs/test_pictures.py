"""The pictures are those that the script draws, are shown with alternative texts, and show what exists."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest

from tools.pictures.__main__ import FOLDER, build_pictures
from tools.pictures.diagrams import STRATA
from tools.pictures.drawing import wrap
from tools.pictures.sessions import SESSIONS

ROOT = Path(__file__).parents[3]
PICTURES = build_pictures()


def read_references():
    """The alternative texts by picture, from all pages."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    found = {}
    for page in pages:
        for alt, path in re.findall(r"!\[([^\]]*)\]\(([^)]*pictures/[^)]+)\)", page.read_text(encoding="utf-8")):
            found.setdefault((page.parent / path).resolve(), []).append(alt)
    return found


def test_the_folder_has_just_the_pictures_of_the_script():
    assert {path.name for path in FOLDER.iterdir()} == set(PICTURES)


@pytest.mark.parametrize("name", sorted(PICTURES))
def test_a_picture_is_reproduced_byte_by_byte(name):
    assert (FOLDER / name).read_bytes() == PICTURES[name].encode(), "run: python -m tools.pictures build"


def test_each_picture_is_shown_with_an_alternative_text():
    found = read_references()
    assert {path.name for path in found} == set(PICTURES)
    assert all(path.exists() for path in found)
    assert all(len(alt.split()) >= 8 for texts in found.values() for alt in texts)


@pytest.mark.parametrize("name", sorted(PICTURES))
def test_no_text_of_a_diagram_is_wider_than_its_box(name):
    root = ET.fromstring(PICTURES[name])
    space = "{http://www.w3.org/2000/svg}"
    assert root.find(f"{space}title").text
    assert "prefers-color-scheme: dark" in root.find(f"{space}style").text
    width = int(root.get("width"))
    boxes = [{key: int(one.get(key)) for key in ("x", "y", "width", "height")} for one in root.findall(f"{space}rect")]
    for text in root.findall(f"{space}text"):
        x, y, words = int(text.get("x")), int(text.get("y")), text.text or ""
        # The widest of the fonts takes 0.53 em for a letter of prose, and 0.602 em for any in a terminal.
        if name in SESSIONS:
            assert x + len(words) * 12 * 0.602 < width, words
        elif text.get("text-anchor") == "middle":
            around = [
                one
                for one in boxes
                if one["x"] < x < one["x"] + one["width"] and one["y"] < y < one["y"] + one["height"]
            ]
            room = min(one["width"] for one in around)
            assert len(words) * 13 * 0.53 < room, words


def test_the_strata_are_the_packages_of_the_source():
    drawn = Counter(package for _, packages in STRATA for package in packages)
    folders = {path.parent.name for path in (ROOT / "src" / "seamark").glob("*/__init__.py")}
    assert set(drawn) - {"core", "errors"} <= folders | {"errors"}
    assert folders - {"devstack"} <= set(drawn), "add the package to tools/pictures/diagrams.py"
    assert max(drawn.values()) == 1


def test_long_lines_are_wrapped_with_an_indent():
    assert wrap("  a long line of text", 12) == ["  a long", "      line", "      of", "      text"]
    assert wrap("short", 12) == ["short"]
