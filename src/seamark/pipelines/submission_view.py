"""A run that is given away: the text, as it stands in a shell, a DAG or a file."""

from __future__ import annotations

from dataclasses import dataclass

from seamark.pipelines.airflow import render_task
from seamark.pipelines.line import render_line
from seamark.pipelines.spark_application import render_application
from seamark.pipelines.submission import Submission, SubmitForm
from seamark.report.listing import Column, Listing, View
from seamark.report.text import line

_RENDERERS = {
    SubmitForm.SPARK_SUBMIT: render_line,
    SubmitForm.AIRFLOW: render_task,
    SubmitForm.SPARK_APPLICATION: render_application,
}


@dataclass(frozen=True, slots=True)
class _Printed:
    name: str
    form: SubmitForm
    text: str


SUBMISSION_LISTING: Listing[_Printed] = Listing(
    kind="Submission",
    noun="submission",
    name=lambda one: one.name,
    columns=(
        Column("name", "NAME", lambda one: one.name),
        Column("form", "FORM", lambda one: one.form.value),
        Column("text", "TEXT", lambda one: one.text),
    ),
)


def build_submission_view(run: Submission, form: SubmitForm) -> View[_Printed]:
    """The text alone for people, so that it can go to a file; for programs with its name and form."""
    printed = _Printed(run.name, form, _RENDERERS[form](run))
    return View(
        SUBMISSION_LISTING,
        (printed,),
        body=lambda: {"name": printed.name, "form": form.value, "text": printed.text},
        lines=lambda _: [line(text) for text in printed.text.splitlines()],
    )
