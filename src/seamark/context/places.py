"""Errors that list every place that was tried, in order, without any value."""

from __future__ import annotations

from collections.abc import Sequence

from seamark.context.environment import CONTEXT_VARIABLE, build_variable
from seamark.context.layer import KeyPath, Layer, show_key
from seamark.context.search import Place
from seamark.errors import ContextNotFoundError, MissingSettingError


def build_missing_setting(
    path: KeyPath,
    *,
    layers: Sequence[Layer],
    places: Sequence[Place],
    worker_places: Sequence[str] = (),
) -> MissingSettingError:
    """The error for a setting that is needed and stands nowhere."""
    key, variable = show_key(path), build_variable(path)
    tried = [f"{variable}: not set"]
    tried += [_describe(place, path, layers) for place in places]
    tried += [f"worker file {place}" for place in worker_places]
    tried.append("default: there is none")
    return MissingSettingError(
        f"{key} is needed and not set in context {path[1]}",
        cause="looked at " + "; ".join(f"{number}. {place}" for number, place in enumerate(tried, start=1)),
        hint=f"put {key} under contexts.{path[1]} in {_best_place(places)}, or export {variable}=…",
        context={"setting": key, "context": path[1], "variable": variable},
    )


def build_context_not_found(
    name: str | None, *, asked_by: str, names: Sequence[str], places: Sequence[Place]
) -> ContextNotFoundError:
    """The error for a context that is not there, or for no choice among several."""
    looked = "; ".join(f"{place.what} {place.shown}: {'read' if place.exists else 'not there'}" for place in places)
    known = f"known contexts: {', '.join(names)}" if names else "no context is known"
    if name is None:
        message = "no context is chosen" if names else "there is no context yet"
    else:
        message = f"there is no context {name}"
    if asked_by:
        known = f"{asked_by} asks for it; {known}"
    if names:
        hint = f"seamark context use NAME, --context NAME or {CONTEXT_VARIABLE}=NAME"
    else:
        hint = "seamark context add NAME --connect URL --bootstrap HOST:PORT"
    return ContextNotFoundError(
        message, cause=f"{known}; looked at {looked}", hint=hint, context={} if name is None else {"context": name}
    )


def _describe(place: Place, path: KeyPath, layers: Sequence[Layer]) -> str:
    shown = f"{place.what} {place.shown}"
    if not place.exists:
        return f"{shown}: not there"
    layer = next((layer for layer in layers if layer.place == place.shown), None)
    if layer is None or path[:2] not in layer.sections:
        return f"{shown}: read, has no context {path[1]}"
    return f"{shown}: read, {show_key(path)} {'found' if path in layer.values else 'not found'}"


def _best_place(places: Sequence[Place]) -> str:
    """Where a hint sends the user: the first file that is there, else the user's own."""
    if not places:
        return "its file"
    existing = [place for place in places if place.exists]
    chosen = existing[0] if existing else places[min(1, len(places) - 1)]
    return chosen.shown
