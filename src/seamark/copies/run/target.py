"""The target of a copy: made with the configs of the plan, through the journal where there is one."""

from __future__ import annotations

from dataclasses import replace

from seamark.changes.planned import Planned
from seamark.copies.plan.copy_plan import CopyPlan
from seamark.copies.plan.place import CopyEndpoint
from seamark.copies.plan.source import find_topic
from seamark.errors import RefusedError, SeamarkError
from seamark.kafka.topic import TopicStatus
from seamark.topics.topic import CreateTopic
from seamark.topics.topic_change import AlterTopicConfig


class TargetTopic:
    """The target of one plan, looked at and made."""

    def __init__(self, plan: CopyPlan, endpoint: CopyEndpoint) -> None:
        self._plan = plan
        self._endpoint = endpoint

    def ensure(self, *, is_begun: bool) -> CopyPlan:
        """Make the topic where it is missing; the plan then has its id.

        `is_begun`: the plan was run before, so that a topic that is missing or another one is a loss.
        """
        target = self._plan.target
        found = find_topic(self._endpoint.kafka, target.topic)
        if is_begun:
            return self._check(found)
        if found is None:
            self._change(self._build_create())
            found = find_topic(self._endpoint.kafka, target.topic)
        elif (alter := self._build_alter(found)) is not None:
            self._change(alter)
        return self._check(found)

    def _check(self, found: TopicStatus | None) -> CopyPlan:
        target = self._plan.target
        if found is None:
            raise RefusedError(
                f"the target of the copy, {target.topic}, is not there any more",
                hint="what was copied is gone with it: make a new plan",
            )
        if target.topic_id and found.topic_id != target.topic_id:
            raise RefusedError(
                f"the topic {target.topic} is another one than the target of the copy",
                cause=f"its id is {found.topic_id}, and the plan's is {target.topic_id}: it was deleted and made anew",
                hint="make a new plan, with a new target",
            )
        if len(found.partitions) != target.partitions:
            raise RefusedError(
                f"the topic {target.topic} has {len(found.partitions)} partitions, and the plan says "
                f"{target.partitions}",
                hint="give the target another name: seamark copy plan … --to NAME",
            )
        return replace(self._plan, target=replace(target, topic_id=found.topic_id))

    def _build_create(self) -> Planned:
        target = self._plan.target
        configs = {choice.key: choice.value for choice in self._plan.configs}
        step = CreateTopic(target.topic, target.partitions, target.replication_factor, configs)
        return self._build(f"create topic {target.topic} for copy {self._plan.id}", step)

    def _build_alter(self, found: TopicStatus) -> Planned | None:
        wanted = {choice.key: choice.value for choice in self._plan.configs}
        if all(found.own_configs.get(key) == value for key, value in wanted.items()):
            return None
        step = AlterTopicConfig(found.name, wanted)
        return self._build(f"alter topic {found.name} for copy {self._plan.id}", step)

    def _build(self, title: str, step: CreateTopic | AlterTopicConfig) -> Planned:
        return self._endpoint.planner().plan(title, [step])

    def _change(self, planned: Planned) -> None:
        result = self._endpoint.apply(planned)
        if result.is_done:
            return
        failed = next((step.error for step in result.steps if step.error is not None), None)
        raise failed or SeamarkError(
            f"the target {self._plan.target.topic} was not made",
            hint=f"seamark journal show {result.change} says why; then run the copy again",
        )
