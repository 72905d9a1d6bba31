"""Every error seamark raises, in one tree.

    SeamarkError                      1    something failed
    ├── UsageError                    64   the call itself is wrong
    ├── ConfigurationError            64   a file or setting is wrong or missing
    │   ├── ContextNotFoundError           no context of that name
    │   ├── MissingSettingError            a setting is needed and stands nowhere
    │   ├── InvalidSettingError            a setting has a value that can't be used
    │   ├── SecretError                    a secret reference can't be resolved
    │   └── SpecError                      a spec file can't be used
    ├── AccessError                   4    the other side does not let us
    │   ├── AuthenticationError            it does not know us
    │   └── AuthorizationError             it knows us and says no
    ├── RefusedError                  5    a safety rule says no
    │   ├── UntrustedSettingError          a less trusted place would receive credentials
    │   ├── UnsupportedError               this worker is too old for the call
    │   ├── LockedError                    another process is changing the resource
    │   ├── StalePlanError                 the plan is out of date
    │   ├── FormatVersionError             stored data has a format version that this seamark can't read
    │   └── TamperedJournalError           the journal is not as it was written
    ├── UnreachableError              6    no server responds; try again later
    │   ├── DeadlineError                  it did not end within its deadline
    │   └── UnsettledError                 a rebalance hides what is meant to be
    ├── UnknownOutcomeError           1    it may or may not have happened; look before you repeat it
    │   ├── UndecidableError               no later look can tell: a person decides
    │   └── UnreadableOutcomeError         the state can't be read now; a later look can tell
    ├── RejectedError                 1    the other side understood and said no
    │   ├── NotFoundError                  the thing is not there
    │   └── AlreadyExistsError             the thing is there already
    ├── FencedError                   1    another process took over the change; this one must stop
    ├── JournalError                  1    the journal can't be written, so nothing more is done
    ├── PartialError                  3    some parts worked, some did not
    ├── DevstackError                 1    a real server for tests could not be run
    └── InterruptedRunError           130  the user stopped it

The number is the exit code of the command line. Each error says what happened (`message`),
why (`cause`), to what (`context`) and what to do next (`hint`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar


class SeamarkError(Exception):
    """What went wrong, to what, and what to do next."""

    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        cause: str = "",
        hint: str = "",
        context: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.cause = cause
        self.hint = hint
        self.context: dict[str, str] = dict(context or {})

    @property
    def code(self) -> str:
        """A stable word for programs: NotFoundError is NOT_FOUND."""
        name = type(self).__name__.removesuffix("Error")
        return re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()

    def as_dict(self) -> dict[str, Any]:
        """The same error as a JSON object, as `-o json` and the web give it."""
        return {
            "code": self.code,
            "message": self.message,
            "cause": self.cause,
            "hint": self.hint,
            "retryable": self.retryable,
            "context": dict(self.context),
        }


class UsageError(SeamarkError):
    """The call itself is wrong: an argument, a flag, a name."""

    exit_code = 64


class ConfigurationError(SeamarkError):
    """A file or a setting is wrong or missing."""

    exit_code = 64


class ContextNotFoundError(ConfigurationError):
    """No context of that name."""


class MissingSettingError(ConfigurationError):
    """A setting is needed and stands nowhere; the cause lists every place that was tried."""


class InvalidSettingError(ConfigurationError):
    """A setting has a value that can't be used."""


class SecretError(ConfigurationError):
    """A secret reference can't be resolved. The message names the reference, never the value."""


class SpecError(ConfigurationError):
    """A spec file can't be used. The cause names file, line and column."""


class AccessError(SeamarkError):
    """The other side does not let us."""

    exit_code = 4


class AuthenticationError(AccessError):
    """The other side does not know us."""


class AuthorizationError(AccessError):
    """The other side knows us and says no."""


class PermissionDeniedError(AccessError):
    """The roles of the context don't allow it, or the context is read-only. Nothing was changed."""


class RefusedError(SeamarkError):
    """A safety rule says no. Nothing was changed."""

    exit_code = 5


class UntrustedSettingError(RefusedError):
    """Credentials would go to an address, or through a setting, of a place that is less trusted than they are."""


class UnsupportedError(RefusedError):
    """This worker is too old, or too differently set up, for the call. Nothing was sent."""


class LockedError(RefusedError):
    """Another process is changing the resource; the cause names its owner, its start and its current step."""


class StalePlanError(RefusedError):
    """The plan is out of date; the cause says what changed since. No changes were made."""


class StaleFilesError(StalePlanError):
    """Another commit has changed the files of a table that a rewrite has read."""


class FormatVersionError(RefusedError):
    """Stored data has a format version that this seamark can't read; the message names both versions."""


class TamperedJournalError(RefusedError):
    """The journal is not as it was written, so that seamark doesn't act on it."""


class UnreachableError(SeamarkError):
    """No server responds, or every answer asks to retry later."""

    exit_code = 6
    retryable = True


class DeadlineError(UnreachableError):
    """It did not end within its deadline. Nothing was changed by the last attempt."""


class UnsettledError(UnreachableError):
    """Connect answers, but its answer may be incomplete: a rebalance is in progress, or a worker has left."""


class UnknownOutcomeError(SeamarkError):
    """The request may or may not have been carried out. Read the state before you repeat it."""


class UndecidableError(UnknownOutcomeError):
    """Whether it was carried out can't be read from the state any more: a person decides."""


class UnreadableOutcomeError(UnknownOutcomeError):
    """The offsets that show whether it was carried out can't be read, so the connector was not started again."""


class RejectedError(SeamarkError):
    """The other side understood the request and said no. Nothing was changed."""


class NotFoundError(RejectedError):
    """The thing is not there."""


class AlreadyExistsError(RejectedError):
    """The thing is there already."""


class FencedError(SeamarkError):
    """Another process took over this change, so that this process must not act any more."""


class JournalError(SeamarkError):
    """The journal can't be written. No step is begun without its entry."""


class PartialError(SeamarkError):
    """Some parts worked and some did not; `failures` holds every one of them."""

    exit_code = 3

    def __init__(
        self,
        message: str,
        *,
        failures: Mapping[str, SeamarkError],
        hint: str = "",
        context: Mapping[str, str] | None = None,
    ) -> None:
        cause = "; ".join(f"{name}: {error.message}" for name, error in failures.items())
        super().__init__(message, cause=cause, hint=hint, context=context)
        self.failures = dict(failures)


class DevstackError(SeamarkError):
    """A real server for tests or the demo could not be run."""


class InterruptedRunError(SeamarkError):
    """The user stopped it."""

    exit_code = 130


def format_install_hint(extra: str) -> str:
    """Return the hint that names the command for a missing extra.

    seamark isn't published on a package index, so that `pip install 'seamark[spark]'` would fail.

    Args:
        extra: a key of `[project.optional-dependencies]`, such as `spark`.

    Returns:
        A hint that starts with a verb.
    """
    return f"run pip install '.[{extra}]' in a checkout of seamark"
