"""A topic is made anew under its own name, from a copy: what a cut-over in place needs beside the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from seamark.changes.step import Intent, Observed, step_kind
from seamark.changes.world import World
from seamark.connectors.run_state import SetRunState
from seamark.copies.cutover.copy_looks import CopyLook
from seamark.copies.cutover.copy_port import COPIES
from seamark.copies.plan.copy_plan import build_back_name
from seamark.errors import RefusedError
from seamark.groups.group_image import read_commits
from seamark.topics.topic_image import read_topic


@step_kind("begin-back")
@dataclass(frozen=True, slots=True)
class RegisterCopyBack(CopyLook):
    """The way back from the copy to the old name is planned: its offsets are known now."""

    aspect: ClassVar[str] = "back"
    writes: ClassVar[bool] = True

    @property
    def subject(self) -> str:
        return f"topic/{self.source}"

    def intend(self, world: World) -> Intent:
        del world
        return Intent(before=None, after=f"copy {build_back_name(self.copy)} is registered")

    def describe(self) -> str:
        return f"plan the copy of {self.target} back to {self.subject}"

    def perform(self, world: World, intent: Intent) -> str:
        del intent
        return world.use(COPIES)().begin_back(self.copy)

    def observe(self, world: World, intent: Intent) -> Observed:
        del world, intent
        return Observed.BEFORE


@step_kind("start-restored")
@dataclass(frozen=True, slots=True)
class ResumeOnRecreatedTopic(SetRunState):
    """A connector of a cut-over in place starts. It does not, while the topic is not whole.

    The topic is whole as long as it is the old one, by its id; or when all of the copy is in the new one and each of
    `groups` has its positions there. Whoever started before would find an empty topic, or make another one.
    """

    copy: str = ""
    topic: str = ""
    topic_id: str = ""
    groups: tuple[str, ...] = ()

    def intend(self, world: World) -> Intent:
        if reason := self._find_reason(world):
            raise RefusedError(
                f"{self.subject} is not started: {self.topic} is not whole",
                cause=reason,
                hint="seamark journal resume finishes it; nothing is lost, the copy holds every record",
            )
        return SetRunState.intend(self, world)

    def _find_reason(self, world: World) -> str:
        topic = read_topic(world, self.topic)
        if topic is None:
            return "it was deleted, and is not there yet"
        if topic.topic_id == self.topic_id:
            return ""
        if left := world.use(COPIES)().count_left(build_back_name(self.copy)):
            return f"{left} offsets of the copy are not in it yet"
        missing = [group for group in self.groups if len(read_commits(world, group, topic.spots)) < len(topic.spots)]
        return f"{', '.join(missing)} have no positions in it yet" if missing else ""
