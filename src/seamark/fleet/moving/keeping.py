"""Whether a connector's config may stand in plans and in the journal, and be created again from there.

A plan file and the journal are read by many, and a literal secret looks like any other text. So everybody who may know
is asked: the key's name, the look of the value, the plugin, and what the journal sealed before.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from seamark.change.steps.aside import build_unkept
from seamark.change.steps.config import hide_secrets
from seamark.change.steps.stillness import Kept, build_kept
from seamark.errors import RefusedError, SeamarkError
from seamark.model.sensitive import mask_text

if TYPE_CHECKING:
    from seamark.connect import Validation
    from seamark.fleet.ports import ConnectPort
    from seamark.model.connector import Connector


def require_kept(connector: Connector, client: ConnectPort, *, sealed: Collection[str]) -> Kept:
    """What is kept of a connector that is deleted for a while. `sealed` are keys that were secrets before.

    Raises:
        RefusedError: its config holds literal secrets, nobody can tell whether it does, or Connect would not take it.
    """
    kept = build_kept(connector)
    # By what needs no answer first: who has a password in clear need not wait for the plugin.
    _refuse_secrets(connector, kept, sealed)
    found = _validate(connector, client)
    _refuse_secrets(connector, kept, {*sealed, *found.secret})
    if not found.is_valid:
        raise RefusedError(
            f"Connect would not take the config of {connector.owner} again, and it would have to be deleted for a "
            "while; nothing was changed",
            cause=mask_text("; ".join(f"{key}: {', '.join(said)}" for key, said in found.errors.items())),
            hint=f"mend its config first: seamark connectors show {connector.owner}",
        )
    return kept


def _refuse_secrets(connector: Connector, kept: Kept, hidden: Collection[str]) -> None:
    shown = hide_secrets(kept.config, hidden)
    if lost := tuple(sorted(key for key, value in kept.config.items() if value and shown[key] != value)):
        raise build_unkept(f"connector/{connector.owner}", lost)


def _validate(connector: Connector, client: ConnectPort) -> Validation:
    try:
        return client.validate_config(connector.plugin, {**connector.config, "name": connector.name})
    except SeamarkError as error:
        raise RefusedError(
            f"nobody could tell which values of {connector.owner} are secrets; nothing was changed",
            cause=f"it would have to be deleted for a while, with its config in the journal; {error.message}",
            hint="try again when its plugin answers",
        ) from error
