"""The generated parts of the reference: Markdown, built from the code when the site is built.

A page has a part by the directive `reference` and its name, such as `command offsets show` or `errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tools.reference.acls import build_acls
from tools.reference.commands import build_command, build_output, build_overview
from tools.reference.comparison import build_gaps, build_peers
from tools.reference.documents import build_documents
from tools.reference.exit_codes import build_exit_codes
from tools.reference.tables import build_errors, build_metrics, build_python, build_spec_keys
from tools.reference.versions import build_connect_versions, build_dependencies

PARTS: Mapping[str, Callable[..., str]] = {
    "command": build_command,
    "output": build_output,
    "overview": build_overview,
    "errors": build_errors,
    "exit-codes": build_exit_codes,
    "metrics": build_metrics,
    "spec-keys": build_spec_keys,
    "python": build_python,
    "acls": build_acls,
    "connect-versions": build_connect_versions,
    "dependencies": build_dependencies,
    "documents": build_documents,
    "peers": build_peers,
    "gaps": build_gaps,
}


def build_reference(name: str) -> str:
    """Return the Markdown of one part. `name` is the part, with an argument for some of them."""
    part, *arguments = name.split()
    return PARTS[part](*arguments)
