"""`python -m tools.structure check | figures | merge [--dry-run] [--only PACKAGE] [--without MODULE] | same COMMIT`.

`check` applies the layer contract of the packages to come to today's tree, through the map, and compares the number of
violations with `baseline`, which may only fall. It also fails if a module or definition isn't placed exactly once.
`merge` joins the modules with one `merged_into`, and `same` shows that the definitions are those of a commit before it.
Exit codes: 0 as expected, 1 otherwise, 64 wrong use.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from tools.structure.contract import PACKAGES, Violation, find_violations
from tools.structure.figures import Figures, read_figures
from tools.structure.merge import Merge, MergeError, select
from tools.structure.names import Names
from tools.structure.placement import FOLDER, Placement, find_problems, read_placement
from tools.structure.same import find_differences
from tools.structure.tree import ROOT, Tree, read_tree

USAGE_EXIT = 64
REPOSITORY = FOLDER.parents[1]
BASELINE = "baseline"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(USAGE_EXIT, f"error: {message}\n")


def main(arguments: Sequence[str] | None = None, *, root: Path = REPOSITORY, folder: Path = FOLDER) -> int:
    """Run one command on a repository and return its exit code."""
    options = _build_parser().parse_args(arguments)
    if options.command == "same":
        return _show_differences(root, options.commit)
    tree, placement = read_tree(root / "src" / ROOT), read_placement(folder)
    if problems := find_problems(tree, placement, packages=PACKAGES):
        print("\n".join(problems))
        print(f"error: the map doesn't place everything exactly once: {len(problems)} problems")
        return 1
    if options.command == "figures":
        return _show_figures(tree, placement)
    if options.command == "merge":
        chosen = select(placement, only=options.only, without=options.without)
        return _merge(root, folder, Names(tree, chosen), is_dry=options.dry_run)
    found = find_violations(tree.find_uses(), placement)
    return _compare(found, int((folder / BASELINE).read_text(encoding="utf-8")))


def _build_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m tools.structure", description="Check the map of the new structure.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check", help="compare the violations of the new layer contract with the baseline")
    commands.add_parser("figures", help="print the figures of the tree after the move and after the merge")
    merge = commands.add_parser("merge", help="join the modules that become one")
    merge.add_argument("--dry-run", action="store_true", help="write nothing")
    merge.add_argument("--only", metavar="PACKAGE", help="join the modules of one package only")
    merge.add_argument("--without", metavar="MODULE", action="append", default=[], help="leave this one as it is")
    same = commands.add_parser("same", help="compare the definitions with those of a commit before the merge")
    same.add_argument("commit", help="the commit whose map was applied")
    return parser


def _merge(root: Path, folder: Path, names: Names, *, is_dry: bool) -> int:
    merge = Merge(root, names, folder)
    try:
        moved = merge.build()
    except MergeError as error:
        print(error)
        print(f"error: nothing is merged: {len(str(error).splitlines())} problems")
        return 1
    if not is_dry:
        merge.write(moved)
    for line in names.notes.lines:
        print(f"note: {line}")
    joined = sum(len(fragments) > 1 for fragments in merge.targets.values())
    print(
        f"{len(names.tree.modules)} modules -> {len(merge.targets)}: {joined} joined, {len(moved.texts)} files written"
    )
    return 0


def _show_differences(root: Path, commit: str) -> int:
    differences, count = find_differences(root, commit)
    print("\n".join([*differences, f"{count} definitions compared, {len(differences)} differ"]))
    return 1 if differences else 0


def _compare(found: Sequence[Violation], allowed: int) -> int:
    if len(found) == allowed:
        return 0
    print("\n".join(map(str, found)))
    if len(found) > allowed:
        print(f"error: {len(found)} violations of the layer contract, and {BASELINE} allows {allowed}")
    else:
        print(f"error: only {len(found)} violations are left: write {len(found)} into tools/structure/{BASELINE}")
    return 1


def _show_figures(tree: Tree, placement: Placement) -> int:
    uses = tree.find_uses()
    for violation in find_violations(uses, placement):
        print(violation)
    for title, merged in (("after the move", False), ("after the merge", True)):
        _show(title, read_figures(tree, uses, placement, merged=merged), listed=merged)
    return 0


def _show(title: str, figures: Figures, *, listed: bool) -> None:
    print(f"{title}: {figures.modules} modules, core has {figures.core_lines} lines")
    share = 100 * len(figures.single) / figures.modules
    print(f"  {len(figures.single)} with a single importer ({share:.0f} %), {len(figures.short)} short")
    print(f"  long: {figures.long or 'none'}, crowded: {figures.crowded or 'none'}")
    print(f"  {len(figures.clashes)} clashing names, {len(figures.cycles)} import cycles")
    if listed:
        print("  short:", *figures.short, sep="\n    ")
        print("  clashing names:", *figures.clashes, sep="\n    ")
        print("  import cycles:", *(" ".join(cycle) for cycle in figures.cycles), sep="\n    ")


if __name__ == "__main__":
    sys.exit(main())
