"""`python -m tools.korean update | check`: the Korean documentation.

`update` takes over changed English messages into the catalogs of `docs/locale/ko`, marks their translations as fuzzy,
prints what is left to translate, and builds README.ko.md. `check` prints what is out of step, untranslated or wrong.
Exit codes: 0 nothing is left, 1 otherwise, 64 wrong use.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from babel.messages.catalog import Catalog

from tools.korean.catalogs import (
    REPOSITORY,
    find_differences,
    find_path,
    format_catalog,
    list_translations,
    read_catalogs,
    read_templates,
    update_catalog,
)
from tools.korean.messages import find_problems, read_glossary
from tools.korean.readme import build_readme

USAGE_EXIT = 64
ADVICE = "run python -m tools.korean update, then translate and remove `#, fuzzy` in docs/locale/ko, then update again"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(USAGE_EXIT, f"error: {message}\n")


def check_catalogs(catalogs: Mapping[str, Catalog], templates: Mapping[str, Catalog]) -> list[str]:
    """Return what is out of step, untranslated or wrong, by page."""
    glossary = read_glossary()
    lines = []
    for page, catalog in catalogs.items():
        lines += find_differences(page, catalog, templates[page])
        for english, korean in list_translations(catalog).items():
            lines += [f"{page}: {problem}: {korean}" for problem in find_problems(english, korean, glossary)]
    return lines


def check_readme(catalogs: Mapping[str, Catalog], root: Path = REPOSITORY) -> list[str]:
    """Compare README.ko.md with what the catalog gives."""
    try:
        wanted = _build_readme(catalogs, root)
    except KeyError as error:
        return [f"README.ko.md: can't be built without the translation of {error}"]
    path = root / "README.ko.md"
    there = path.read_text(encoding="utf-8") if path.exists() else ""
    return [] if there == wanted else ["README.ko.md: isn't what README.md and its catalog give"]


def main(arguments: Sequence[str] | None = None, *, root: Path = REPOSITORY) -> int:
    """Run one command and return its exit code."""
    parser = _Parser(prog="python -m tools.korean", description="Keep the Korean documentation in step.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("update", help="write the catalogs and README.ko.md")
    commands.add_parser("check", help="print what is out of step, untranslated or wrong")
    options = parser.parse_args(arguments)
    templates, catalogs = read_templates(root), read_catalogs(root)
    if options.command == "update":
        _update(catalogs, templates, root)
    problems = check_catalogs(catalogs, templates) + check_readme(catalogs, root)
    if problems:
        print("\n".join([*problems, ADVICE]))
    return 1 if problems else 0


def _update(catalogs: Mapping[str, Catalog], templates: Mapping[str, Catalog], root: Path) -> None:
    for page, catalog in catalogs.items():
        update_catalog(catalog, templates[page])
        path = find_path(page, root)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(format_catalog(catalog), encoding="utf-8")
    if list_translations(catalogs["README.md"]).keys() >= {
        str(message.id) for message in templates["README.md"] if message.id
    }:
        (root / "README.ko.md").write_text(_build_readme(catalogs, root), encoding="utf-8")


def _build_readme(catalogs: Mapping[str, Catalog], root: Path) -> str:
    english = (root / "README.md").read_text(encoding="utf-8")
    return build_readme(english, list_translations(catalogs["README.md"]))


if __name__ == "__main__":
    sys.exit(main())
