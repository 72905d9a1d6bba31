"""The child process that runs a spec program: started by `sandbox` with a descriptor.

What to run comes by standard input, what it gave goes to a pipe of its own, so the program may print as it likes.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from seamark.specs.isolation import isolate
from seamark.specs.program import Environment, Resource

MODULE = "seamark_spec"
"""The name under which a program runs."""

_OURS = str(Path(__file__).parent)


def main() -> None:
    """Run the program and send what it gave, or why it failed."""
    descriptor = int(sys.argv[1])
    # The program's own children must not keep the pipe open.
    os.set_inheritable(descriptor, False)
    order = json.load(sys.stdin)
    refusal = isolate(os.getppid(), order["withheld"])
    if refusal:
        _send(descriptor, {"refused": refusal})
        return
    # At the end of the path: a file beside the program can be imported, and can't stand in for a library.
    sys.path.append(str(Path(order["path"]).parent))
    try:
        answer: dict[str, Any] = {"resources": _run(order)}
    except BaseException as error:  # noqa: BLE001 - whatever a program raises is told, sys.exit too
        answer = {"error": _describe(error, order["path"])}
    _send(descriptor, answer)


def _send(descriptor: int, answer: dict[str, Any]) -> None:
    with os.fdopen(descriptor, "w", encoding="utf-8") as pipe:
        json.dump(answer, pipe)


def _run(order: dict[str, Any]) -> list[dict[str, Any]]:
    path = order["path"]
    code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    scope: dict[str, Any] = {"__name__": MODULE, "__file__": path}
    exec(code, scope)  # noqa: S102 - running it is the point, and was consented to
    resources = scope.get("resources")
    if not callable(resources):
        raise TypeError("the program has no function resources(env)")
    found = []
    for resource in resources(Environment(order["environ"], withheld=order["withheld"])):
        if not isinstance(resource, Resource):
            raise TypeError(f"resources(env) gave a {type(resource).__name__}; give connector(…) or topic(…)")
        found.append(resource.to_dict())
    return found


def _describe(error: BaseException, path: str) -> dict[str, Any]:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OURS)]
    line, column = 0, 0
    if isinstance(error, SyntaxError) and error.filename == path:
        line, column = error.lineno or 0, error.offset or 0
    else:
        line = next((frame.lineno or 0 for frame in reversed(frames) if frame.filename == path), 0)
    text = "".join(traceback.format_exception_only(error)[-1:]).strip()
    trace = [f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
    return {"text": text[-2000:], "line": line, "column": column, "trace": trace[-20:]}


if __name__ == "__main__":
    main()
