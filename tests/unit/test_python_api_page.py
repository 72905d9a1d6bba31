"""docs/reference/python-api.md lists the public names: all of them, and no others."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from seamark import Fleet

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "python-api.md"
# Packages whose names a page describes.
PACKAGES = ("seamark", "seamark.consumer", "seamark.devstack", "seamark.spark", "seamark.specs", "seamark.tables")


def read_sections():
    """The names in the first column of each table of the page, by the heading above it."""
    sections = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"##+ (.+)", line):
            names = sections.setdefault(heading[1], [])
        elif line.startswith("| `"):
            names += re.findall(r"`([^`]+)`", line.split("|")[1])
    return sections


def test_page_has_a_section_for_each_public_package():
    assert sorted(read_sections()) == sorted((*PACKAGES, "Fleet"))


@pytest.mark.parametrize("package", PACKAGES)
def test_page_lists_what_a_package_exports(package):
    assert sorted(read_sections()[package]) == sorted(import_module(package).__all__)


def test_page_lists_what_a_fleet_has():
    members = {name for name in vars(Fleet) if not name.startswith("_")}
    assert sorted(read_sections()["Fleet"]) == sorted(members | {"context"})


def test_stub_exports_what_the_package_exports():
    stub = (ROOT / "src" / "seamark" / "__init__.pyi").read_text(encoding="utf-8")
    assert re.findall(r'"(\w+)"', re.search(r"__all__ = \[(.+)\]", stub)[1]) == import_module("seamark").__all__
