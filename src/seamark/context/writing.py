"""Adding, renaming, removing and choosing contexts: changes to a contexts file that keep its comments."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seamark.context.build import build_context, merge_layers
from seamark.context.context import build_context_not_found
from seamark.context.contexts import Contexts, load_from
from seamark.context.editing import FileEdit, build_already_exists, edit_file
from seamark.context.environment import CONFIG_VARIABLE
from seamark.context.journal import JournalSettings
from seamark.context.layer import Layer, Origin, OriginKind, Trust
from seamark.context.reference import is_masked
from seamark.context.schema import check_name
from seamark.context.search import CONFIG_FILE, PROJECT_FILE, Surroundings, find_project_file, find_state_dir
from seamark.errors import AlreadyExistsError, InvalidSettingError, RefusedError, SecretError, UsageError

Plain = str | bool | Sequence[str] | None


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """Which file was changed.

    `shadowed_by` is what still chooses another context than the one wanted. `journal` is the folder in which the
    journal of a removed or renamed context stays.
    """

    path: Path
    place: str
    shadowed_by: Origin | None = field(default=None)
    journal: Path | None = field(default=None)


def add_context(
    name: str,
    *,
    kafka: Mapping[str, str] | None = None,
    connect: Mapping[str, Mapping[str, Plain]] | None = None,
    protected: bool = False,
    insecure: bool = False,
    replace: bool = False,
    make_current: bool = False,
    project: bool = False,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    user_dir: Path | None = None,
    system_dir: Path | None = None,
) -> WrittenFile:
    """Write a context into the user's file, or into the project's.

    The context is opened before the file is replaced, so what can't be used is never written. A name
    that a contexts file has already is refused without `replace`.
    """
    surroundings = Surroundings.build(environ=environ, cwd=cwd, user_dir=user_dir, system_dir=system_dir)
    check_name(name, what="context", where="the name")
    content = _build_content(kafka or {}, connect or {}, {"protected": protected, "insecure": insecure})
    contexts = load_from(surroundings, must_exist=False)
    known = [origin for origin in contexts.locate(name) if origin.is_file]
    if known and not replace:
        raise build_already_exists(name, known)
    edit = FileEdit(name, content, current=name if make_current else None, may_replace=replace)
    target = _find_target(surroundings, project=project)
    edit_file(
        target,
        edit,
        place=surroundings.show(target),
        is_private=_is_user_file(target, surroundings),
        trust=Trust.PROJECT if project else Trust.USER,
        check=lambda layer: _check_opens(name, layer, contexts, target),
    )
    return _report(name, target, surroundings, wanted=make_current)


def use_context(
    name: str,
    *,
    project: bool = False,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    user_dir: Path | None = None,
    system_dir: Path | None = None,
) -> WrittenFile:
    """Make a context the current one in the user's file, or in the project's."""
    surroundings = Surroundings.build(environ=environ, cwd=cwd, user_dir=user_dir, system_dir=system_dir)
    contexts = load_from(surroundings, must_exist=False)
    if name not in contexts.names:
        raise build_context_not_found(name, asked_by="", names=contexts.names, places=contexts.places)
    target = _find_target(surroundings, project=project)
    private = _is_user_file(target, surroundings)
    edit_file(target, FileEdit(current=name), place=surroundings.show(target), is_private=private)
    return _report(name, target, surroundings, wanted=True)


def remove_context(
    name: str,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    user_dir: Path | None = None,
    system_dir: Path | None = None,
) -> WrittenFile:
    """Remove a context from the user's file, with the comment above it. Its journal stays.

    If it was the current context, the file names none afterwards.

    Raises:
        ContextNotFoundError: There is no context of that name.
        RefusedError: Another file or the environment defines it, or a part of it.
    """
    surroundings = Surroundings.build(environ=environ, cwd=cwd, user_dir=user_dir, system_dir=system_dir)
    contexts, target = _open_own(name, surroundings, verb="remove")
    _edit_own(target, FileEdit(name, removes=True), surroundings)
    return _report_old(name, target, contexts)


def rename_context(
    name: str,
    new: str,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    user_dir: Path | None = None,
    system_dir: Path | None = None,
) -> WrittenFile:
    """Rename a context in the user's file. Its journal and the keys of that journal stay usable.

    If it was the current context of that file, it is so under its new name.

    Raises:
        ContextNotFoundError: There is no context of that name.
        AlreadyExistsError: There is a context of the new name, or journal keys of an earlier one.
        RefusedError: Another file or the environment defines the context, or a part of it.
    """
    surroundings = Surroundings.build(environ=environ, cwd=cwd, user_dir=user_dir, system_dir=system_dir)
    check_name(new, what="context", where="the new name")
    contexts, target = _open_own(name, surroundings, verb="rename")
    if known := contexts.locate(new):
        raise build_already_exists(new, known, hint="choose another name")
    folder = _find_journal_folder(name, contexts)
    _copy_journal_keys(name, new, surroundings)
    content = {} if folder is None else {"journal_folder": str(folder)}
    _edit_own(target, FileEdit(name, content, renamed_to=new), surroundings)
    return _report_old(name, target, contexts)


def _open_own(name: str, surroundings: Surroundings, *, verb: str) -> tuple[Contexts, Path]:
    """Return all contexts and the user's file, which alone defines the context of that name."""
    contexts = load_from(surroundings, must_exist=False)
    if name not in contexts.names:
        raise build_context_not_found(name, asked_by="", names=contexts.names, places=contexts.places)
    target = _find_target(surroundings, project=False)
    own = surroundings.show(target)
    others = [origin for origin in contexts.locate(name) if origin.place != own]
    if others:
        raise RefusedError(
            f"can't {verb} context {name}; no changes were made",
            cause=f"it is defined in {', '.join(map(str, others))}, and this command changes only {own}",
            hint=f"edit {others[0].place}",
            context={"context": name},
        )
    return contexts, target


