"""`docs/reference/command-line.md` names what all commands have in common."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from seamark import errors
from seamark.cli.main import root
from seamark.report.data import OutputFormat

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "command-line.md").read_text()

CODES = {0, 2} | {
    kind.exit_code for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "exit_code")
}


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_exit_code_is_explained(code):
    assert re.search(rf"^\| {code} \| \w", PAGE, re.MULTILINE)


def test_no_other_exit_code_is_claimed():
    assert {int(code) for code in re.findall(r"^\| (\d+) \| \w", PAGE, re.MULTILINE)} == CODES


@pytest.mark.parametrize("form", OutputFormat)
def test_every_output_format_is_explained(form):
    assert f"| `{form}` |" in PAGE


@pytest.mark.parametrize("param", [param for param in root.params if isinstance(param, click.Option) and param.envvar])
def test_every_global_variable_is_explained(param):
    assert f"| `{param.envvar}` |" in PAGE
