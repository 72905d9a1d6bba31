"""Verification of a copy, by Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from seamark.copies.plan.registry import PlanLike, find_plan
from seamark.copies.plan.settings import build_ends
from seamark.errors import RefusedError, UsageError
from seamark.spark.ends import build_source
from seamark.spark.spark_session import SparkOptions, build_copy_work, open_spark, require_spark

if TYPE_CHECKING:
    from seamark.copies.plan.place import CopyEndpoints
    from seamark.copies.verify.verification import Verification


def verify(
    endpoints: CopyEndpoints,
    what: PlanLike,
    *,
    level: str,
    spark: SparkOptions,
    control_topic: str,
    on_stage: Callable[[str], None] | None,
) -> Verification:
    """Compare the target of a copy with its source. Differences are in the report, and raise nothing.

    Raises:
        NotFoundError: there is no such plan.
        RefusedError: the plan was never run.
        UsageError: the level is unknown.
    """
    from seamark.copies.verify.verification import Level  # noqa: PLC0415

    require_spark()
    known = find_plan(endpoints.target.logs, control_topic, what)
    if level not in list(Level):
        raise UsageError(f"{level!r} is no level of verification", hint=f"one of {', '.join(Level)}")
    if known.registration is None:
        raise RefusedError(
            f"the copy {known.plan.id} was never run, so there is nothing to verify",
            hint="seamark copy run PLANFILE",
        )
    with open_spark(spark, build_copy_work(known.plan.id)) as session:
        from seamark.copies.verify.verify_job import verify_copy  # noqa: PLC0415

        ends = build_ends(endpoints, control_topic=control_topic)
        far = build_source(endpoints.target.context)
        return verify_copy(session, known.plan, ends, level=Level(level), on_stage=on_stage, target_source=far)
