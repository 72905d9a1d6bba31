"""Every kind of action. Importing this module registers all of them, so that any plan can be decoded."""

# ruff: noqa: F401 - each module registers its kinds when it is imported
from __future__ import annotations

import seamark.connectors.actions
import seamark.copies.cutover.action
import seamark.copies.cutover.undo
import seamark.dead_letters.actions
import seamark.kip199.actions
import seamark.lifecycle.actions
import seamark.lifecycle.relocation_action
import seamark.offsets.repair.repair_action
import seamark.offsets.write.actions
import seamark.offsets.write.record_actions
