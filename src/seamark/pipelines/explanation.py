"""A plan of a copy in the words of a person, as values that a view can set in type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from seamark.pipelines.copy_plan import CopyPlan, TopicEnd
from seamark.pipelines.routing import Routing
from seamark.pipelines.target_configs import ConfigChoice


@dataclass(frozen=True, slots=True)
class Fact:
    """One line: what it is about, what is so, and why."""

    name: str
    value: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that a reader of the plan is told. `held` are the configs that change at the cut-over, `copied` the rest."""

    title: str
    facts: tuple[Fact, ...]
    held: tuple[ConfigChoice, ...]
    copied: tuple[ConfigChoice, ...]
    notes: tuple[str, ...]
    refusals: tuple[str, ...]


def explain(plan: CopyPlan) -> Explanation:
    """The plan for a reader."""
    source, target = plan.source, plan.target
    return Explanation(
        title=f"copy {source.topic} ({source.partitions} partitions) to {target.topic} ({target.partitions})",
        facts=tuple(_list_facts(plan)),
        held=tuple(one for one in plan.configs if one.value != one.final),
        copied=tuple(one for one in plan.configs if one.value == one.final),
        notes=plan.notes,
        refusals=plan.refusals,
    )


def _list_facts(plan: CopyPlan) -> Iterator[Fact]:
    yield Fact("source", _name(plan.source))
    yield Fact("target", _name(plan.target), why="" if plan.target.topic_id else "a new topic")
    yield Fact("offsets", str(plan.size), why="records at most: compaction and transactions leave gaps")
    largest = max((one.size for one in plan.slices), default=0)
    yield Fact("slices", str(len(plan.slices)), why=f"the largest has {largest} offsets")
    yield Fact("placing", plan.routing.rule.value if plan.routing else "unknown", why=plan.evidence)
    if plan.routing:
        yield Fact("shuffle", "yes" if plan.routing.needs_shuffle else "no", why=_explain_shuffle(plan.routing))
        yield Fact("replay", _explain_replay(plan.routing), why="for readers that are moved; none is skipped")


def _name(end: TopicEnd) -> str:
    return f"{end.topic} in cluster {end.cluster_id}, {end.partitions} partitions, {end.replication_factor} copies"


def _explain_shuffle(routing: Routing) -> str:
    if not routing.needs_shuffle:
        return "every target partition is fed by one source partition"
    most = max(len(routing.sources_of(target)) for target in range(routing.lanes))
    if most == routing.sources:
        return "any source partition may feed any target"
    return f"up to {most} source partitions feed a target"


def _explain_replay(routing: Routing) -> str:
    if not routing.needs_shuffle:
        return "no record"
    return "no record for a reader at its end, else some, counted before the cut-over"
