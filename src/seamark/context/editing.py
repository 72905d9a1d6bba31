"""Changing a contexts file in place: comments stay, the change is whole or not at all."""

from __future__ import annotations

import fcntl
import io
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seamark.context.layer import KeyPath, Layer, Origin, Trust, read_file_layer
from seamark.errors import AlreadyExistsError, ConfigurationError, ContextNotFoundError, DeadlineError

# Another writer holds the lock for one small file: milliseconds. Five seconds is a hung disk.
LOCK_SECONDS = 5.0
_PRIVATE = 0o600


@dataclass(frozen=True, slots=True)
class FileEdit:
    """A change: the content of one context, its removal or its new name, the current context, or several of them.

    A renamed context keeps its settings and gets those of `content`. The key `current` follows a removed or renamed
    context.
    """

    context: str | None = None
    content: Mapping[str, Any] = field(default_factory=dict, repr=False)
    current: str | None = None
    may_replace: bool = False
    removes: bool = False
    renamed_to: str | None = None

    @property
    def writes_context(self) -> bool:
        """Whether the whole content of a context is written."""
        return self.context is not None and not self.removes and self.renamed_to is None


_REPLACE = "choose another name, or replace it: --replace"


def build_already_exists(name: str, places: Iterable[Origin], *, hint: str = _REPLACE) -> AlreadyExistsError:
    """The error for a name that a contexts file has already."""
    return AlreadyExistsError(
        f"context {name} already exists",
        cause=f"it is defined in {', '.join(map(str, places))}",
        hint=hint,
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
        if edit.writes_context and edit.context is not None and not edit.may_replace:
            _refuse_known(edit.context, before)
        if edit.renamed_to is not None:
            _refuse_known(edit.renamed_to, before, hint="choose another name")
        if edit.context is not None and not edit.writes_context:
            _refuse_unknown(edit.context, before, place=place)
        old = path.read_bytes().decode("utf-8-sig") if path.exists() else ""
        new = _render(_render_moved(old, edit, before), edit)
        with _explain(place), _open_temporary(path) as temporary:
            temporary.write_text(new, encoding="utf-8", newline="")
            after = _read_result(temporary, edit, place=place, trust=trust)
            _compare(before, after, edit, place=place)
            if check is not None:
                check(after)
            _replace(temporary, path, is_private=is_private)


def _render(old: str, edit: FileEdit) -> str:
    """The file's text after the change, its comments, order and quotation marks as they were."""
    # Loaded here: only a change needs it.
    from ruamel.yaml import YAML  # noqa: PLC0415
    from ruamel.yaml.comments import CommentedMap  # noqa: PLC0415

    if edit.current is None and not edit.writes_context and not edit.content:
        return old
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
    if edit.renamed_to is not None:
        if root["contexts"][edit.renamed_to] is None:
            root["contexts"][edit.renamed_to] = CommentedMap()
        root["contexts"][edit.renamed_to].update(_to_yaml(edit.content))
    elif edit.context is not None:
        if root.get("contexts") is None:
            root["contexts"] = CommentedMap()
        root["contexts"][edit.context] = _to_yaml(edit.content)
    stream = io.StringIO()
    yaml.dump(root, stream)
    text = stream.getvalue()
    if head and not head.endswith("\n"):
        head += "\n"
    return head + (text.replace("\n", "\r\n") if "\r\n" in old else text)


def _render_moved(old: str, edit: FileEdit, before: Layer) -> str:
    """Return the file's text without a removed context, or with the new name of a renamed one.

    Only their own lines change: the YAML library would delete the comment above the next context with a removed one.
    """
    if edit.context is None or edit.writes_context:
        return old
    lines = old.split("\n")
    current = before.values.get(("current",))
    is_current = current is not None and current.text == edit.context
    at = before.sections[("contexts", edit.context)]
    if edit.renamed_to is not None:
        for origin in (at, current.origin) if current is not None and is_current else (at,):
            _replace_word(lines, origin, edit.context, edit.renamed_to)
        return "\n".join(lines)
    removed = _find_block(lines, at)
    if current is not None and is_current:
        removed |= {current.origin.line - 1}
    return "\n".join(text for number, text in enumerate(lines) if number not in removed)


def _replace_word(lines: list[str], origin: Origin, old: str, new: str) -> None:
    text, start = lines[origin.line - 1], origin.column - 1
    found = re.compile(rf"(?P<quote>[\"']?){re.escape(old)}(?P=quote)").match(text, start)
    # A name in another notation stays as it is; then the result doesn't have the new one, and `_compare` refuses it.
    if found is not None:
        lines[origin.line - 1] = f"{text[:start]}{found['quote']}{new}{found['quote']}{text[found.end() :]}"


def _find_block(lines: Sequence[str], at: Origin) -> set[int]:
    """Return the lines of a context: its own, and the comment directly above it."""
    first, column = at.line - 1, at.column - 1
    if lines[first][:column].strip():
        # Inside of braces; nothing is removed, and `_compare` refuses the result.
        return set()
    end = first + 1
    for number in range(first + 1, len(lines)):
        text = lines[number]
        if text.strip() and _find_indent(text) <= column:
            break
        # Empty lines at the end separate the context from the next one.
        end = number + 1 if text.strip() else end
    while first and lines[first - 1].strip().startswith("#") and _find_indent(lines[first - 1]) == column:
        first -= 1
    return set(range(first, end))


def _find_indent(text: str) -> int:
    return len(text) - len(text.lstrip(" "))


def _read_result(path: Path, edit: FileEdit, *, place: str, trust: Trust) -> Layer:
    try:
        return read_file_layer(path, place=place, trust=trust)
    except ConfigurationError as error:
        if not edit.removes:
            raise
        # Such as an anchor in the removed context that another one uses. The line would be one of a file that no user
        # has seen.
        raise _build_entangled(place, cause=error.message) from None


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
    expected = {
        _find_new_path(path, edit): leaf.texts
        for path, leaf in before.values.items()
        if not _is_touched(path, edit, before)
    }
    # What a renamed context gets in addition is not compared.
    extra = {("contexts", str(edit.renamed_to), key) for key in edit.content}
    found = {
        path: leaf.texts
        for path, leaf in after.values.items()
        if path not in extra and not _is_touched(path, edit, before)
    }
    known = {path[1] for path in before.sections if len(path) == 2 and path[0] == "contexts"}
    wanted = known - {edit.context} if edit.removes or edit.renamed_to else known | {edit.context}
    wanted |= {edit.renamed_to}
    names = {path[1] for path in after.sections if len(path) == 2 and path[0] == "contexts"}
    current = after.values.get(("current",))
    has_current = edit.current is None or (current is not None and current.text == edit.current)
    if expected != found or names != wanted - {None} or not has_current:
        raise _build_entangled(place, cause="other settings of the file would change too")


def _find_new_path(path: KeyPath, edit: FileEdit) -> KeyPath:
    if edit.renamed_to is None or path[:2] != ("contexts", edit.context):
        return path
    return ("contexts", edit.renamed_to, *path[2:])


def _build_entangled(place: str, *, cause: str) -> ConfigurationError:
    return ConfigurationError(
        f"{place} can't be changed without changing other settings in it",
        cause=f"{cause}; nothing was written",
        hint="edit the file by hand",
        context={"file": place},
    )


def _refuse_known(name: str, layer: Layer, *, hint: str = _REPLACE) -> None:
    """Look once more under the lock: another seamark may have been first."""
    known = layer.sections.get(("contexts", name))
    if known is not None:
        raise build_already_exists(name, [known], hint=hint)


def _refuse_unknown(name: str, layer: Layer, *, place: str) -> None:
    """Look once more under the lock for the context that is to be removed or renamed."""
    if ("contexts", name) not in layer.sections:
        raise ContextNotFoundError(
            f"there is no context {name} in {place} any more",
            cause="another process has just changed the file",
            hint="list the contexts: seamark context list",
            context={"context": name},
        )


def _is_touched(path: KeyPath, edit: FileEdit, before: Layer) -> bool:
    if path == ("current",):
        current = before.values.get(path)
        follows = current is not None and current.text == edit.context and not edit.writes_context
        return edit.current is not None or follows
    return edit.context is not None and edit.renamed_to is None and path[:2] == ("contexts", edit.context)


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
