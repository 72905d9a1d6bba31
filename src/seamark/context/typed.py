"""Raw texts → the types that settings have."""

from __future__ import annotations

from seamark.context.value import Value
from seamark.errors import InvalidSettingError

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
        raise build_invalid(value, "is empty", hint="give it a value or leave it out")
    return text


def refuse_reference(value: Value) -> None:
    """Refuse a secret reference where none is taken."""
    if value.is_reference:
        raise build_invalid(
            value,
            "takes no secret reference",
            hint="references stand in username, password, dsn, journal_key and below kafka",
        )


def build_invalid(value: Value, problem: str, *, hint: str) -> InvalidSettingError:
    """The error for a value that can't be used. It never shows the value."""
    return InvalidSettingError(
        f"{value.key} {problem}",
        cause=value.origin.exact,
        hint=hint,
        context={"setting": value.key, "origin": str(value.origin)},
    )
