"""Spark as the steps of a cut-over use it: one session for the last catch-up, the proof and the recount.

While they run, readers and writers stand still: a session that is opened once is time that nobody waits for.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from seamark.copies.cutover.back import plan_back
from seamark.copies.cutover.restored import name_back
from seamark.copies.plan.progress import Progress, read_progress
from seamark.copies.plan.registry import check_readable, register
from seamark.copies.run.running import RunWish
from seamark.copies.run.settings import build_ends
from seamark.copies.verify.verif_words import describe_verification
from seamark.errors import RefusedError
from seamark.kafka_sink.control import CONTROL_TOPIC
from seamark.spark.spark_session import SparkWish, build_copy_work, open_spark

if TYPE_CHECKING:
    from seamark.copies.plan.copy_plan import CopyPlan
    from seamark.copies.plan.recount import Answers, Question
    from seamark.copies.run.pace import CopyEvents
    from seamark.copies.service import Copies


def name_copy(plan: str, control_topic: str) -> str:
    """A copy as steps name it: with its control topic, where that is not the usual one."""
    return plan if control_topic == CONTROL_TOPIC else f"{plan}@{control_topic}"


class SparkEngine:
    """A `CopyEngine`. The session is opened when it is first needed, and closed with the engine."""

    def __init__(self, copies: Copies, *, wish: SparkWish, events: CopyEvents) -> None:
        self._copies = copies
        self._wish = wish
        self._events = events
        self._open = ExitStack()
        self._session: SparkWish | None = None

    def close(self) -> None:
        """Close the session."""
        self._session = None
        self._open.close()

    def read(self, copy: str) -> tuple[CopyPlan, Progress]:
        """The plan as it is registered, and how far it is."""
        plan, control_topic = _split(copy)
        found = self._copies.find(plan, control_topic=control_topic).plan
        records = self._copies.logs.read_records(control_topic, jobs=[found.id])[found.id]
        return found, read_progress(found.id, found.slices, records)

    def approach(self, copy: str) -> str:
        """Copy what has come to the source so far. Whoever writes all the time is not followed for ever."""
        return self._run(copy, RunWish(follow=True))

    def catch_up(self, copy: str) -> str:
        """Copy all that the source holds now."""
        return self._run(copy, RunWish(follow=True, lag=0))

    def _run(self, copy: str, wish: RunWish) -> str:
        plan, control_topic = _split(copy)
        outcome = self._copies.run(
            plan,
            wish=wish,
            spark=self._get_spark(plan),
            control_topic=control_topic,
            events=self._events,
        )
        return f"{outcome.written} records copied" if outcome.written else "all of it was copied already"

    def prove(self, copy: str, level: str) -> str:
        """Compare both topics."""
        plan, control_topic = _split(copy)
        report = self._copies.verify(
            plan,
            level=level,
            spark=self._get_spark(plan),
            control_topic=control_topic,
            on_stage=self._events.said,
        )
        if not report.is_passed:
            raise RefusedError(
                "source and target differ; nobody was turned over",
                cause="; ".join(line.strip() for line in describe_verification(report)[2:]),
                hint=f"seamark copy verify {plan} --level full shows where",
            )
        return f"{report.compared.target_records} records compared" if level != "quick" else "control records compared"

    def build_recounter(self, plan: CopyPlan) -> Recounting:
        """Whoever can read the source again."""
        return Recounting(self, plan)

    def recount(self, plan: CopyPlan, questions: Sequence[Question]) -> Answers:
        """Read parts of the source again, to count."""
        from seamark.copies.cutover.recount_job import SparkRecounter  # noqa: PLC0415

        with open_spark(self._get_spark(plan.id), build_copy_work(plan.id)) as spark:
            ends = build_ends(self._copies.route, control_topic=CONTROL_TOPIC)
            return SparkRecounter(spark, plan, ends).recount(questions)

    def begin_back(self, copy: str) -> str:
        """Register the copy that leads from the target to the new topic of the source's name."""
        name, control_topic = _split(copy)
        plan, progress = self.read(copy)
        if not progress.is_complete:
            raise RefusedError(f"the copy {name} is not done; nothing can be copied back yet")
        made = plan_back(plan, id=name_back(name), kafka=self._copies.kafka)
        check_readable(self._copies.logs.read_registered(control_topic), made.id)
        hold = self._copies.logs.hold(control_topic, plan=made.id)
        try:
            if hold.read() is None:
                register(hold, made, former=None, actor=self._copies.actor)
        finally:
            hold.close()
        return f"planned as {made.id}"

    def _get_spark(self, plan: str) -> SparkWish:
        if self._session is None:
            session = self._wish.session or self._open.enter_context(open_spark(self._wish, build_copy_work(plan)))
            self._session = replace(self._wish, session=session)
        return self._session


class Recounting:
    """A `Recounter` that starts Spark only when it is asked something."""

    def __init__(self, engine: SparkEngine, plan: CopyPlan) -> None:
        self._engine = engine
        self._plan = plan

    def recount(self, questions: Sequence[Question]) -> Answers:
        """Answer them all."""
        return self._engine.recount(self._plan, questions)


def _split(copy: str) -> tuple[str, str]:
    plan, _, control_topic = copy.partition("@")
    return plan, control_topic or CONTROL_TOPIC
