"""`seamark topics`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from seamark.cli.answer import Answer, add_missing, build_answer, pick_named
from seamark.cli.complete import complete_topics
from seamark.cli.confirm import ChangeOptions, change_command, change_options, confirm_and_apply
from seamark.cli.options import Number, global_options, option, pass_session, show_command
from seamark.cli.session import Session
from seamark.cli.tree import group
from seamark.cli.watch import watch_command
from seamark.errors import UsageError
from seamark.topics.views import build_topic_health_view, build_topic_view, build_topics_view

if TYPE_CHECKING:
    from seamark.changes.plan import PlannedChange
    from seamark.fleet import Fleet


@group(
    {"grow": "topics add-partitions", "set": "topics update", "produce": "topics --help", "consume": "topics --help"}
)
def topics() -> None:
    """Inspect and change topics."""


@topics.command("list", examples=["seamark topics list", "seamark topics list 'game-*' --sizes"])
@click.argument("names", nargs=-1, metavar="[NAME|GLOB]...", shell_complete=complete_topics)
@option("--sizes", is_flag=True, help="Add the number of records and bytes.")
@option("--internal", is_flag=True, help="Include internal topics of Kafka.")
@watch_command
def list_topics(fleet: Fleet, *, names: tuple[str, ...], sizes: bool, internal: bool) -> Answer:
    """List topics, partitions and replica health."""
    reading = fleet.topics.list(sizes=sizes)
    shown = pick_named(reading.items, names)
    rows = tuple(topic for topic in shown if internal or names or not topic.status.is_internal)
    asked = len(reading.items) + len(reading.failures)
    answer = build_answer(build_topics_view(reading, rows), reading.failures, asked=asked)
    return add_missing(answer, {topic.name for topic in reading.items}, names, noun="topic")


@topics.command("show", examples=["seamark topics show orders"])
@click.argument("name", shell_complete=complete_topics)
@show_command
def show_topic(fleet: Fleet, name: str) -> Answer:
    """Show partitions, configs and consumers of a topic."""
    return Answer(build_topic_view(fleet.topics.get(name)))


@topics.command("health", examples=["seamark topics health", "seamark topics health 'game-*'"])
@click.argument("names", nargs=-1, metavar="[NAME|GLOB]...", shell_complete=complete_topics)
@watch_command
def topics_health(fleet: Fleet, *, names: tuple[str, ...]) -> Answer:
    """Find problems of topics and how to fix them.

    Checks partitions without a leader or with too few replicas, skewed leaders and sizes, cleanup policies of internal
    topics, consumers that retention has overtaken or soon will, recreated topics, and stopped sinks whose offsets will
    expire. Ends with exit code 1 if a finding is an error.
    """
    health = fleet.topics.health()
    shown = health.narrow(names) if names else health
    asked = len(health.topics) + len(health.failures)
    answer = build_answer(build_topic_health_view(shown), health.failures, asked=asked)
    answer = add_missing(answer, health.topics, names, noun="topic")
    return replace(answer, exit_code=1) if shown.has_errors else answer


@topics.command(
    "create",
    examples=[
        "seamark topics create orders --partitions 12 --dry-run",
        "seamark topics create orders --partitions 12 --config retention.ms=604800000",
    ],
)
@click.argument("name")
@option("--partitions", type=Number(minimum=1), metavar="N", help="Partition count. Default: the brokers' default.")
@option(
    "--replication-factor",
    type=Number(minimum=1),
    metavar="N",
    help="Replicas of each partition. Default: the brokers'.",
)
@option("--config", "configs", multiple=True, metavar="KEY=VALUE", help="Set a config; repeatable.")
@change_options
@global_options
@pass_session
def create_topic(
    session: Session,
    *,
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    how: ChangeOptions,
) -> None:
    """Create a topic.

    `seamark journal undo` deletes it if it is still empty.
    """
    config = parse_pairs(configs)
    with session.fleet() as fleet:
        planned = fleet.topics.create(name, partitions=partitions, replication_factor=replication_factor, config=config)
        confirm_and_apply(session, fleet, planned, how)


@topics.command("delete", examples=["seamark topics delete orders-old --dry-run"])
@click.argument("name", shell_complete=complete_topics)
@change_command
def delete_topic(fleet: Fleet, *, name: str) -> PlannedChange:
    """Delete a topic and its records permanently.

    Refused while a connector or a group uses it. The journal keeps its configs, its bounds and the committed offsets of
    groups.
    """
    return fleet.topics.delete(name)


@topics.command("add-partitions", examples=["seamark topics add-partitions orders --total 24 --dry-run"])
@click.argument("name", shell_complete=complete_topics)
@option("--total", type=Number(minimum=1), required=True, metavar="N", help="The new partition count.")
@change_command
def add_partitions(fleet: Fleet, *, name: str, total: int) -> PlannedChange:
    """Add partitions to a topic permanently.

    Keys move to other partitions. The plan lists the consumers and producers that this affects.
    """
    return fleet.topics.add_partitions(name, total=total)


@topics.command(
    "update",
    examples=[
        "seamark topics update orders --config retention.ms=604800000",
        "seamark topics update orders --unset retention.ms --dry-run",
    ],
)
@click.argument("name", shell_complete=complete_topics)
@option("--config", "configs", multiple=True, metavar="KEY=VALUE", help="Set a config; repeatable.")
@option("--unset", multiple=True, metavar="KEY", help="Reset a config to the brokers' default; repeatable.")
@change_options
@global_options
@pass_session
def update_topic(
    session: Session, *, name: str, configs: tuple[str, ...], unset: tuple[str, ...], how: ChangeOptions
) -> None:
    """Change configs of a topic."""
    config = parse_pairs(configs)
    with session.fleet() as fleet:
        confirm_and_apply(session, fleet, fleet.topics.update(name, set=config, unset=unset), how)


def parse_pairs(texts: tuple[str, ...]) -> dict[str, str]:
    """Parse KEY=VALUE, each key once."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise UsageError(f"{text!r} is not KEY=VALUE", hint="such as retention.ms=604800000")
        if key in found:
            raise UsageError(f"{key} was passed twice")
        found[key] = value
    return found
