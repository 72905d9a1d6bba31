"""One effective value: where it stands, what it refers to, how it may be shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from seamark.context.files import is_readable_by_others
from seamark.context.layer import DEFAULT, Origin
from seamark.context.reference import Secret, has_userinfo, is_masked, mask_urls
from seamark.context.schema import PART_KEYS, SettingKind
from seamark.core.secrets import MASK, is_sensitive
from seamark.errors import InvalidSettingError


class References(Protocol):
    """Resolve the references of one kind of file."""

    def is_reference(self, raw: str) -> bool:
        """Whether the whole text is one reference."""
        ...

    def has_reference(self, raw: str) -> bool:
        """Whether a reference stands anywhere in the text."""
        ...

    def resolve(self, raw: str, *, key: str, origin: Origin, folder: Path) -> str:
        """The text with its references resolved."""
        ...

    def locate_file(self, raw: str, *, folder: Path) -> Path | None:
        """The file a reference points to, or None."""
        ...


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of a context, as it may be shown to anybody.

    `value` is masked where it is a secret; a reference to a secret is shown as it is. `is_literal`
    is true where a secret stands in a file itself; `note` says if others can read that file.
    """

    key: str
    value: str
    origin: Origin
    is_sensitive: bool = False
    is_literal: bool = False
    note: str = ""


class Value:
    """A value that is not resolved yet. `key` is its name below the context.

    Not a dataclass, so that no `asdict` lays its text open. It never changes.
    """

    __slots__ = ("folder", "key", "origin", "raw", "references")

    def __init__(
        self,
        key: str,
        raw: str,
        origin: Origin = DEFAULT,
        *,
        folder: Path | None = None,
        references: References | None = None,
    ) -> None:
        self.key = key
        self.raw = raw
        self.origin = origin
        self.folder = folder or Path()
        self.references = references

    def __repr__(self) -> str:
        """Name and place; never the text."""
        return f"Value({self.key} from {self.origin})"

    def __deepcopy__(self, memo: object) -> Value:
        """Itself."""
        return self

    @property
    def is_reference(self) -> bool:
        """Whether it refers to a secret instead of holding one."""
        return self.references is not None and self.references.has_reference(self.raw)

    @property
    def is_secret(self) -> bool:
        """Whether what it holds must not be shown."""
        return self._is_sensitive_by_name or has_userinfo(self.raw)

    @property
    def _is_sensitive_by_name(self) -> bool:
        # Of connect.CLUSTER.KEY only the key counts: a cluster may be called token-service.
        section, _, rest = self.key.partition(".")
        last = rest.rpartition(".")[2]
        if section in PART_KEYS:
            return PART_KEYS[section][1].get(last) is SettingKind.SECRET
        return is_sensitive(last if section == "connect" else self.key)

    @property
    def is_literal(self) -> bool:
        """Whether it is a secret that is written out in a file."""
        return self.is_secret and not self.is_reference and self.origin.is_file

    def reveal(self) -> str:
        """The value itself. A mask that was saved in place of a secret is refused."""
        if is_masked(self.raw) and self.is_secret:
            raise InvalidSettingError(
                f"{self.key} contains the mask of a secret, not the secret",
                cause=f"{self.origin.exact}: a masked text was saved here",
                hint="write the secret, or better a reference: secret://env/NAME",
                context={"setting": self.key, "origin": str(self.origin)},
            )
        if self.references is None:
            return self.raw
        return self.references.resolve(self.raw, key=self.key, origin=self.origin, folder=self.folder)

    def as_secret(self) -> Secret:
        """The value as a secret that is looked up when it is revealed."""
        return Secret(self.reveal, is_literal=self.is_literal, origin=self.origin)

    def as_setting(self) -> Setting:
        """The value as it may be shown."""
        return Setting(
            self.key,
            self._show(),
            self.origin,
            is_sensitive=self.is_secret,
            is_literal=self.is_literal,
            note=self._build_note(),
        )

    def _show(self) -> str:
        if self.references is not None and self.references.is_reference(self.raw):
            return self.raw
        return MASK if self._is_sensitive_by_name else ", ".join(mask_urls(self.raw).split("\n"))

    def _build_note(self) -> str:
        if not self.is_secret:
            return ""
        path = self.origin.path if self.is_literal else None
        if self.references is not None and self.is_reference:
            path = self.references.locate_file(self.raw, folder=self.folder)
        return f"{path.name} is readable by others" if path is not None and is_readable_by_others(path) else ""


_BOOLS = {"true": True, "false": False}


def read_bool(value: Value) -> bool:
    """True or false. Words that YAML 1.1 took for one (`yes`, `on`) are refused: they are texts today."""
    found = _BOOLS.get(value.raw.strip().lower())
    if found is None:
        raise build_invalid(value, "must be true or false", hint=f"write {value.key}: true or false")
    return found


def read_text(value: Value) -> str:
    """A text that is not empty, with nothing to resolve but what the value's file allows."""
    text = value.reveal().strip()
    if not text:
        raise build_invalid(value, "is empty", hint="set a value or remove it")
    return text


def refuse_reference(value: Value) -> None:
    """Refuse a secret reference where none is taken."""
    if value.is_reference:
        raise build_invalid(
            value,
            "doesn't support secret references",
            hint="use references only in username, password, dsn, journal_key and below kafka",
        )


def build_invalid(value: Value, problem: str, *, hint: str) -> InvalidSettingError:
    """The error for a value that can't be used. It never shows the value."""
    return InvalidSettingError(
        f"{value.key} {problem}",
        cause=value.origin.exact,
        hint=hint,
        context={"setting": value.key, "origin": str(value.origin)},
    )
