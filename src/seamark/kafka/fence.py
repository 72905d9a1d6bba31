"""Keeping somebody with a transactional.id from writing any more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from seamark.core.deadline import limit_timeout
from seamark.errors import AccessError, SeamarkError, UnreachableError
from seamark.kafka.transaction import TransactionalWriter


def fence_producer(
    config: Mapping[str, str],
    transactional_id: str,
    *,
    timeout_seconds: float,
    build_producer: Callable[[dict[str, Any]], Any] | None = None,
) -> None:
    """Take a transactional.id: whoever held it can write no more, and what it had not committed is taken back.

    Raises:
        AccessError: the brokers do not let us.
        UnreachableError: it may still write.
        DeadlineError: the deadline of the request has passed; nothing was sent.
    """
    timeout_seconds = limit_timeout(timeout_seconds, action=f"take the transactional id {transactional_id}")
    writer = TransactionalWriter(
        config, transactional_id=transactional_id, write_seconds=timeout_seconds, build_producer=build_producer
    )
    try:
        writer.take()
    except AccessError:
        raise
    except SeamarkError as error:
        # Not the journal's error, whose own transactions these are not: nothing was changed, and somebody may go on.
        raise UnreachableError(
            f"could not take the transactional id {transactional_id}: whoever holds it may still write",
            cause=error.cause or error.message,
            hint="check that the brokers run, then repeat it",
            context={"transactional_id": transactional_id},
        ) from error
    finally:
        writer.close()
