"""Counts the calls into a package while a function runs.

What is counted, in all threads:

- modules entered: modules of which a function, a method or a lambda was called. Loading a module does not enter it, and
  calls made while a module is being loaded are not counted.
- distinct functions: functions and methods by module and qualified name. Lambdas, comprehensions and methods that the
  interpreter generates, such as `__init__` of a dataclass, are not counted.
- returns to a module: calls into another module than the one that calls, if that module was entered before. The calling
  module is that of the nearest function of the package on the stack. A generator that continues counts as a call.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, Self

_MODULE_BODY = "<module>"
_LAMBDA = "<lambda>"


@dataclass(slots=True)
class _Thread:
    """The functions of the package on the stack of one thread, by module, and how many modules are being loaded."""

    modules: list[str] = field(default_factory=list)
    loading: int = 0


class Tracer:
    """Counts within `with`. `modules`, `functions` and `returns` are the results."""

    def __init__(self, package: str) -> None:
        found = sys.modules[package].__file__
        if found is None:
            raise ValueError(f"{package} has no file")
        self._package = package
        self._folder = Path(found).parent
        self._names: dict[CodeType, str] = {}
        self._local = threading.local()
        self._lock = threading.Lock()
        self._is_on = False
        self._changes = 0
        self.modules: set[str] = set()
        self.functions: set[tuple[str, str]] = set()

    @property
    def returns(self) -> int:
        """How often control came back to a module: each change of modules but the first into each."""
        return self._changes - len(self.modules)

    def __enter__(self) -> Self:
        self._is_on = True
        threading.setprofile(self._trace)
        sys.setprofile(self._trace)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.setprofile(None)
        threading.setprofile(None)
        # A thread that is still running keeps its profile function.
        self._is_on = False

    def _trace(self, frame: FrameType, event: str, _: Any) -> None:
        if not self._is_on or event not in ("call", "return"):
            return
        code = frame.f_code
        module = self._names.get(code)
        if module is None:
            module = self._names[code] = self._find_module(code)
        if not module:
            return
        thread = self._find_thread()
        if code.co_name == _MODULE_BODY:
            thread.loading += 1 if event == "call" else -1
        elif thread.loading:
            return
        elif event == "call":
            self._enter(thread, module, code)
        elif thread.modules:
            thread.modules.pop()

    def _enter(self, thread: _Thread, module: str, code: CodeType) -> None:
        is_change = not thread.modules or thread.modules[-1] != module
        thread.modules.append(module)
        with self._lock:
            self._changes += is_change
            self.modules.add(module)
            if code.co_name != _LAMBDA:
                self.functions.add((module, code.co_qualname))

    def _find_module(self, code: CodeType) -> str:
        """Return the module of a code object, and nothing for code that is not counted."""
        file = Path(code.co_filename)
        is_counted = not code.co_name.startswith("<") or code.co_name in (_MODULE_BODY, _LAMBDA)
        if not is_counted or not file.is_relative_to(self._folder):
            return ""
        parts = file.relative_to(self._folder).with_suffix("").parts
        return ".".join((self._package, *(parts[:-1] if parts[-1] == "__init__" else parts)))

    def _find_thread(self) -> _Thread:
        found: _Thread | None = getattr(self._local, "thread", None)
        if found is None:
            found = self._local.thread = _Thread()
        return found
