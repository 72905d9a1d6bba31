"""Contexts: which Kafka and Connect clusters there are, and where every value comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.core import build_lazy_names

if TYPE_CHECKING:
    from seamark.context.context import ConnectSettings, Context, DatabaseSettings, KafkaSettings, PaceSettings
    from seamark.context.contexts import Contexts, load_contexts, open_context
    from seamark.context.journal import JournalKind, JournalSettings, Verify
    from seamark.context.layer import Origin, OriginKind
    from seamark.context.reference import Secret, is_masked, mask_urls
    from seamark.context.value import Setting
    from seamark.context.writing import WrittenFile, add_context, remove_context, rename_context, use_context

__all__ = [
    "ConnectSettings",
    "Context",
    "Contexts",
    "DatabaseSettings",
    "JournalKind",
    "JournalSettings",
    "KafkaSettings",
    "Origin",
    "OriginKind",
    "PaceSettings",
    "Secret",
    "Setting",
    "Verify",
    "WrittenFile",
    "add_context",
    "is_masked",
    "load_contexts",
    "mask_urls",
    "open_context",
    "remove_context",
    "rename_context",
    "use_context",
]

_LAZY = {
    "Context": "seamark.context.context",
    "Contexts": "seamark.context.contexts",
    "load_contexts": "seamark.context.contexts",
    "open_context": "seamark.context.contexts",
    "JournalKind": "seamark.context.journal",
    "JournalSettings": "seamark.context.journal",
    "Origin": "seamark.context.layer",
    "OriginKind": "seamark.context.layer",
    "Secret": "seamark.context.reference",
    "is_masked": "seamark.context.reference",
    "mask_urls": "seamark.context.reference",
    "ConnectSettings": "seamark.context.context",
    "DatabaseSettings": "seamark.context.context",
    "KafkaSettings": "seamark.context.context",
    "PaceSettings": "seamark.context.context",
    "Setting": "seamark.context.value",
    "Verify": "seamark.context.journal",
    "WrittenFile": "seamark.context.writing",
    "add_context": "seamark.context.writing",
    "remove_context": "seamark.context.writing",
    "rename_context": "seamark.context.writing",
    "use_context": "seamark.context.writing",
}
# `seamark --help` names these and needs none of them: twenty dataclasses are 50 ms of start-up.
__getattr__ = build_lazy_names(__name__, _LAZY)
