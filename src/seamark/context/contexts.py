"""All contexts that can be seen from here, and the way to open one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from seamark.context.build import build_context, merge_layers
from seamark.context.context import Context, build_context_not_found
from seamark.context.environment import CONTEXT_VARIABLE, build_environment_layer, build_override_layer
from seamark.context.layer import DEFAULT, Layer, Origin, OriginKind, read_file_layer
from seamark.context.search import SearchedFile, Surroundings, find_places


class Contexts:
    """What the contexts files and the environment say together.

    `layers` and `places` are what was read and what was looked at, strongest first.
    """

    __slots__ = ("_merged", "layers", "places", "surroundings")

    def __init__(
        self, layers: tuple[Layer, ...], places: tuple[SearchedFile, ...], *, surroundings: Surroundings
    ) -> None:
        self.layers = layers
        self.places = places
        self.surroundings = surroundings
        self._merged = merge_layers(layers)

    def __repr__(self) -> str:
        """The names alone."""
        return f"Contexts(names={self.names}, current={self.current!r})"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all contexts, sorted."""
        return tuple(sorted({path[1] for path in self._merged.sections}))

    @property
    def current(self) -> str | None:
        """The context that is used where none is named, or None. It may be one that does not exist."""
        chosen = self._choose(None)
        return chosen[0] if chosen else None

    @property
    def current_origin(self) -> Origin | None:
        """What chose the current context."""
        chosen = self._choose(None)
        return chosen[1] if chosen else None

    def locate(self, name: str) -> tuple[Origin, ...]:
        """Every place that says something of a context, strongest first."""
        path = ("contexts", name)
        return tuple(layer.sections[path] for layer in self.layers if path in layer.sections)

    def open(self, name: str | None = None, *, overrides: Mapping[str, str] | None = None) -> Context:
        """Open the context of that name, or the current one.

        `overrides` are values from flags, such as `kafka.bootstrap.servers` or `connect.game.urls`.
        """
        chosen = self._choose(name)
        if chosen is None:
            raise build_context_not_found(None, asked_by="", names=self.names, places=self.places)
        if chosen[0] not in self.names:
            asked_by = "" if chosen[1].kind is OriginKind.OVERRIDE else str(chosen[1])
            raise build_context_not_found(chosen[0], asked_by=asked_by, names=self.names, places=self.places)
        layers = self.layers
        if overrides:
            layers = (build_override_layer(overrides, chosen[0], cwd=self.surroundings.cwd), *layers)
        return build_context(
            chosen[0], chosen_by=chosen[1], layers=layers, places=self.places, surroundings=self.surroundings
        )

    def _choose(self, name: str | None) -> tuple[str, Origin] | None:
        if name:
            return name, Origin(OriginKind.OVERRIDE, "flag")
        variable = self.surroundings.environ.get(CONTEXT_VARIABLE, "").strip()
        if variable:
            return variable, Origin(OriginKind.ENVIRONMENT, CONTEXT_VARIABLE)
        current = self._merged.values.get(("current",))
        if current is not None:
            return current.text, current.origin
        # A single context needs no choice.
        return (self.names[0], DEFAULT) if len(self.names) == 1 else None


def load_contexts(
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    user_dir: Path | None = None,
    system_dir: Path | None = None,
) -> Contexts:
    """Read every contexts file and the environment. Nothing that they name is read yet."""
    surroundings = Surroundings.build(environ=environ, cwd=cwd, user_dir=user_dir, system_dir=system_dir)
    return load_from(surroundings)


def load_from(surroundings: Surroundings, *, must_exist: bool = True) -> Contexts:
    """The same, from surroundings that are known already."""
    places = find_places(surroundings, must_exist=must_exist)
    files = [read_file_layer(place.path, place=place.shown, trust=place.trust) for place in places if place.exists]
    variables = build_environment_layer(surroundings.environ, files, cwd=surroundings.cwd)
    layers = (variables, *files)
    return Contexts(layers, places, surroundings=surroundings)


def open_context(
    name: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    user_dir: Path | None = None,
    system_dir: Path | None = None,
    overrides: Mapping[str, str] | None = None,
) -> Context:
    """Open a context: the one named, else `SEAMARK_CONTEXT`, else `current` of the files, else the only one."""
    contexts = load_contexts(environ=environ, cwd=cwd, user_dir=user_dir, system_dir=system_dir)
    return contexts.open(name, overrides=overrides)
