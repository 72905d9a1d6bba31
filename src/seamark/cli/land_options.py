"""Options that the commands of `seamark land` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from seamark.cli.options import put_options
from seamark.cli.spec_options import PYTHON_OPTION, build_file_option

F = TypeVar("F", bound=Callable[..., Any])


def file_options(command: F) -> F:
    """Add `-f` and `--allow-python`."""
    result: F = put_options(command, (build_file_option(required=True), PYTHON_OPTION))
    return result
