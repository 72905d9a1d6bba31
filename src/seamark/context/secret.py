"""Values that must never be shown, and how to know them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Never

from seamark.context.origin import DEFAULT, Origin
from seamark.core.sensitive import MASK

# seamark's own mask, Kafka's `[hidden]`, and the stars of other tools' pages.
_MASKED = re.compile(r"""\(sensitive\)|\[hidden\]|(?<![^\s:/@='"])\*{3,}(?![^\s:/@;,'"])""")
# Up to the last @ of the word: a password may hold a slash that nobody quoted.
_URL_USERINFO = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*://)\S*@")


class Secret:
    """A value that shows itself as `(sensitive)` everywhere. `reveal()` is for the client alone.

    A reference is looked up when it is revealed, so a context opens without its secrets at hand.
    `is_literal` is true where the secret itself stands in a file.
    """

    __slots__ = ("_source", "is_literal", "origin")

    def __init__(self, source: str | Callable[[], str], *, is_literal: bool = False, origin: Origin = DEFAULT) -> None:
        self._source = source
        self.is_literal = is_literal
        self.origin = origin

    def reveal(self) -> str:
        """The value itself. Give it to a client; never print, log or keep it."""
        return self._source if isinstance(self._source, str) else self._source()

    def __str__(self) -> str:
        """The mask."""
        return MASK

    def __repr__(self) -> str:
        """The mask."""
        return MASK

    def __format__(self, spec: str) -> str:
        """The mask, whatever the format asks for."""
        return format(MASK, spec)

    def __copy__(self) -> Secret:
        """The same secret: a copy would be one more place to leak from."""
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        """The same secret."""
        return self

    def __reduce__(self) -> Never:
        """Refused: a pickled secret is a secret in a file."""
        raise TypeError("a Secret can't be pickled")


def is_masked(text: str) -> bool:
    """Whether the text is, or holds, what some tool shows in place of a secret."""
    return bool(_MASKED.search(text))


def has_userinfo(text: str) -> bool:
    """Whether a URL in the text carries a user name or a password."""
    return bool(_URL_USERINFO.search(text))


def mask_urls(text: str) -> str:
    """The text with the user part of every URL in it masked."""
    return _URL_USERINFO.sub(lambda match: f"{match['scheme']}{MASK}@", text)
