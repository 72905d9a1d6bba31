"""The proof of a copy, by Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from seamark.copies.plan.registry import KnownPlan
from seamark.copies.run.settings import build_ends
from seamark.errors import RefusedError, UsageError
from seamark.spark.ends import build_source
from seamark.spark.spark_session import SparkWish, build_copy_work, open_spark

if TYPE_CHECKING:
    from seamark.copies.plan.place import CopyRoute
    from seamark.copies.verify.verification import Verification


def verify(
    route: CopyRoute,
    known: KnownPlan,
    *,
    level: str,
    spark_wish: SparkWish,
    control_topic: str,
    on_stage: Callable[[str], None] | None,
) -> Verification:
    """The report of a verification. What it finds is in the report, and raises nothing."""
    from seamark.copies.verify.verification import Level  # noqa: PLC0415

    if level not in list(Level):
        raise UsageError(f"{level!r} is no level of verification", hint=f"one of {', '.join(Level)}")
    if known.registration is None:
        raise RefusedError(
            f"the copy {known.plan.id} was never run, so there is nothing to verify",
            hint="seamark copy run PLANFILE",
        )
    with open_spark(spark_wish, build_copy_work(known.plan.id)) as spark:
        from seamark.copies.verify.verify_job import verify_copy  # noqa: PLC0415

        ends = build_ends(route, control_topic=control_topic)
        far = build_source(route.target.context)
        return verify_copy(spark, known.plan, ends, level=Level(level), on_stage=on_stage, target_source=far)