def _edit_own(target: Path, edit: FileEdit, surroundings: Surroundings) -> None:
    edit_file(
        target, edit, place=surroundings.show(target), is_private=_is_user_file(target, surroundings), trust=Trust.USER
    )


def _find_journal_folder(name: str, contexts: Contexts) -> Path | None:
    """Return the folder of a journal that is found by the name of the context; None if there is none.

    It isn't moved: a process that writes to it would lose its journal in the middle of a change.
    """
    if any(("contexts", name, "journal_folder") in layer.values for layer in contexts.layers):
        return None
    folder = _build_journal_settings(name, contexts.surroundings).folder
    return folder if folder.exists() else None


def _copy_journal_keys(name: str, new: str, surroundings: Surroundings) -> None:
    """Copy the keys of a rotation, which are found by the name of the context: without them its journal is unreadable.

    The old files stay, because a context of another contexts file may have the same name.
    """
    old, copy = (_build_journal_settings(one, surroundings).own_key_file for one in (name, new))
    for suffix in ("", ".next"):
        source, target = (path.with_name(f"{path.name}{suffix}") for path in (old, copy))
        if not source.exists():
            continue
        if target.exists() and target.read_bytes() != source.read_bytes():
            raise AlreadyExistsError(
                f"context {name} can't be renamed to {new}; no changes were made",
                cause=f"{target} has the journal keys of an earlier context {new}",
                hint="choose another name",
                context={"context": new},
            )
        with suppress(FileExistsError):
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(source.read_bytes())
                file.flush()
                os.fsync(file.fileno())


def _build_journal_settings(name: str, surroundings: Surroundings) -> JournalSettings:
    return JournalSettings(name, find_state_dir=lambda: find_state_dir(surroundings.environ))


def _report_old(name: str, target: Path, contexts: Contexts) -> WrittenFile:
    """Report the change, and what still chooses the context by its old name."""
    surroundings = contexts.surroundings
    after = load_from(surroundings)
    shadow = after.current_origin if after.current == name else None
    return WrittenFile(target, surroundings.show(target), shadow, _find_journal_folder(name, contexts))


def _find_target(surroundings: Surroundings, *, project: bool) -> Path:
    named = surroundings.environ.get(CONFIG_VARIABLE, "").strip()
    if named:
        if project:
            raise UsageError(
                f"{CONFIG_VARIABLE} names the only contexts file, so the project's file is not used",
                hint=f"unset {CONFIG_VARIABLE}, or omit --project",
            )
        return surroundings.cwd / named
    if project:
        return find_project_file(surroundings.cwd) or surroundings.cwd / PROJECT_FILE
    return surroundings.user_dir / CONFIG_FILE


def _is_user_file(target: Path, surroundings: Surroundings) -> bool:
    return target == surroundings.user_dir / CONFIG_FILE


def _build_content(
    kafka: Mapping[str, str], connect: Mapping[str, Mapping[str, Plain]], flags: Mapping[str, bool]
) -> dict[str, Any]:
    """What will stand below the context's name. Empty parts and defaults are left out."""
    clusters = {
        name: {key: value for key, value in part.items() if value is not None} for name, part in connect.items()
    }
    for key, text in kafka.items():
        _refuse_mask(f"kafka.{key}", text)
    for name, part in clusters.items():
        for key, value in part.items():
            _refuse_mask(f"connect.{name}.{key}", str(value) if isinstance(value, str | bool) else "\n".join(value))
    content: dict[str, Any] = {"kafka": dict(kafka), "connect": clusters}
    content |= {key: True for key, is_set in flags.items() if is_set}
    return {key: value for key, value in content.items() if value}


def _refuse_mask(key: str, text: str) -> None:
    if is_masked(text):
        raise InvalidSettingError(
            f"{key} contains the mask of a secret, not the secret",
            cause="it was copied from an output that masks secrets",
            hint="pass the secret, or better a reference: secret://env/NAME",
            context={"setting": key},
        )


def _check_opens(name: str, layer: Layer, contexts: Contexts, target: Path) -> None:
    """Open the context as it will be. Its secrets need not be at hand yet."""
    shown = contexts.surroundings.show(target)
    # The environment stays out: a context is checked as it is written, not as it is overridden today.
    others = [other for other in contexts.layers[1:] if other.place != shown]
    layers = (layer, *others)
    if ("contexts", name) not in merge_layers(layers).sections:
        return
    try:
        build_context(
            name,
            chosen_by=Origin(OriginKind.OVERRIDE, "flag"),
            layers=layers,
            places=contexts.places,
            surroundings=contexts.surroundings,
        )
    except SecretError:
        return


def _report(name: str, target: Path, surroundings: Surroundings, *, wanted: bool) -> WrittenFile:
    after = load_from(surroundings)
    shadow = after.current_origin if wanted and after.current != name else None
    return WrittenFile(target, surroundings.show(target), shadow)
