"""Every kind of step. Importing this module registers all of them, so that any plan can be decoded."""

# ruff: noqa: F401 - each module registers its kinds when it is imported
from __future__ import annotations

import seamark.connectors.await_running
import seamark.connectors.connector
import seamark.connectors.logger_step
import seamark.connectors.run_state
import seamark.copies.cutover.carry_reader
import seamark.copies.cutover.copy_looks
import seamark.copies.cutover.landing_looks
import seamark.copies.cutover.restored
import seamark.copies.cutover.switch_config
import seamark.copies.cutover.turn_over
import seamark.dead_letters.await_progress
import seamark.dead_letters.meanwhile
import seamark.dead_letters.park
import seamark.dead_letters.poison
import seamark.groups.group
import seamark.kip199.offset_file
import seamark.lifecycle.relocation_steps
import seamark.offsets.repair.mend
import seamark.offsets.write.copy_offsets
import seamark.offsets.write.offset_records
import seamark.offsets.write.preview_step
import seamark.offsets.write.progress_step
import seamark.offsets.write.steps
import seamark.offsets.write.stopped
import seamark.offsets.write.unused
import seamark.pipelines.pipeline
import seamark.topics.topic
import seamark.topics.topic_change
from seamark.changes.step import STEPS

__all__ = ["STEPS"]
