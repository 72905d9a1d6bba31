"""Changing a contexts file in place: comments stay, the change is whole or not at all."""

from __future__ import annotations

import fcntl
import io
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seamark.context.layer import KeyPath, Layer, Origin, Trust, read_file_layer
from seamark.errors import AlreadyExistsError, ConfigurationError, DeadlineError

# Another writer holds the lock for one small file: milliseconds. Five seconds is a hung disk.
LOCK_SECONDS = 5.0
_PRIVATE = 0o600


@dataclass(frozen=True, slots=True)
class FileEdit:
    """A change: the content of one context, the current context, or both."""

    context: str | None = None
    content: Mapping[str, Any] = field(default_factory=dict, repr=False)
    current: str | None = None
    may_replace: bool = False


def build_already_exists(name: str, places: Iterable[Origin]) -> AlreadyExistsError:
    """The error for a name that a contexts file has already."""
    return AlreadyExistsError(
        f"context {name} already exists",
        cause=f"it is defined in {', '.join(map(str, places))}",
        hint="choose another name, or replace it: --replace",
        context={"context": name},
    )


def edit_file(
    path: Path,
    edit: FileEdit,
    *,
    place: str,
    is_private: bool = True,
    trust: Trust = Trust.USER,
    check: Callable[[Layer], None] | None = None,
) -> None:
    """Make the change. The new file is read back and compared before it takes the old one's place.

    `check` may refuse the new content. A link is followed, so a file that is kept elsewhere stays
    there. A private file is made readable by its owner only; another keeps the mode it has.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise ConfigurationError(f"{place} can't be written", cause=f"{path} is not a plain file", hint="choose a file")
    with _explain(place):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _lock_folder(path.parent, place):
        before = read_file_layer(path, place=place) if path.exists() else Layer(place)
        if edit.context is not None and not edit.may_replace:
            _refuse_known(edit.context, before)
        old = path.read_bytes().decode("utf-8-sig") if path.exists() else ""
        new = _render(old, edit)
        with _explain(place), _open_temporary(path) as temporary:
            temporary.write_text(new, encoding="utf-8", newline="")
            after = read_file_layer(temporary, place=place, trust=trust)
            _compare(before, after, edit, place=place)
            if check is not None:
                check(after)
            _replace(temporary, path, is_private=is_private)


def _render(old: str, edit: FileEdit) -> str:
    """The file's text after the change, its comments, order and quotation marks as they were."""
    # Loaded here: only a change needs it.
    from ruamel.yaml import YAML  # noqa: PLC0415
    from ruamel.yaml.comments import CommentedMap  # noqa: PLC0415

    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    # No line is folded: a changed line break would appear as a changed line in a review.
    yaml.width = 1 << 20
    yaml.indent(mapping=2, sequence=4, offset=2)
    root = yaml.load(old) if old.strip() else None
    # A file of comments only has no root; it goes before the new content as it is.
    head = old if root is None else ""
    if root is None:
        root = CommentedMap()
    if edit.current is not None:
        if "current" in root:
            root["current"] = edit.current
        else:
            root.insert(0, "current", edit.current)
    if edit.context is not None:
        if root.get("contexts") is None:
            root["contexts"] = CommentedMap()
        root["contexts"][edit.context] = _to_yaml(edit.content)
    stream = io.StringIO()
    yaml.dump(root, stream)
    text = stream.getvalue()
    if head and not head.endswith("\n"):
        head += "\n"
    return head + (text.replace("\n", "\r\n") if "\r\n" in old else text)


def _to_yaml(value: Any) -> Any:
    from ruamel.yaml.comments import CommentedMap, CommentedSeq  # noqa: PLC0415

    if isinstance(value, Mapping):
        return CommentedMap((key, _to_yaml(part)) for key, part in value.items())
    if isinstance(value, str | bool):
        return value
    items = CommentedSeq(value)
    items.fa.set_flow_style()
    return items


def _compare(before: Layer, after: Layer, edit: FileEdit, *, place: str) -> None:
    """Refuse a result in which anything but the wanted change has changed."""
    expected = {path: leaf.texts for path, leaf in before.values.items() if not _is_touched(path, edit)}
    found = {path: leaf.texts for path, leaf in after.values.items() if not _is_touched(path, edit)}
    has_context = edit.context is None or ("contexts", edit.context) in after.sections
    current = after.values.get(("current",))
    has_current = edit.current is None or (current is not None and current.text == edit.current)
    if expected != found or not has_context or not has_current:
        raise ConfigurationError(
            f"{place} can't be changed without changing other settings in it",
            cause="other settings of the file would change too; nothing was written",
            hint="edit the file by hand",
            context={"file": place},
        )


def _refuse_known(name: str, layer: Layer) -> None:
    """Look once more under the lock: another seamark may have been first."""
    known = layer.sections.get(("contexts", name))
    if known is not None:
        raise build_already_exists(name, [known])


def _is_touched(path: KeyPath, edit: FileEdit) -> bool:
    if path == ("current",):
        return edit.current is not None
    return edit.context is not None and path[:2] == ("contexts", edit.context)


@contextmanager
def _open_temporary(path: Path) -> Iterator[Path]:
    """A file beside the target that only its owner can read; gone again unless it was renamed."""
    descriptor, name = tempfile.mkstemp(prefix=".seamark-", suffix=".yaml", dir=path.parent)
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def _replace(temporary: Path, path: Path, *, is_private: bool) -> None:
    """Put the new file in the old one's place, on the disk before the name changes."""
    keeps_mode = path.exists() and not is_private
    temporary.chmod(path.stat().st_mode & 0o777 if keeps_mode else _PRIVATE)
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.replace(path)
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _lock_folder(folder: Path, place: str) -> Iterator[None]:
    """Keep other seamarks out. The folder itself is locked, so no lock file is left behind."""
    descriptor = os.open(folder, os.O_RDONLY)
    deadline = time.monotonic() + LOCK_SECONDS
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise DeadlineError(
                        f"another seamark process is changing {place}",
                        cause=f"its folder was locked for {LOCK_SECONDS:g} s",
                        hint="try again",
                    ) from None
            time.sleep(0.05)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _explain(place: str) -> Iterator[None]:
    """Name the file in what the operating system says."""
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"{place} can't be written",
            cause=error.strerror or type(error).__name__,
            hint="check that you can write to that folder",
            context={"file": place},
        ) from None
