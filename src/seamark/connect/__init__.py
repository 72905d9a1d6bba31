"""Connect's REST API: wire models, client, capabilities by version, what an answer means.

    client.py      what can be asked, one method each
    caller.py      one call from first attempt to answer: fail-over, pauses, deadline
    answers.py     what an answer means, and the table of the rules
    transport.py   one HTTP request and nothing else
    wire.py        Connect's JSON as seamark's values
    capability.py  what a worker of some version can do

Names are loaded when first used: httpx2 and pydantic cost a quarter of a second that `seamark --help` must not pay.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seamark.connect.caller import Timing
    from seamark.connect.capability import Capabilities, Capability
    from seamark.connect.client import ConnectClient
    from seamark.connect.config import is_same_config
    from seamark.connect.model import LoggerLevel, OffsetsChange, Validation, WorkerHealth

__all__ = [
    "Capabilities",
    "Capability",
    "ConnectClient",
    "LoggerLevel",
    "OffsetsChange",
    "Timing",
    "Validation",
    "WorkerHealth",
    "is_same_config",
]

_HOMES = {
    "Capabilities": "seamark.connect.capability",
    "Capability": "seamark.connect.capability",
    "ConnectClient": "seamark.connect.client",
    "LoggerLevel": "seamark.connect.model",
    "OffsetsChange": "seamark.connect.model",
    "Timing": "seamark.connect.caller",
    "Validation": "seamark.connect.model",
    "WorkerHealth": "seamark.connect.model",
    "is_same_config": "seamark.connect.config",
}


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    return getattr(import_module(home), name)
