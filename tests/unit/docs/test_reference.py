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
from tools.reference import PARTS, build_reference
from tools.reference.commands import GLOBAL_OPTIONS, escape, list_commands
from tools.reference.tables import PACKAGES, list_spec_levels

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"


def read_parts():
    """Return the parts that the pages contain."""
    pages = [path.read_text(encoding="utf-8") for path in REFERENCE.rglob("*.md")]
    return {name for page in pages for name in re.findall(r"^```\{reference\} (.+)$", page, re.MULTILINE)}


def test_every_command_of_the_first_level_has_its_page():
    assert {path.stem for path in (REFERENCE / "commands").glob("*.md")} == set(list_commands())
    for name in list_commands():
        assert (REFERENCE / "commands" / f"{name}.md").read_text(encoding="utf-8") == (
            f"# seamark {name}\n\n```{{reference}} commands {name}\n```\n"
        )


def test_every_part_is_on_a_page():
    wanted = {"overview", "errors", "metrics", "spec-keys"}
    wanted |= {f"commands {name}" for name in list_commands()} | {f"python {package}" for package in PACKAGES}
    assert read_parts() == wanted
    assert {part.split()[0] for part in wanted} == set(PARTS)


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=[" ".join(path) for path, _ in LEAVES])
def test_every_command_is_generated_with_its_options_and_examples(path, command):
    page = build_reference(f"commands {path[0]}")
    section = f"{page}\n## ".split(f"## `seamark {' '.join(path)}`\n", 1)[1].split("\n## ", 1)[0]
    for example in command.examples:
        assert example in section
    for param in command.params:
        if isinstance(param, click.Option) and not param.hidden and param.name not in GLOBAL_OPTIONS:
            assert re.search(rf"^\| `[^`]*{re.escape(max(param.opts, key=len))}\b", section, re.MULTILINE)
    assert f"`{' '.join(path)}`" in build_reference("overview")


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
