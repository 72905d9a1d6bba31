"""The pipelines of a spec: which of them the journal does not know yet, or knows otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from seamark.changes.action import Reads, StepSeen
from seamark.changes.effect import Effect
from seamark.core.refs import build_pipeline_owner, is_pipeline, parse_owner
from seamark.errors import FormatVersionError, RefusedError, SeamarkError
from seamark.pipelines.pipeline import RegisterPipeline
from seamark.pipelines.registered import build_body
from seamark.pipelines.spec import DesiredLanding
from seamark.specs.ownership import Claims


@dataclass(frozen=True, slots=True)
class PipelinePart:
    """What a plan does to pipelines: its actions with what they found, and what the reader must know."""

    steps: tuple[RegisterPipeline, ...] = ()
    seen: tuple[StepSeen, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The lines of the pipelines that change."""
        return tuple(one.build_effect(seen) for one, seen in zip(self.steps, self.seen, strict=True))


def plan_pipelines(
    landings: Iterable[DesiredLanding],
    *,
    claims: Claims,
    read: Callable[[], Mapping[str, Any]],
    reads: Reads,
    adopt: bool,
) -> PipelinePart:
    """Compare every pipeline with what is registered. The journal is not asked where the spec never had one."""
    wanted: dict[str, Any] = {one.name: build_body(one) for one in landings}
    own = {parse_owner(owner).name for owner in claims.own if is_pipeline(owner)}
    if not wanted and not own:
        return PipelinePart()
    try:
        registered = read()
    except FormatVersionError:
        raise
    except SeamarkError as error:
        return PipelinePart(notes=(f"pipelines are checked, and not registered: {error.message}",))
    _refuse_foreign(wanted, registered, claims=claims, adopt=adopt)
    steps = [RegisterPipeline(name, body) for name, body in wanted.items() if registered.get(name) != body]
    others = claims.others()
    gone = sorted(
        name for name in own - wanted.keys() if name in registered and build_pipeline_owner(name) not in others
    )
    steps += [RegisterPipeline(name, None) for name in gone]
    return PipelinePart(tuple(steps), tuple(RegisterPipeline.inspect(steps, reads)))


def _refuse_foreign(wanted: Mapping[str, Any], registered: Mapping[str, Any], *, claims: Claims, adopt: bool) -> None:
    """Refuse to take a pipeline from another spec, where it is not the same in both."""
    changed = [name for name, body in wanted.items() if registered.get(name, body) != body]
    others = claims.others() if changed and not adopt else {}
    if taken := [
        f"{name}: spec {others[build_pipeline_owner(name)].spec}"
        for name in changed
        if build_pipeline_owner(name) in others
    ]:
        raise RefusedError(
            f"another spec has {len(taken)} of these pipelines; nothing was changed",
            cause=", ".join(taken),
            hint="plan the spec that has them, take them out of one of the two, or take them over: --adopt",
        )
