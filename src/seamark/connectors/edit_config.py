"""Some keys of a connector's config get other values; the rest stays as Connect holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from seamark.changes.comparison import SETTLE_SECONDS
from seamark.changes.images import build_config_image, find_typed, is_same_image, is_sealed
from seamark.changes.last_look import take_last_look
from seamark.changes.step import CanNotUndo, Intent, Observed, Step
from seamark.changes.world import World
from seamark.connect.ports import CONNECT
from seamark.connectors.config_image import compare_config, read_config_image
from seamark.connectors.read import read_config
from seamark.errors import RefusedError


@dataclass(frozen=True, slots=True)
class EditConfig(Step):
    """What the steps share that change some keys. None takes a key out.

    The connector should be stopped: from 3.9 on Connect restarts tasks for a key that is not theirs, before it does
    not.
    """

    aspect: ClassVar[str] = "config"
    settle_seconds: ClassVar[float] = SETTLE_SECONDS

    cluster: str
    name: str
    values: Mapping[str, str | None]

    @property
    def subject(self) -> str:
        return f"connector/{self.cluster}/{self.name}"

    def intend(self, world: World) -> Intent:
        self.refuse_keys()
        before = read_config_image(world, self.cluster, self.name, secret=())
        if before is not None:
            self._check_types(world, before["config"])
        return Intent(before=before, after=None if before is None else {"config": self._merge(before["config"])})

    def perform(self, world: World, intent: Intent) -> None:
        config = take_last_look(world, self.subject, lambda: read_config(world, self.cluster, self.name))
        if config is None:
            raise RefusedError(f"{self.subject} is not there", hint="seamark connectors list shows what is there")
        # The journal holds no secrets, so the rest is sent as it is read now; it must be what was seen.
        image = build_config_image(config, world, cluster=self.cluster)
        if intent.before is None or not is_same_image(image, intent.before["config"], world):
            raise RefusedError(f"{self.subject} was changed a moment ago by somebody else; nothing was sent")
        world.use(CONNECT)(self.cluster).put_config(self.name, self._merge(config))

    def observe(self, world: World, intent: Intent) -> Observed:
        return compare_config(read_config_image(world, self.cluster, self.name, secret=()), intent, world)

    def refuse_keys(self) -> None:
        """Refuse keys that this step must not touch."""

    def _check_types(self, world: World, image: Mapping[str, Any]) -> None:
        """Refuse keys that the connector's plugins type as PASSWORD: a step holds its values in clear."""
        plain = {key: value for key, value in self._merge(image).items() if isinstance(value, str)}
        if secret := sorted(find_typed(world, self.cluster, plain).intersection(self.values)):
            raise RefusedError(
                f"can't change {', '.join(secret)} of {self.subject}; no changes were made",
                cause="their type is PASSWORD or unknown, and a plan holds no secrets",
                hint="change these keys with `seamark connectors change`",
            )

    def find_former(self, intent: Intent) -> dict[str, str | None] | CanNotUndo:
        """Return the values that the keys had before, as far as the journal holds them."""
        before: Mapping[str, Any] = (intent.before or {}).get("config", {})
        former = {key: before.get(key) for key in self.values}
        if lost := [key for key, value in former.items() if is_sealed(value)]:
            return CanNotUndo(f"the former value of {', '.join(lost)} is a secret, and the journal holds no secrets")
        return former

    def say_values(self) -> str:
        """The values in words."""
        return ", ".join(f"no {key}" if value is None else f"{key}={value}" for key, value in self.values.items())

    def _merge(self, config: Mapping[str, Any]) -> dict[str, Any]:
        merged = {**config, **self.values}
        return {key: value for key, value in merged.items() if value is not None}
