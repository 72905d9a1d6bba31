"""Every kind of step and action. Importing this module registers all of them, so that any plan can be decoded."""

# ruff: noqa: F401 - each module registers its kinds when it is imported
from __future__ import annotations

import seamark.connectors.actions
import seamark.connectors.loggers
import seamark.connectors.run_state
import seamark.connectors.steps
import seamark.copies.cutover.action
import seamark.copies.cutover.checks
import seamark.copies.cutover.steps
import seamark.copies.cutover.undo
import seamark.dead_letters.action
import seamark.dead_letters.search
import seamark.dead_letters.steps
import seamark.groups.actions
import seamark.kip199.action
import seamark.kip199.steps
import seamark.lifecycle.actions
import seamark.lifecycle.deletion
import seamark.lifecycle.relocate
import seamark.offsets.repair.action
import seamark.offsets.write.action
import seamark.offsets.write.guards
import seamark.offsets.write.records
import seamark.offsets.write.steps
import seamark.pipelines.actions
import seamark.pipelines.rebuild
import seamark.topics.actions
from seamark.changes.step import STEPS

__all__ = ["STEPS"]
