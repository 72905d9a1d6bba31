"""Every kind of action of the fleet: importing this module registers all of them, so that any plan can be decoded."""

from __future__ import annotations

# Each of these modules registers its kinds.
from seamark.connectors import actions as apply_connector  # noqa: F401
from seamark.copies.cutover import action as copy_actions  # noqa: F401
from seamark.copies.cutover import undo as cut_back  # noqa: F401
from seamark.dead_letters import actions as skip_actions  # noqa: F401
from seamark.kip199 import actions as import_actions  # noqa: F401
from seamark.lifecycle import actions as lifecycle_actions  # noqa: F401
from seamark.lifecycle import relocation_action  # noqa: F401
from seamark.offsets.repair import repair_action  # noqa: F401
from seamark.offsets.write import actions, record_actions  # noqa: F401
