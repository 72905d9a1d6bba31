"""Errors as Spark shows them: of an error of a task, or of a writer on the driver, it passes on the message alone."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from seamark.errors import SeamarkError

P = ParamSpec("P")
T = TypeVar("T")


def tell(call: Callable[P, T]) -> Callable[P, T]:
    """Put cause and hint into the message of what a call raises. For everything of a sink that Spark calls."""

    @functools.wraps(call)
    def told(*arguments: P.args, **keywords: P.kwargs) -> T:
        try:
            return call(*arguments, **keywords)
        except SeamarkError as error:
            words = (error.message, error.cause and f"cause: {error.cause}", error.hint and f"hint: {error.hint}")
            error.args = ("\n  ".join(word for word in words if word),)
            raise

    return told
