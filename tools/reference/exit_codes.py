"""The exit codes of each command: what follows from its options, and what a code means there.

`tests/unit/tools/test_exit_codes.py` compares them with the exit codes that transcripts and scenarios have recorded.
"""

from __future__ import annotations

from collections.abc import Mapping

import click

from tools.reference.commands import build_link, list_commands, list_leaves

# Every command can also end with these: done, wrong usage, Ctrl-C.
COMMON = (0, 64, 130)
CODES = (1, 2, 3, 4, 5, 6)
# They read or write files only, never a server.
OFFLINE = frozenset(
    {
        "completion",
        "context add",
        "context list",
        "context remove",
        "context rename",
        "context show",
        "context use",
        "offsets verify",
        "spark pack",
    }
)
# They read several servers or resources, of which some can fail.
PARTIAL = frozenset(
    {
        "connectors list",
        "connectors show",
        "connectors validate",
        "copies status",
        "groups list",
        "lag",
        "loggers list",
        "offsets export",
        "offsets list",
        "offsets orphans",
        "pipelines list",
        "pipelines status",
        "plugins list",
        "pull",
        "status",
        "topics health",
        "topics list",
        "workers list",
        "workers show",
    }
)
# What a code means for one command, where that is more than the class of its error.
OWN: Mapping[tuple[str, int], str] = {
    ("connectors validate", 1): "a connector is invalid",
    ("context test", 1): "a check failed",
    ("copies verify", 1): "the topics differ",
    ("doctor", 1): "an error, or what `--fail-on` names",
    ("lag", 1): "`--max-lag` or `--fail-on` is met",
    ("offsets verify", 1): "the export is damaged",
    ("pipelines status", 1): "`--fail-on` is met",
    ("status", 1): "`--fail-on` is met",
    ("topics health", 1): "a topic is unhealthy",
    ("offsets diff", 2): "offsets differ (`--detailed-exitcode`)",
    ("plan", 2): "changes are present (`--detailed-exitcode`)",
    ("connectors heal", 3): "a connector was given up",
    ("connectors validate", 3): "some couldn't be validated",
    ("offsets export", 3): "the file lacks owners",
    ("pipelines run", 3): "some pipelines failed",
    ("pull", 3): "some differences can't be written",
    ("copies plan", 5): "the copy would be refused",
}


def find_exit_codes(path: str, command: click.Command) -> dict[int, str]:
    """Return the exit codes of a command besides those that all have, each with its meaning."""
    options = {name for param in command.params for name in param.opts}
    changes, waits = "--yes" in options, "--wait" in options
    found = {1: "failed"}
    if changes:
        found[3] = "partly done; a connector doesn't run" if waits else "partly done"
    elif path in PARTIAL:
        found[3] = "partly read"
    if path not in OFFLINE:
        found |= {4: "not allowed", 6: "unreachable"}
    # A context that a project's file would redirect is refused everywhere it is opened.
    if path not in {"completion", "demo"}:
        found[5] = "refused"
    found |= {code: meaning for (name, code), meaning in OWN.items() if name == path}
    return dict(sorted(found.items()))


def build_exit_codes() -> str:
    """Return a table of all commands with their exit codes."""
    rows = [f"| command | {' | '.join(map(str, CODES))} |", f"|---|{'---|' * len(CODES)}"]
    for name in list_commands():
        for path, command, _ in list_leaves(name):
            codes = find_exit_codes(path, command)
            cells = [codes.get(code, "") for code in CODES]
            rows.append(f"| [`{path}`]({build_link(path)}) | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"
