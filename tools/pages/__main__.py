"""`python -m tools.pages list`, and `python -m tools.pages run PAGE…`."""

from __future__ import annotations

import argparse
import sys
import time

from seamark.errors import DevstackError
from tools.pages.blocks import PageError, list_pages, read_page
from tools.pages.runner import PageFailureError
from tools.pages.session import SessionError
from tools.pages.stage import open_runner


def main() -> int:
    """Run the command line and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.pages", description="run the command blocks of pages")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="list the pages, how each is run, and what is not run")
    run = commands.add_parser("run", help="run pages on real servers")
    run.add_argument("pages", nargs="+", metavar="PAGE", help="path of a page, such as docs/how-to/operate.md")
    arguments = parser.parse_args()
    if arguments.command == "list":
        return show_pages()
    return run_pages(arguments.pages)


def show_pages() -> int:
    """Print a line per page, and one per block that is not run."""
    for path in list_pages():
        page = read_page(path)
        how = page.test or (f"servers {page.servers}" if page.servers is not None else "-")
        print(f"{path}: {len(page.commands)} command blocks, {how}")
        for block in page.skipped:
            print(f"  line {block.line} is not run: {block.find('skip')}")
    return 0


def run_pages(paths: list[str]) -> int:
    """Run each page and print its result."""
    failed = False
    for path in paths:
        begin = time.monotonic()
        try:
            with open_runner(read_page(path)) as runner:
                runner.run()
            print(f"=== {path}: {runner.ran} commands in {time.monotonic() - begin:.0f} s")
        except (PageFailureError, PageError, SessionError, DevstackError) as error:
            print(f"=== {path} failed after {time.monotonic() - begin:.0f} s: {error} {getattr(error, 'cause', '')}")
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
