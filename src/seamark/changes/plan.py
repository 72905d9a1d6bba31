"""A plan: a frozen list of actions that can be printed, saved, reviewed, and refused when it is out of date."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.changes.action import Action, Needs, build_action
from seamark.changes.codec import find_masked
from seamark.changes.effect import ClusterSurvey, Drift, Effect
from seamark.changes.identity import Identity
from seamark.changes.step import Precondition, Step, StepData, build_step
from seamark.context import PaceSettings
from seamark.core.files import PRIVATE, read_limited, write_atomically
from seamark.core.secrets import MASK
from seamark.core.strict_json import StoredFormat, check_format, read_json, read_object, read_text, read_texts
from seamark.errors import RefusedError, SeamarkError, UsageError

if TYPE_CHECKING:
    from seamark.report.listing import View


FORMAT_VERSION = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """The actions to apply, in order, to one context.

    `actions` are the contents of the plan. `steps` and `locks` are derived from them when the plan is prepared
    (`planner.prepare`). The journal stores the derived values, so that a resume derives nothing again; a plan file
    doesn't. `step_counts` is the number of steps of each action. `preconditions` are the facts observed when the plan
    was created. `notes` are sentences for the reader. `undoes` is the change that this plan undoes, if any. If the plan
    was built from a spec, `spec` says which connectors that spec owns, see `specs/ownership.py`. `pace` is how fast the
    plan is applied, None if nothing limits it or the plan is too small to be limited. `identity` identifies
    the clusters that the plan is for; `context` is only the name its author used for them. `id` is the ID of a saved
    plan in the journal, and "" for a plan that was never saved or is a proposal.
    """

    title: str
    context: str
    made_at: str
    made_by: str
    steps: tuple[StepData, ...] = ()
    locks: tuple[str, ...] = ()
    preconditions: tuple[Precondition, ...] = ()
    notes: tuple[str, ...] = ()
    undoes: str = ""
    spec: Mapping[str, Any] = field(default_factory=dict)
    actions: tuple[Action, ...] = ()
    step_counts: tuple[int, ...] = ()
    identity: Identity = field(default_factory=Identity)
    id: str = ""
    pace: PaceSettings | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.steps and not self.actions

    def with_pace(self, pace: PaceSettings | None) -> Plan:
        """Return the plan with another pace; with none if all its step sequences may run at once at that pace."""
        sequences = {action.sequence for action in self.actions}
        return replace(self, pace=pace if pace is not None and len(sequences) > pace.parallel else None)

    @property
    def most_at_once(self) -> int:
        """How many step sequences may run at once, also after a resume; 0 for no limit. See `Action.find_pace`."""
        return min((pace for action in self.actions if (pace := action.find_pace())), default=0)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as the journal stores it, with its format version."""
        return {
            **self._build_header(),
            "locks": list(self.locks),
            "steps": [step.to_dict() for step in self.steps],
            **({"step_counts": list(self.step_counts)} if self.actions else {}),
        }

    def to_file(self) -> dict[str, Any]:
        """Return the plan as a file stores it: only what can't be derived, and a hash that reveals edits."""
        return {**self._build_header(), "sha256": self.sha256}

    @property
    def sha256(self) -> str:
        """The hash of the file's content."""
        return _hash(self._build_header())

    def _build_header(self) -> dict[str, Any]:
        return {
            "format_version": FORMAT_VERSION,
            "id": self.id,
            "title": self.title,
            "context": self.context,
            "made_at": self.made_at,
            "made_by": self.made_by,
            "identity": self.identity.to_dict(),
            "preconditions": [
                {"kind": p.kind, "subject": p.subject, "expected": p.expected, "words": p.words}
                for p in self.preconditions
            ],
            "notes": list(self.notes),
            "undoes": self.undoes,
            **({"actions": [action.to_dict() for action in self.actions]} if self.actions else {}),
            **({"spec": dict(self.spec)} if self.spec else {}),
            **({"pace": asdict(self.pace)} if self.pace else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, where: str = "the plan") -> Plan:
        """Build the plan from what `to_dict` returned. `where` is its location, for errors.

        Raises:
            FormatVersionError: the plan has another format.
        """
        check_format(StoredFormat("plan", FORMAT_VERSION), data, where=where)
        plan = cls(
            **{name: read_text(data[name], what=name) for name in ("title", "context", "made_at", "made_by")},
            steps=tuple(StepData.from_dict(step) for step in data.get("steps", ())),
            locks=read_texts(data.get("locks", []), what="locks"),
            preconditions=tuple(_read_precondition(one) for one in data["preconditions"]),
            notes=read_texts(data["notes"], what="notes"),
            undoes=read_text(data.get("undoes", ""), what="undoes"),
            spec=dict(data.get("spec", {})),
            actions=tuple(build_action(one) for one in data.get("actions", ())),
            step_counts=tuple(data.get("step_counts", ())),
            identity=Identity.from_dict(data["identity"]),
            id=read_text(data.get("id", ""), what="id"),
            pace=_read_pace(data.get("pace")),
        )
        if ((plan.steps and plan.actions) or plan.step_counts) and not plan._has_own_steps():
            raise RefusedError(
                f"{where} was edited", cause="its steps don't belong to its actions", hint="create a new plan"
            )
        return plan

    def _has_own_steps(self) -> bool:
        """Return whether the steps match the actions: the counted number of steps, each in its action's sequence."""
        counts = self.step_counts
        if any(type(count) is not int or count < 0 for count in counts):
            return False
        if len(counts) != len(self.actions) or sum(counts) != len(self.steps):
            return False
        owners = [action.sequence for action, count in zip(self.actions, counts, strict=True) for _ in range(count)]
        return owners == [step.lane for step in self.steps]

    @classmethod
    def from_file(cls, data: Mapping[str, Any], *, where: str = "the plan") -> Plan:
        """Build the plan from what `to_file` returned. `where` is its location, for errors.

        Raises:
            FormatVersionError: the plan has another format.
            RefusedError: the file was edited.
        """
        body = {key: value for key, value in data.items() if key != "sha256"}
        plan = cls.from_dict(body, where=where)
        # Compare with the plan's own hash as well: steps, locks and unknown fields are only in the hash of the content.
        if {data.get("sha256"), _hash(body)} != {plan.sha256}:
            raise RefusedError(
                "the plan file was edited; no changes were made",
                cause="its content doesn't match its SHA-256",
                hint="create a new plan and review it",
            )
        return plan


def _read_precondition(data: Any) -> Precondition:
    names = ("kind", "subject", "expected", "words")
    found = read_object(data, keys=names, what="a precondition")
    return Precondition(**{name: read_text(found[name], what=f"{name} of a precondition") for name in names})


def _read_pace(data: Any) -> PaceSettings | None:
    if data is None:
        return None
    found = read_object(data, keys=("parallel", "wait_stable"), what="pace")
    parallel, wait_stable = found["parallel"], found["wait_stable"]
    if type(parallel) is not int or parallel < 1 or type(wait_stable) is not bool:
        raise ValueError("pace is not a number of at least 1 with true or false")
    return PaceSettings(parallel, wait_stable)


def _hash(body: Mapping[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    # A file may contain an unpaired surrogate, which is refused elsewhere.
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


# A plan for ten thousand connectors with fifty keys each has about 20 MB.
_LARGEST_BYTES = 64 * 1024 * 1024
# More than any fleet that seamark is built for: a hostile file must be refused, not fill the memory.
_MOST = {"actions": 50_000, "preconditions": 200_000, "notes": 50_000}
# A query or a schema in a config has a few hundred kB.
_LONGEST_TEXT = 1 << 20
_LONGEST_HEADER = 10_000
# Files are the only compressed content: each may grow to 64 MiB, and a plan changes the file of one worker.
_MOST_FILES = 4
_FILE_KIND = "write-offset-file"


def write_plan_file(plan: Plan, path: Path) -> None:
    """Write the plan to a file. An existing file is replaced."""
    write_private(json.dumps(plan.to_file(), indent=2, ensure_ascii=False) + "\n", path, what="the plan")


def write_private(text: str, path: Path, *, what: str) -> None:
    """Write text to a file that only its owner can access. `what` names it in an error."""
    try:
        write_atomically(text.encode(), path.expanduser().absolute(), mode=PRIVATE)
    except OSError as error:
        raise SeamarkError(
            f"{what} can't be written: {path}",
            cause=error.strerror or type(error).__name__,
            hint="check that you can write to that folder",
        ) from None


def read_plan_file(path: Path) -> Plan:
    """Read a file that `write_plan_file` wrote; anything else is refused."""
    return _build_plan(read_limited(path, most_bytes=_LARGEST_BYTES, what="a plan"), path)


def find_hidden(plan: Plan) -> tuple[str, ...]:
    """Return the secrets that a plan doesn't contain, as `SUBJECT KEY`. Such a plan can't be applied from a file.

    A rollback step that lacks a secret doesn't prevent this: if the step is needed, it fails with an error that names
    the secret, and the new config stays.
    """
    if plan.actions:
        return tuple(
            f"{action.subject} {key}"
            for action in plan.actions
            if isinstance(config := action.to_dict().get("config"), Mapping)
            for key, value in sorted(config.items())
            if value == MASK
        )
    return tuple(
        f"{step.subject} {key}"
        for step in plan.steps
        if not step.fallback and isinstance(config := step.arguments.get("config"), Mapping)
        for key, value in sorted(config.items())
        if value == MASK
    )


def find_masked_keys(plan: Plan) -> tuple[str, ...]:
    """Return the secrets that a plan lacks because its file doesn't store them, as `SUBJECT KEY`."""
    if not plan.actions:
        return find_hidden(plan)
    return tuple(f"{action.subject} {key}" for action in plan.actions for key in find_masked(action))


def _build_plan(data: bytes, path: Path) -> Plan:
    problem = ""
    body: Any = None
    try:
        # Parse strictly: if a key occurs twice, a reviewer may read the first value while a parser uses the last.
        body = read_json(data, what=str(path))
        problem = _find_excess(body) if isinstance(body, dict) else "it is not a JSON object"
    except UsageError as error:
        problem = error.cause
    if not problem:
        try:
            return Plan.from_file(body, where=str(path))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            problem = f"{type(error).__name__}: {error}"
    raise UsageError(
        f"{path} is not a plan file of seamark", cause=problem, hint="create one: seamark plan -f PATH --out FILE"
    )


def _find_excess(body: Mapping[str, Any]) -> str:
    """Return which limit a plan file exceeds; "" if none. Wrong types are refused later."""
    for name, most in _MOST.items():
        found = body.get(name)
        if isinstance(found, list) and len(found) > most:
            return f"it has {len(found):,} {name}, and a plan has at most {most:,}"
    header = [body.get(name) for name in ("title", "context", "made_at", "made_by", "undoes")]
    if any(isinstance(text, str) and len(text) > _LONGEST_HEADER for text in header):
        return f"a text of its header has more than {_LONGEST_HEADER:,} characters"
    actions = [one for one in body.get("actions") or () if isinstance(one, dict)]
    files = [one for one in actions if one.get("action") == _FILE_KIND]
    if len(files) > _MOST_FILES:
        return f"it writes {len(files):,} files, and a plan writes at most {_MOST_FILES}"
    others = [one for one in actions if one.get("action") != _FILE_KIND]
    if not _is_short([others, body.get("notes"), body.get("preconditions")]):
        return f"it has a text of more than {_LONGEST_TEXT:,} characters"
    return ""


def _is_short(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _LONGEST_TEXT
    if isinstance(value, dict):
        return all(map(_is_short, value)) and all(map(_is_short, value.values()))
    return all(map(_is_short, value)) if isinstance(value, list) else True


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """The change that a service proposes. No changes have been made; `fleet.apply` applies it.

    `steps` contain the secrets of the configs in memory, the plan doesn't. `print` shows what a user needs to decide,
    and a notebook displays it automatically. `drifts` are changes made outside the spec that the plan was built from,
    and `survey` is what planning read. If `is_saved`, the plan came from a file: its text omits nothing, because the
    file may have been edited. `blocked_by` is why something that the spec declares could not be planned: `fleet.apply`
    raises it.
    """

    plan: Plan
    steps: tuple[Step, ...] = field(repr=False)
    effects: tuple[Effect, ...] = ()
    drifts: tuple[Drift, ...] = ()
    survey: tuple[ClusterSurvey, ...] = ()
    needs: Needs = field(default_factory=Needs, repr=False)
    is_saved: bool = False
    blocked_by: SeamarkError | None = field(default=None, repr=False)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return self.plan.is_empty

    def check_complete(self) -> None:
        """Check that everything that a spec declares could be planned.

        Raises:
            SeamarkError: Something could not be.
        """
        if self.blocked_by is not None:
            raise self.blocked_by

    def with_pace(self, pace: PaceSettings | None) -> PlannedChange:
        """Return the same change with another pace than that of the context; with none for the usual one.

        Args:
            pace: How many connectors change at once, and whether the workers must be stable between groups of them.

        Returns:
            The change.
        """
        return replace(self, plan=self.plan.with_pace(pace))

    def build_view(self, *, is_preview: bool = False) -> View[Effect]:
        """Build the view of the plan for every output format.

        Args:
            is_preview: Whether the plan is only shown, so that its text can end with "No changes were made."

        Returns:
            The view.
        """
        from seamark.changes.views import build_plan_view  # noqa: PLC0415

        return build_plan_view(
            self.plan,
            self.effects,
            drifts=self.drifts,
            survey=self.survey,
            is_complete=self.is_saved,
            is_preview=is_preview,
            is_blocked=self.blocked_by is not None,
        )

    def __str__(self) -> str:
        """Return the plan as text for people."""
        from seamark.report.data import OutputFormat  # noqa: PLC0415
        from seamark.report.listing import render_view  # noqa: PLC0415

        return render_view(self.build_view(), OutputFormat.TABLE)

    def _repr_html_(self) -> str:
        """Return the plan as HTML for notebooks."""
        from seamark.report.listing import render_html  # noqa: PLC0415

        return render_html(self.build_view())


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step with its number and step sequence (`lane`), and what happens to it after a failure in that sequence."""

    number: int
    step: Step
    lane: str
    always: bool
    fallback: bool = False
    insists: bool = False

    @property
    def aspect(self) -> str:
        """What the step's images show: its subject and aspect."""
        return f"{self.step.subject}#{self.step.aspect}"


class PlannedSteps(Sequence[PlannedStep]):
    """The steps of a plan in order, indexed by step sequence (lane), subject and aspect."""

    def __init__(self, tasks: Iterable[PlannedStep]) -> None:
        self._tasks = tuple(tasks)
        self._of_lane = _group(self._tasks, lambda task: task.lane)
        self._of_subject = _group(self._tasks, lambda task: task.step.subject)
        self._of_aspect = _group(self._tasks, lambda task: task.aspect)

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[PlannedStep]:
        return iter(self._tasks)

    def __getitem__(self, number: int) -> PlannedStep:  # type: ignore[override]  # no caller slices a plan
        return self._tasks[number]

    @property
    def lanes(self) -> Mapping[str, tuple[PlannedStep, ...]]:
        """Every step sequence with its steps, in the order of the plan."""
        return self._of_lane

    def of_lane(self, lane: str) -> tuple[PlannedStep, ...]:
        """Return the steps of one sequence, which succeed or fail together."""
        return self._of_lane.get(lane, ())

    def of_subject(self, subject: str) -> tuple[PlannedStep, ...]:
        """Return the steps that act on one subject."""
        return self._of_subject.get(subject, ())

    def of_aspect(self, aspect: str) -> tuple[PlannedStep, ...]:
        """Return the steps that act on one aspect of one subject."""
        return self._of_aspect.get(aspect, ())


def build_tasks(plan: Plan, steps: Sequence[Step] | None = None) -> PlannedSteps:
    """Return the plan's steps with their numbers, in order. `steps` are the same steps with their secrets."""
    chosen = list(steps) if steps is not None else [build_step(data) for data in plan.steps]
    tasks = PlannedSteps(
        PlannedStep(number, step, data.lane, always=data.always, fallback=data.fallback, insists=data.insists)
        for number, (step, data) in enumerate(zip(chosen, plan.steps, strict=False))
    )
    # The applied steps must be those that were shown and are journaled, except for secrets, which neither contains.
    same = all(
        replace(task.step.to_data(lane=task.lane, always=task.always), fallback=task.fallback, insists=task.insists)
        == data
        for task, data in zip(tasks, plan.steps, strict=False)
    )
    if len(chosen) != len(plan.steps) or not same:
        raise RefusedError("the steps don't match the plan", hint="create a new plan and review it")
    return tasks


def _group(tasks: Iterable[PlannedStep], key: Callable[[PlannedStep], str]) -> dict[str, tuple[PlannedStep, ...]]:
    groups: dict[str, list[PlannedStep]] = {}
    for task in tasks:
        groups.setdefault(key(task), []).append(task)
    return {name: tuple(group) for name, group in groups.items()}
