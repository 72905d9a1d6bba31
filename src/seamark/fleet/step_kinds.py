"""Every kind of step. Importing this package registers all of them."""

from __future__ import annotations

from seamark.changes.step import STEPS
from seamark.connectors import await_running, connector, run_state  # noqa: F401
from seamark.connectors import logger_step as logger  # noqa: F401
from seamark.copies.cutover import carry_reader, copy_looks, landing_looks, restored, switch_config, turn_over  # noqa: F401

# Each of these modules registers its kinds, so that any plan can be decoded.
from seamark.dead_letters import await_progress, meanwhile, park, poison  # noqa: F401
from seamark.groups import group  # noqa: F401
from seamark.kip199 import offset_file  # noqa: F401
from seamark.lifecycle import relocation_steps as relocate  # noqa: F401
from seamark.offsets.repair import mend  # noqa: F401
from seamark.offsets.write import copy_offsets, offset_records, stopped, unused  # noqa: F401
from seamark.offsets.write import preview_step as preview  # noqa: F401
from seamark.offsets.write import progress_step as progress  # noqa: F401
from seamark.offsets.write import steps as offsets  # noqa: F401
from seamark.pipelines import pipeline  # noqa: F401
from seamark.topics import topic, topic_change  # noqa: F401

__all__ = ["STEPS"]
