"""Secrets of a running config never reach a file: a reference stands for each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from seamark.connect.connector import Connector
from seamark.core.plugin_keys import find_secret_keys
from seamark.core.sensitive import mask_value
from seamark.errors import SeamarkError
from seamark.specs.pull_model import PulledSecret

_SCHEME = "secret://"


@dataclass(slots=True)
class SecretKeeper:
    """Gives a reference for each secret, and remembers what people have to do."""

    reveal: Callable[[str], str]
    notes: list[PulledSecret] = field(default_factory=list)
    _taken: set[str] = field(default_factory=set)

    def find_changes(self, connector: Connector, present: Mapping[str, str]) -> dict[str, str | None]:
        """What a file must change so that it says what runs; None takes a key out."""
        running = {key: value for key, value in connector.config.items() if key != "name"}
        changes: dict[str, str | None] = {key: None for key in present if key not in running}
        for key, value in running.items():
            kept = present.get(key)
            if kept != value and not (kept is not None and self._is_kept(connector, key, value=value, reference=kept)):
                changes[key] = self.protect(connector, key, value)
        return changes

    def protect(self, connector: Connector, key: str, value: str) -> str:
        """The value, or a reference where it is a secret."""
        if mask_value(key, value, find_secret_keys(connector.config, connector.cluster)) == value:
            return value
        variable = self._name_variable(connector.name, key)
        reference = f"{_SCHEME}env/{variable}"
        self.notes.append(PulledSecret(connector.owner, key, reference, f"set {variable} before the next plan"))
        return reference

    def _is_kept(self, connector: Connector, key: str, *, value: str, reference: str) -> bool:
        """Whether the file's own reference stays. It does, also where it leads to another secret than runs."""
        if not reference.startswith(_SCHEME):
            return False
        words = ""
        try:
            if self.reveal(reference) != value:
                words = "another value runs than the one it leads to"
        except SeamarkError:
            words = "it can't be read here, so it was not compared"
        if words:
            self.notes.append(PulledSecret(connector.owner, key, reference, words))
        return True

    def _name_variable(self, name: str, key: str) -> str:
        base = re.sub(r"[^A-Z0-9]+", "_", f"{name}_{key}".upper()).strip("_")
        if not base or base[0].isdigit():
            base = f"C_{base}"
        variable, number = base, 1
        while variable in self._taken:
            number += 1
            variable = f"{base}_{number}"
        self._taken.add(variable)
        return variable
