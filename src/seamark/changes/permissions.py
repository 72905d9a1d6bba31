"""Permissions of a context: the principal of this process, its roles, and the permission checks of services."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from seamark.errors import PermissionDeniedError
from seamark.policy.permissions import ANONYMOUS, Access, Permission, build_role

if TYPE_CHECKING:
    from seamark.context import Context

F = TypeVar("F", bound=Callable[..., Any])
_MOST_SHOWN = 10


def find_principal(context: Context) -> str:
    """Return the principal as the brokers name it: the SASL user, else the subject of the TLS certificate.

    Without either, it is the user of the REST API, or `User:ANONYMOUS` if there is none.
    """
    values = context.kafka.values
    if "sasl.username" in values:
        return f"User:{values['sasl.username'].reveal()}"
    if "ssl.certificate.location" in values and (subject := _read_subject(values["ssl.certificate.location"].reveal())):
        return f"User:{subject}"
    users = {settings.username for settings in context.connect.values() if settings.username}
    return f"User:{users.pop()}" if len(users) == 1 else ANONYMOUS


def build_access(context: Context) -> Access:
    """Return what the principal of this process may do in a context."""
    roles = tuple(build_role(name, texts) for name, texts in context.roles.items())
    return Access(find_principal(context), roles, context.read_only)


def permits(permission: Permission) -> Callable[[F], F]:
    """Declare the permission that a service of the fleet requires, and check it whenever the service is accessed."""

    def declare(function: F) -> F:
        @wraps(function)
        def checked(fleet: Any, *args: Any, **kwargs: Any) -> Any:
            check_permission(fleet.access, permission, doing=function.__name__.replace("_", " "))
            return function(fleet, *args, **kwargs)

        checked.permission = permission  # type: ignore[attr-defined]
        return cast("F", checked)

    return declare


def check_permission(access: Access, permission: Permission, *, doing: str) -> None:
    """Refuse an operation that isn't about a single resource.

    Raises:
        PermissionDeniedError: no role allows it, or the context is read-only.
    """
    if denied := access.find_denied((permission,), (None,)):
        raise build_denied(doing, denied)


def build_denied(doing: str, denied: tuple[str, ...]) -> PermissionDeniedError:
    """Build the error for an operation that no role allows."""
    more = len(denied) - _MOST_SHOWN
    is_read_only = all("read-only" in one for one in denied)
    return PermissionDeniedError(
        f"not allowed: {doing}; no changes were made",
        cause="; ".join(denied[:_MOST_SHOWN]) + (f"; and {more} more" if more > 0 else ""),
        hint="use a context that isn't read-only"
        if is_read_only
        else "request the permission (`roles` in the context), or use a context whose roles allow it",
    )


def _read_subject(path: str) -> str:
    """Return the subject of a certificate as Kafka's default principal builder writes it; "" if it can't be read."""
    from cryptography import x509  # noqa: PLC0415

    try:
        found = x509.load_pem_x509_certificate(Path(path).read_bytes())
    except (OSError, ValueError):
        return ""
    return found.subject.rfc4514_string()
