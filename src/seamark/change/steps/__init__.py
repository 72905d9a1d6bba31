"""Every kind of step. Importing this package registers all of them."""

from __future__ import annotations

from seamark.change.step import STEPS, Step

# Each of these modules registers its kinds, so that any plan can be decoded.
from seamark.change.steps import (  # noqa: F401
    await_progress,
    await_running,
    carry_reader,
    connector,
    copy_looks,
    copy_offsets,
    group,
    landing_looks,
    logger,
    meanwhile,
    mend,
    offset_file,
    offset_records,
    offsets,
    park,
    pipeline,
    poison,
    preview,
    progress,
    relocate,
    restored,
    run_state,
    stopped,
    switch_config,
    topic,
    topic_change,
    turn_over,
    unused,
)
from seamark.errors import UsageError
from seamark.model.plan import StepData

__all__ = ["STEPS", "build_step"]


def build_step(data: StepData) -> Step:
    """Build the step that a plan's data describes.

    Raises:
        UsageError: the kind is unknown, or the arguments are not those of this kind.
    """
    kind = STEPS.get(data.kind)
    if kind is None:
        raise UsageError(
            f"this seamark does not know the step {data.kind!r}", hint="apply the plan with the version that made it"
        )
    return kind.from_data(data)
