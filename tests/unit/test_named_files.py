"""Every file that the pages for contributors name exists."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("CONTRIBUTING.md", "docs/explanation/architecture.md", "docs/explanation/placement.md")
# Top folders of the repository; other paths are below src/seamark.
FOLDERS = {path.name for path in ROOT.iterdir() if path.is_dir()}
# Packages that the examples of placement would create.
NEW = {"server/web", "tables/iceberg", "tables/mariadb"}
NAME = re.compile(r"(?<![\w./-])((?:\.?[a-z][\w-]*/)+[\w.-]*|[a-z_]+\.py)(?![\w/-])")


def read_modules():
    """Return the paths of the modules of src, under the names that the map gives them."""
    with (ROOT / "tools" / "structure" / "map.csv").open(encoding="utf-8", newline="") as file:
        names = [row["merged_into"] for row in csv.DictReader(file)]
    return {f"{name.replace('.', '/')}.py" for name in names} | {
        f"{'/'.join(name.split('.')[:depth])}/" for name in names for depth in range(1, name.count(".") + 2)
    }


def find_paths(page):
    """Return the paths in the code spans and code blocks of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```.*?\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE))
    found = {path for part in (*blocks, *spans) for path in NAME.findall(part)}
    # NAME and NOUN stand for any name; the reader makes the environment and the site.
    return {path.rstrip(".") for path in found if not re.search(r"NAME|NOUN|PACKAGE|^\.(?:venv|site)/", path)}


def is_there(path, modules):
    if path.split("/")[0] in FOLDERS:
        return (ROOT / path).exists()
    return path in modules or f"{path.rstrip('/')}/" in modules or (ROOT / "src" / "seamark" / path).exists()


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_names_exists(page):
    modules = read_modules()
    paths = find_paths(page)
    assert len(paths) > 15
    assert sorted(path for path in paths if path not in NEW and not is_there(path, modules)) == []
