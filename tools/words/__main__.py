"""`python -m tools.words list [PACKAGE…] [--kind KIND] | count | check | record | vale`: words that texts avoid.

`list` prints each hit with its place, `count` the number of hits by package and kind. `check` compares the number of
hits of each package with `baseline` and fails on any difference; `record` writes `baseline`, which may only fall.
`vale` runs Vale over the documentation and fails on any finding. Exit codes: 0 as expected, 1 otherwise, 2 Vale isn't
installed, 64 wrong use.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from tools.words.hits import Hit, count_hits, find_hits, is_exempt, read_exceptions, read_words
from tools.words.texts import TextKind, read_texts
from tools.words.vale import check_pages

USAGE_EXIT = 64
FOLDER = Path(__file__).parent
REPOSITORY = FOLDER.parents[1]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(USAGE_EXIT, f"error: {message}\n")


def read_hits(root: Path = REPOSITORY, folder: Path = FOLDER) -> list[Hit]:
    """Find all hits of a repository, in the order of files and lines."""
    exceptions = read_exceptions(folder / "exceptions")
    hits = find_hits(read_texts(root), read_words(folder / "words.yml"))
    return sorted(
        (hit for hit in hits if not is_exempt(hit, exceptions)), key=lambda hit: (hit.path, hit.line, hit.word)
    )


def read_baseline(folder: Path = FOLDER) -> dict[str, int]:
    """Read the number of hits that each package may have."""
    lines = (folder / "baseline").read_text(encoding="utf-8").splitlines()
    return {name: int(number) for name, number in (line.split() for line in lines)}


def find_differences(found: Mapping[str, int], allowed: Mapping[str, int]) -> list[str]:
    """Compare counts with the baseline, and say what to do about each difference."""
    lines = []
    for package in sorted({*found, *allowed}):
        now, most = found.get(package, 0), allowed.get(package, 0)
        if now > most:
            lines.append(f"{package}: {now} words to avoid, {most} allowed; python -m tools.words list {package}")
        elif now < most:
            lines.append(f"{package}: {now} words to avoid, {most} allowed; lower it by python -m tools.words record")
    return lines


def main(arguments: Sequence[str] | None = None, *, root: Path = REPOSITORY, folder: Path = FOLDER) -> int:
    """Run one command and return its exit code."""
    options = _build_parser().parse_args(arguments)
    if options.command == "vale":
        return check_pages(root, read_words(folder / "words.yml"), read_exceptions(folder / "exceptions"))
    hits = read_hits(root, folder)
    counts = count_hits(hits)
    totals = {package: kinds.total() for package, kinds in counts.items()}
    if options.command == "list":
        _print_hits(hits, packages=options.packages, kind=options.kind)
        return 0
    if options.command == "count":
        _print_counts(counts)
        return 0
    if options.command == "record":
        text = "".join(f"{package} {total}\n" for package, total in sorted(totals.items()))
        (folder / "baseline").write_text(text, encoding="utf-8")
        return 0
    differences = find_differences(totals, read_baseline(folder))
    print("\n".join(differences), end="\n" if differences else "")
    return 1 if differences else 0


def _build_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m tools.words", description="Find words that texts avoid.")
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="print each hit with its place")
    listing.add_argument("packages", metavar="PACKAGE", nargs="*", help="packages below src/seamark, or folders")
    listing.add_argument("--kind", choices=list(TextKind), help="texts of this kind only")
    commands.add_parser("count", help="print the number of hits by package and kind")
    commands.add_parser("check", help="compare the numbers with the baseline")
    commands.add_parser("record", help="write the baseline")
    commands.add_parser("vale", help="print what Vale finds in the documentation")
    return parser


def _print_hits(hits: Sequence[Hit], *, packages: Sequence[str], kind: str | None) -> None:
    for hit in hits:
        if (not packages or hit.package in packages) and kind in (None, hit.kind):
            print(f"{hit.path}:{hit.line}: {hit.kind}: {hit.found}")


def _print_counts(counts: Mapping[str, Mapping[TextKind, int]]) -> None:
    kinds = list(TextKind)
    print(f"{'package':<14}" + "".join(f"{kind:>12}" for kind in (*kinds, "total")))
    rows = {**counts, "total": {kind: sum(row[kind] for row in counts.values()) for kind in kinds}}
    for package, row in rows.items():
        numbers = [row[kind] for kind in kinds]
        print(f"{package:<14}" + "".join(f"{number:>12,}" for number in (*numbers, sum(numbers))))


if __name__ == "__main__":
    sys.exit(main())
