"""The generated parts of the reference have everything that the code has, and each has its page."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import click
import pytest

from seamark import errors
from seamark.pipelines import spec as pipelines
from seamark.pipelines.progress import LandMetrics, LandProgress, PipelineLag, render_metrics
from seamark.specs.keys import build_file_keys
from tests.unit.cli.test_options import LEAVES
from tools.peers import State, read_comparison
from tools.reference import PARTS, build_reference
from tools.reference.commands import GLOBAL_OPTIONS, escape, list_commands
from tools.reference.tables import PACKAGES, list_spec_levels

# Their output is a long program or archive.
WITHOUT_OUTPUT = {"completion", "schema", "spark pack"}
REFERENCE = Path(__file__).parents[3] / "docs" / "reference"


def read_parts():
    """Return the parts that the pages contain."""
    pages = [path.read_text(encoding="utf-8") for path in REFERENCE.parent.rglob("*.md")]
    return {name for page in pages for name in re.findall(r"^```\{reference\} (.+)$", page, re.MULTILINE)}


def read_section(path):
    """Return what the page of a command says of it: below its title, or below its heading if it is in a group."""
    page = (REFERENCE / "commands" / f"{path[0]}.md").read_text(encoding="utf-8")
    if len(path) == 1:
        return page
    return f"{page}\n## ".split(f"\n## {' '.join(path)}\n", 1)[1].split("\n## ", 1)[0]


def test_every_command_of_the_first_level_has_its_page():
    assert {path.stem for path in (REFERENCE / "commands").glob("*.md")} == set(list_commands())
    for name in list_commands():
        assert (REFERENCE / "commands" / f"{name}.md").read_text(encoding="utf-8").startswith(f"# seamark {name}\n")


def test_every_part_is_on_a_page():
    wanted = {"overview", "errors", "exit-codes", "metrics", "spec-keys", "peers", "gaps"}
    wanted |= {"acls read", "acls journal", "acls changes", "connect-versions", "dependencies", "documents"}
    wanted |= {f"command {' '.join(path)}" for path, _ in LEAVES} | {f"python {package}" for package in PACKAGES}
    assert {part for part in read_parts() if not part.startswith("output ")} == wanted
    assert {part.split()[0] for part in read_parts()} == set(PARTS)


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=[" ".join(path) for path, _ in LEAVES])
def test_every_command_has_its_section_with_options_and_examples(path, command):
    section = read_section(path)
    parts = re.findall(r"^```\{reference\} (.+)$", section, re.MULTILINE)
    assert f"command {' '.join(path)}" in parts
    generated = build_reference(f"command {' '.join(path)}")
    for example in command.examples:
        assert example in generated
    for param in command.params:
        if isinstance(param, click.Option) and not param.hidden and param.name not in GLOBAL_OPTIONS:
            assert re.search(rf"^\| `[^`]*{re.escape(max(param.opts, key=len))}\b", generated, re.MULTILINE)
    assert f"`{' '.join(path)}`" in build_reference("overview")
    outputs = [part for part in parts if part.startswith(f"output seamark {' '.join(path)}")]
    assert outputs or " ".join(path) in WITHOUT_OUTPUT
    for part in outputs:
        assert build_reference(part).startswith("```console\n$ seamark ")


def test_every_section_links_to_its_command_from_the_overview():
    for target, anchor in re.findall(r"\]\(([^)#]+)(?:#([^)]+))?\)", build_reference("overview")):
        page = (REFERENCE / target).read_text(encoding="utf-8")
        assert not anchor or f"\n## {anchor.replace('-', ' ', 1)}\n" in page


def test_output_that_is_not_recorded_is_an_error():
    with pytest.raises(KeyError):
        build_reference("output seamark status --no-such-option=1")


def test_long_output_is_cut():
    assert build_reference("output seamark pull --dir pulled --dry-run").splitlines()[-2:] == ["…", "```"]


def test_every_error_is_generated_with_its_exit_code():
    rows = build_reference("errors").splitlines()
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.SeamarkError)]
    for kind in kinds:
        (row,) = [row for row in rows if f"`{kind.__name__}`" in row]
        assert f"| {kind.exit_code} |" in row
        assert not row.endswith("|  |"), "the error has no docstring"
    assert len(rows) == len(kinds) + 2


def test_every_metric_is_generated():
    metrics = LandMetrics("one")
    metrics.progressed(LandProgress(1, 1, 1.0, newest=1))
    metrics.measured(PipelineLag(1, 1.0))
    written = set(re.findall(r"^# TYPE (\w+)", render_metrics([metrics]), re.MULTILINE))
    listed = set(re.findall(r"^\| `(\w+)`", build_reference("metrics"), re.MULTILINE))
    assert len(written) > 10
    assert written <= listed


def test_every_key_of_a_spec_file_is_generated():
    page = build_reference("spec-keys")
    tables = [table for module in (pipelines,) for name, table in vars(module).items() if name.endswith("_KEYS")]
    for table in (build_file_keys(), *tables):
        for key in table:
            assert f"| `{key}` |" in page
    assert all(f"## {heading}\n" in page for heading in list_spec_levels())


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_generated(package):
    page = build_reference(f"python {package}")
    for name in import_module(package).__all__:
        assert re.search(rf"^\.\. auto\w+:: {package}\.{name}$", page, re.MULTILINE), name


def test_markup_in_help_is_shown_as_it_is():
    assert escape("NAME|GLOB and `a|b` in [x] <y>") == r"NAME\|GLOB and `a|b` in \[x\] \<y\>"


def test_comparison_has_every_capability_and_says_what_seamark_lacks():
    comparison = read_comparison()
    table, gaps = build_reference("peers"), build_reference("gaps")
    for one in comparison.capabilities:
        assert table.count(f"| {one.name} |") == 1
        assert (f"| {one.name} |" in gaps) == (one.seamark is not State.FULL)
    assert "| web interface | no | " in gaps
    assert "kafbat UI" in gaps
