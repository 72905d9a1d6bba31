"""Views of a spec and of a pull: what it writes, what it can't write, and the secrets that users have to set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from seamark.connectors.config import DesiredConnector
from seamark.core.secrets import mask_config
from seamark.report.listing import Column, Listing, View
from seamark.report.text import Line, Span, Style, line
from seamark.report.words import render_count
from seamark.specs.model import Pull, PulledFile

if TYPE_CHECKING:
    from seamark.specs.validation import ConfigProblem, ValidatedConnector

DESIRED_LISTING: Listing[DesiredConnector] = Listing(
    kind="DesiredConnectorList",
    noun="connector",
    name=lambda connector: connector.owner,
    columns=(
        Column("name", "NAME", lambda connector: connector.name),
        Column("cluster", "CLUSTER", lambda connector: connector.cluster),
        Column("state", "INITIAL STATE", lambda connector: connector.state or "RUNNING"),
        Column(
            "plugin",
            "PLUGIN",
            lambda connector: connector.config.get("connector.class", ""),
            text=lambda connector: connector.config.get("connector.class", "").rpartition(".")[2],
            long=lambda connector: connector.config.get("connector.class", ""),
        ),
        Column("place", "DEFINED IN", lambda connector: str(connector.place)),
        Column("config", "", lambda connector: mask_config(connector.config, unread=False)),
        Column("labels", "", lambda connector: dict(connector.labels)),
    ),
)


def build_desired_view(connectors: Sequence[DesiredConnector]) -> View[DesiredConnector]:
    """Build the view of a spec's connectors."""
    return View(DESIRED_LISTING, connectors, empty="no connectors in the files")


def _describe_problem(problem: ConfigProblem) -> str:
    said = f"{problem.key}: {problem.message}" if problem.key else problem.message
    return f"{problem.place}  {said}"


def _build_problem(problem: ConfigProblem) -> dict[str, Any]:
    place = problem.place
    return {
        "key": problem.key,
        "message": problem.message,
        "file": place.file,
        "line": place.line or None,
        "column": place.column or None,
    }


VALIDATION_LISTING: Listing[ValidatedConnector] = Listing(
    kind="ConnectorValidationList",
    noun="connector",
    name=lambda found: found.connector.owner,
    columns=(
        Column("name", "NAME", lambda found: found.connector.name),
        Column("cluster", "CLUSTER", lambda found: found.connector.cluster),
        Column("class", "CLASS", lambda found: found.connector.config.get("connector.class", "")),
        Column("place", "DEFINED IN", lambda found: str(found.connector.place)),
        Column("valid", "VALID", lambda found: None if found.error else found.is_valid),
        Column(
            "problems",
            "PROBLEMS",
            lambda found: [_build_problem(problem) for problem in found.problems],
            text=lambda found: "; ".join(map(_describe_problem, found.problems)),
        ),
        Column("unchecked", "", lambda found: list(found.unchecked)),
    ),
)


def build_validation_view(connectors: Sequence[ValidatedConnector]) -> View[ValidatedConnector]:
    """Build the view of validated connectors: the invalid ones, each error on a line that begins with its place."""
    return View(
        VALIDATION_LISTING,
        connectors,
        body=lambda: {
            "valid": all(found.is_valid for found in connectors),
            "items": VALIDATION_LISTING.build_items(connectors),
        },
        lines=lambda _screen: _build_validation_lines(connectors),
        empty="no connectors in the files",
    )


def _build_validation_lines(connectors: Sequence[ValidatedConnector]) -> list[Line]:
    lines: list[Line] = []
    for found in connectors:
        if found.problems:
            lines.append(line(Span("✗", Style.BAD), f" {found.connector.owner}"))
            lines += [line(f"  {_describe_problem(problem)}") for problem in found.problems]
        if found.unchecked:
            keys = ", ".join(found.unchecked)
            lines.append(line(f"! {found.connector.owner}: not checked: {keys} (they depend on secret:// references)"))
    valid = sum(found.is_valid for found in connectors)
    invalid = sum(bool(found.problems) for found in connectors)
    silent = sum(found.error is not None for found in connectors)
    total = (
        f"{render_count(valid, 'connector')} valid, {invalid} invalid{f', {silent} not validated' if silent else ''}"
    )
    return [*lines, line(Span(total, Style.BAD if invalid else Style.WARN if silent else Style.GOOD))]


PULL_LISTING: Listing[PulledFile] = Listing(
    kind="Pull",
    noun="file",
    name=lambda file: file.path,
    columns=(
        Column("path", "FILE", lambda file: file.path),
        Column("isNew", "NEW", lambda file: file.before is None),
        Column("connectors", "CONNECTORS", lambda file: list(file.owners), text=lambda file: ", ".join(file.owners)),
    ),
)


def build_pull_view(pull: Pull, *, with_diff: bool) -> View[PulledFile]:
    """Build the view of a pull before its files are written. `with_diff` shows every changed line."""
    return View(
        PULL_LISTING,
        pull.files,
        body=lambda: _build_body(pull),
        lines=lambda _screen: _build_diff(pull) + _build_lines(pull) if with_diff else _build_lines(pull),
    )


def _build_body(pull: Pull) -> dict[str, Any]:
    return {
        "folder": pull.folder,
        "read": pull.read,
        "unchanged": pull.unchanged,
        "files": [
            {**item, "diff": file.diff}
            for item, file in zip(PULL_LISTING.build_items(pull.files), pull.files, strict=True)
        ],
        "skipped": [
            {"connector": one.owner, "place": one.place, "reason": one.reason, "differences": list(one.differences)}
            for one in pull.skipped
        ],
        "secrets": [
            {"connector": one.owner, "key": one.key, "reference": one.reference, "words": one.words}
            for one in pull.secrets
        ],
        "absent": list(pull.absent),
    }


def _build_diff(pull: Pull) -> list[Line]:
    styles = {"+": Style.GOOD, "-": Style.BAD, "@": Style.MUTED}
    return [
        line(Span(text, styles.get(text[:1], Style.PLAIN))) for file in pull.files for text in file.diff.split("\n")
    ]


def _build_lines(pull: Pull) -> list[Line]:
    lines: list[Line] = []
    for file in pull.files:
        sign = Span("+", Style.GOOD) if file.before is None else Span("~", Style.WARN)
        lines.append(line("  ", sign, f" {file.path}   {', '.join(file.owners)}"))
    for one in pull.skipped:
        lines.append(line("  ", Span("!", Style.WARN), f" {one.owner}   not written: {one.reason} ({one.place})"))
        lines += [line(f"      {text}") for text in one.differences]
    lines += [
        line("  ", Span("?", Style.MUTED), f" {owner}   is in the files, but does not exist") for owner in pull.absent
    ]
    for secret in pull.secrets:
        lines.append(
            line("  ", Span("*", Style.WARN), f" {secret.owner} {secret.key} = {secret.reference}: {secret.words}")
        )
    new = sum(1 for file in pull.files if file.before is None)
    summary = f"{render_count(pull.read, 'connector')} read, {pull.unchanged} unchanged. "
    counts = f"{render_count(new, 'new file')}, {len(pull.files) - new} to change, {len(pull.skipped)} not written."
    return [*lines, line(summary + counts)]
