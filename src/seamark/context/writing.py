"""Adding contexts and choosing the current one: changes to a contexts file that keep its comments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seamark.context.build import build_context, merge_layers
from seamark.context.context import build_context_not_found
from seamark.context.contexts import Contexts, load_from
from seamark.context.editing import FileEdit, build_already_exists, edit_file
from seamark.context.environment import CONFIG_VARIABLE
from seamark.context.layer import Layer, Origin, OriginKind, Trust
from seamark.context.reference import is_masked
from seamark.context.schema import check_name
from seamark.context.search import CONFIG_FILE, PROJECT_FILE, Surroundings, find_project_file
from seamark.errors import InvalidSettingError, SecretError, UsageError

Plain = str | bool | Sequence[str] | None


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """Which file was changed. `shadowed_by` is what still chooses another context than the one wanted."""

    path: Path
    place: str
    shadowed_by: Origin | None = field(default=None)


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
