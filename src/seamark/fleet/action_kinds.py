"""Every kind of action of the fleet: importing this module registers all of them, so that any plan can be decoded."""

from __future__ import annotations

# Each of these modules registers its kinds.
from seamark.change.steps import apply_connector  # noqa: F401
from seamark.fleet.copies import actions as copy_actions  # noqa: F401
from seamark.fleet.copies import cut_back  # noqa: F401
from seamark.fleet.kip199 import actions as import_actions  # noqa: F401
from seamark.fleet.moving import actions, lifecycle_actions, record_actions, relocation_action, repair_action  # noqa: F401
from seamark.fleet.skip import actions as skip_actions  # noqa: F401
