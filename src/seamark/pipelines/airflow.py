"""A task of Airflow."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from seamark.pipelines.submission import Submission

_CONNECTION = "spark_default"


def render_task(run: Submission) -> str:
    """Python text that makes one task. It ends when all is landed: how often is Airflow's to say."""
    return "\n".join(_build_text(run)) + "\n"


def _build_text(run: Submission) -> Iterator[str]:
    task = "land_" + re.sub(r"[^A-Za-z0-9_]", "_", run.name)
    yield "from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator"
    yield ""
    yield f"# The connection {_CONNECTION} says where Spark is{f': {run.master}' if run.master else ''}."
    if run.variables:
        yield f"# The environment of the worker has {', '.join(run.variables)}."
    yield "# It may fail and run again anywhere: the database knows how far it is."
    yield f"{task} = SparkSubmitOperator("
    yield from (f"    {text}" for text in _build_settings(run, task))
    yield ")"


def _build_settings(run: Submission, task: str) -> Iterator[str]:
    yield f"task_id={_quote(task)},"
    yield f"name={_quote(f'seamark landing {run.name}')},"
    yield f"conn_id={_quote(_CONNECTION)},"
    # The driver reads the contexts and the spec of the worker's machine.
    yield 'deploy_mode="client",'
    yield f"application={_quote(run.program)},"
    yield from _build_list("application_args", run.build_arguments(run.files, is_once=True))
    yield f"archives={_quote(run.archives)},"
    if run.jars:
        yield f"jars={_quote(','.join(run.jars))},"
    if run.packages:
        yield f"packages={_quote(','.join(run.packages))},"
    yield from _build_dict("conf", run.settings)
    if run.contexts:
        yield from _build_dict("env_vars", {"SEAMARK_CONFIG": run.contexts})
    yield "retries=3,"
    # A second run would take the landing over from the first.
    yield "max_active_tis_per_dag=1,"


def _build_list(name: str, words: Sequence[str]) -> Iterator[str]:
    yield f"{name}=["
    yield from (f"    {_quote(word)}," for word in words)
    yield "],"


def _build_dict(name: str, values: Mapping[str, str]) -> Iterator[str]:
    yield f"{name}={{"
    yield from (f"    {_quote(key)}: {_quote(value)}," for key, value in values.items())
    yield "},"


def _quote(text: str) -> str:
    """A text as Python writes it, in double quotes. Every escape of JSON is one of Python's."""
    return json.dumps(text)
