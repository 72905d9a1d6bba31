"""The command blocks of the pages, as a reader would type them, each page on servers of its own."""

from __future__ import annotations

import pytest

from tools.pages.blocks import list_pages, read_page
from tools.pages.stage import open_runner

pytestmark = pytest.mark.timeout(1200)
PAGES = [path for path in list_pages() if read_page(path).servers is not None]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.removeprefix("docs/").removesuffix(".md"))
def test_commands_of_the_page_run_and_print_what_it_shows(path):
    page = read_page(path)
    with open_runner(page) as runner:
        runner.run()
    shown = [part for part in page.commands if part.find("skip") is None]
    assert runner.ran >= len(shown)
