"""`seamark topics`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from seamark.cli.answer import Answer, add_missing, build_answer, pick_named
from seamark.cli.complete import complete_topics
from seamark.cli.confirm import ChangeOptions, change_command, change_options, confirm_and_apply
from seamark.cli.options import global_options, option, pass_session, show_command
from seamark.cli.session import Session
from seamark.cli.watch import watch_command
from seamark.errors import UsageError
from seamark.topics.views import build_topic_health_view, build_topic_view, build_topics_view

if TYPE_CHECKING:
    from seamark.changes.plan import PlannedChange
    from seamark.fleet import Fleet


@click.group
def topics() -> None:
    """Look at topics, and change them."""


@topics.command("list")
@click.argument("names", nargs=-1, metavar="[NAME|GLOB]...", shell_complete=complete_topics)
@option("--sizes", is_flag=True, help="Ask also for the records and the bytes of each.")
@option("--internal", is_flag=True, help="List Kafka's own topics too.")
@watch_command
def list_topics(fleet: Fleet, *, names: tuple[str, ...], sizes: bool, internal: bool) -> Answer:
    """List topics with their partitions and the health of their copies."""
    reading = fleet.topics.all(sizes=sizes)
    shown = pick_named(reading.items, names)
    rows = tuple(topic for topic in shown if internal or names or not topic.status.is_internal)
    asked = len(reading.items) + len(reading.failures)
    answer = build_answer(build_topics_view(reading, rows), reading.failures, asked=asked)
    return add_missing(answer, {topic.name for topic in reading.items}, names, noun="topic")


@topics.command("show")
@click.argument("name", shell_complete=complete_topics)
@show_command
def show_topic(fleet: Fleet, name: str) -> Answer:
    """Show one topic: partitions, bounds, bytes, configs of its own, and who uses it."""
    return Answer(build_topic_view(fleet.topics.one(name)))


@topics.command("health")
@click.argument("names", nargs=-1, metavar="[NAME|GLOB]...", shell_complete=complete_topics)
@watch_command
def topics_health(fleet: Fleet, *, names: tuple[str, ...]) -> Answer:
    """Look for what is wrong with topics, or soon will be, and say the next step.

    Partitions without a leader or with too few copies, skewed leaders and sizes, internal topics with a wrong cleanup
    policy, readers that retention has passed or soon will, topics made anew under a reader, stopped sinks whose
    position will be forgotten. Ends with 1 when something is in error.
    """
    health = fleet.topics.health()
    shown = health.narrow(names) if names else health
    asked = len(health.topics) + len(health.failures)
    answer = build_answer(build_topic_health_view(shown), health.failures, asked=asked)
    answer = add_missing(answer, health.topics, names, noun="topic")
    return replace(answer, exit_code=1) if shown.has_errors else answer


@topics.command("create")
@click.argument("name")
@option("--partitions", type=int, metavar="N", help="How many partitions; without it the brokers' default.")
@option("--replication", type=int, metavar="N", help="How many copies of each; without it the brokers' default.")
@option("--config", "configs", multiple=True, metavar="KEY=VALUE", help="A config of the topic; may be repeated.")
@change_options
@global_options
@pass_session
def create_topic(
    session: Session,
    *,
    name: str,
    partitions: int | None,
    replication: int | None,
    configs: tuple[str, ...],
    how: ChangeOptions,
) -> None:
    """Create a topic. Undoing it deletes it, as long as it is empty."""
    config = parse_pairs(configs)
    with session.fleet() as fleet:
        planned = fleet.topics.create(name, partitions=partitions, replication=replication, config=config)
        confirm_and_apply(session, fleet, planned, how)


@topics.command("delete")
@click.argument("name", shell_complete=complete_topics)
@change_command
def delete_topic(fleet: Fleet, *, name: str) -> PlannedChange:
    """Delete a topic with all its records, for good.

    Refused while a connector or a group uses it. The journal keeps its configs, its bounds and what groups had
    committed on it.
    """
    return fleet.topics.delete(name)


@topics.command("grow")
@click.argument("name", shell_complete=complete_topics)
@option("--to", type=int, required=True, metavar="N", help="How many partitions it shall have.")
@change_command
def grow_topic(fleet: Fleet, *, name: str, to: int) -> PlannedChange:
    """Give a topic more partitions, for good; the plan names whom it hurts."""
    return fleet.topics.grow(name, to=to)


@topics.command("alter")
@click.argument("name", shell_complete=complete_topics)
@option("--set", "values", multiple=True, metavar="KEY=VALUE", help="Give a config this value; may be repeated.")
@option("--unset", multiple=True, metavar="KEY", help="Let the brokers' default count again; may be repeated.")
@change_options
@global_options
@pass_session
def alter_topic(
    session: Session, *, name: str, values: tuple[str, ...], unset: tuple[str, ...], how: ChangeOptions
) -> None:
    """Change configs of a topic."""
    config = parse_pairs(values)
    with session.fleet() as fleet:
        confirm_and_apply(session, fleet, fleet.topics.alter(name, set=config, unset=unset), how)


def parse_pairs(texts: tuple[str, ...]) -> dict[str, str]:
    """Parse KEY=VALUE, each key once."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise UsageError(f"{text!r} is not KEY=VALUE", hint="as in retention.ms=604800000")
        if key in found:
            raise UsageError(f"{key} is given twice")
        found[key] = value
    return found
