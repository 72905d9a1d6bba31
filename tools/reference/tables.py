"""Errors, keys of spec files, metrics and public Python names, from the code's own data."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module

from seamark.errors import SeamarkError
from seamark.pipelines import spec as pipelines
from seamark.pipelines.progress import LandMetrics, LandProgress, PipelineLag
from seamark.specs import keys
from seamark.topics.spec import TOPIC_KEYS
from tools.reference.commands import escape

PACKAGES = ("seamark", "seamark.consumer", "seamark.specs", "seamark.spark", "seamark.tables", "seamark.devstack")


def list_errors(kind: type[SeamarkError] = SeamarkError) -> Iterator[type[SeamarkError]]:
    """Yield an error and all errors below it that `seamark.errors` defines, depth first."""
    yield kind
    for below in kind.__subclasses__():
        if below.__module__ == SeamarkError.__module__:
            yield from list_errors(below)


def build_errors() -> str:
    """Return a table of all errors: class, code in JSON, exit code, whether to repeat, what it means."""
    rows = ["| error | `code` | exit code | retryable | meaning |", "|---|---|---|---|---|"]
    for kind in list_errors():
        depth = len(kind.__mro__) - len(SeamarkError.__mro__)
        meaning = escape(inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ")
        name = "\N{EN DASH} " * depth + f"`{kind.__name__}`"
        # The code depends on the class only; some errors can't be built without their parts.
        code, again = kind.__new__(kind).code, "yes" if kind.retryable else "no"
        rows.append(f"| {name} | `{code}` | {kind.exit_code} | {again} | {meaning} |")
    return "\n".join(rows) + "\n"


def build_metrics() -> str:
    """Return a table of the metrics of a pipeline."""
    rows = ["| metric | type | meaning |", "|---|---|---|"]
    rows += [f"| `seamark_pipeline_{name}` | {kind} | {text} |" for name, kind, text in list_metrics()]
    return "\n".join(rows) + "\n"


def list_metrics() -> list[tuple[str, str, str]]:
    """Return name, type and meaning of each metric."""
    metrics = LandMetrics("example")
    # A pipeline that has processed a batch has all of them.
    metrics.progressed(LandProgress(1, 1, 1.0))
    metrics.measured(PipelineLag(0, 0.0))
    return [(name, kind, text) for name, kind, _, text in metrics.list_samples()]


def list_spec_levels() -> dict[str, Mapping[str, str]]:
    """Return the keys of spec files with their meanings, by the heading of their level."""
    levels: dict[str, Mapping[str, str]] = {
        "File": keys.build_file_keys(),
        "`_defaults.yaml`": keys.FOLDER_KEYS,
        "Entry of `connectors`": keys.CONNECTOR_KEYS,
        "Entry of `each` for connectors": keys.EACH_KEYS,
    }
    for noun, kind in keys.list_templates().items():
        levels[f"Entry of `each` for {noun}s"] = keys.build_template_keys(kind)
    return levels | {
        "Entry of `topics`": TOPIC_KEYS,
        "Entry of `pipelines`": pipelines.PIPELINE_KEYS,
        "`from` of a pipeline": pipelines.FROM_KEYS,
        "`to` of a pipeline": pipelines.build_to_keys(),
        "`columns` of a pipeline": pipelines.COLUMN_KEYS,
        "`source` of a pipeline": pipelines.SOURCE_KEYS,
        "`on_error` of a pipeline": pipelines.ON_ERROR_KEYS,
        "`dead_letters` of a pipeline": pipelines.DEAD_LETTER_KEYS,
        "`limits` of a pipeline": pipelines.LIMIT_KEYS,
        "`maintain` of a pipeline": pipelines.MAINTAIN_KEYS,
    }


def build_spec_keys() -> str:
    """Return one table of keys for each level of a spec file."""
    lines = []
    for heading, found in list_spec_levels().items():
        rows = [f"| `{key}` | {escape(text)} |" for key, text in found.items()]
        lines += [f"## {heading}", "", "| key | meaning |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def build_python(package: str) -> str:
    """Return autodoc's directives for the public names of a package."""
    lines = ["```{eval-rst}"]
    for name in import_module(package).__all__:
        found = getattr(import_module(package), name)
        if inspect.isclass(found):
            lines += [f".. autoclass:: {package}.{name}", "   :members:", ""]
        elif callable(found):
            lines += [f".. autofunction:: {package}.{name}", ""]
        else:
            lines += [f".. autodata:: {package}.{name}", "   :no-value:", ""]
    return "\n".join([*lines, "```", ""])
