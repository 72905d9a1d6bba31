"""Options that the commands of a copy share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seamark.cli.options import F, option, put_options
from seamark.errors import UsageError

if TYPE_CHECKING:
    from seamark.cli.session import Session
    from seamark.copies.service import Copies
    from seamark.fleet import Fleet


control_option = option(
    "--control-topic",
    default="seamark-control",
    show_default=True,
    metavar="TOPIC",
    help="The topic that knows the plans and how far they are.",
)


far_option = option(
    "--to-context",
    metavar="NAME",
    help="The context of the target, where that is in another Kafka cluster.",
)


@contextmanager
def open_copies(session: Session, to_context: str | None) -> Iterator[tuple[Fleet, Copies]]:
    """The fleet of the source, and its copies to where the target is."""
    with session.fleet() as fleet:
        if to_context is None or to_context == fleet.context.name:
            yield fleet, fleet.copies
            return
        with session.open_fleet(to_context) as far:
            yield fleet, fleet.copies.to(far.copies)


def spark_options(command: F) -> F:
    """Add `--master`, `--jars` and `--conf`; the command gets them as one value, `spark`."""

    @wraps(command)
    def gather(*args: Any, master: str | None, jars: Path | None, confs: tuple[str, ...], **kwargs: Any) -> Any:
        from seamark.spark.spark_session import SparkOptions  # noqa: PLC0415

        return command(*args, spark=SparkOptions(master, jars, parse_confs(confs)), **kwargs)

    decorators = (
        option("--master", metavar="URL", help="Spark's master; by default SEAMARK_SPARK_MASTER, else local[*]."),
        option(
            "--jars",
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            metavar="FOLDER",
            help="The jars of Spark's Kafka source; by default the folder in SEAMARK_SPARK_JARS.",
        ),
        option(
            "--conf",
            "confs",
            multiple=True,
            envvar="SEAMARK_SPARK_CONF",
            metavar="KEY=VALUE",
            help="A setting of Spark; may be repeated.",
        ),
    )
    result: F = put_options(gather, decorators)
    return result


def parse_confs(texts: tuple[str, ...]) -> dict[str, str]:
    """KEY=VALUE, each key once."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key.startswith("spark.") or not equals:
            raise UsageError(f"{text!r} is no setting of Spark", hint="as in --conf spark.executor.memory=2g")
        if key in found:
            raise UsageError(f"{key} is given twice")
        found[key] = value
    return found
