"""Every kind of step, by its name."""

from __future__ import annotations

from seamark.change.step import Step
from seamark.change.steps.aside import BringBack, SetAside
from seamark.change.steps.await_progress import AwaitProgress
from seamark.change.steps.await_running import AwaitRunning
from seamark.change.steps.carry_reader import CarryReader, CarryReaderBack, ReturnReader
from seamark.change.steps.cleaning import AwaitCleaned, LendTopicConfig, LevelRecords
from seamark.change.steps.connector import CreateConnector, DeleteConnector, PutConfig
from seamark.change.steps.copy_looks import Approach, CatchUp, ProveCopy, ProveStill, ProveUntouched
from seamark.change.steps.copy_offsets import CopyOffsets, VerifyCopied
from seamark.change.steps.group import DeleteGroup, MoveGroup
from seamark.change.steps.landing_looks import ProveCarried, ShutOutLanding
from seamark.change.steps.logger import SetLogger
from seamark.change.steps.meanwhile import LendConfig, MakeParkingTopic, RunMeanwhile
from seamark.change.steps.mend import MendOffsets, VerifyMended
from seamark.change.steps.offset_file import VerifyOffsetFile, WriteOffsetFile
from seamark.change.steps.offset_records import WriteRecords
from seamark.change.steps.offsets import WriteOffsets
from seamark.change.steps.park import ParkRecord
from seamark.change.steps.pipeline import RegisterPipeline
from seamark.change.steps.poison import AwaitPoison
from seamark.change.steps.preview import CheckPreview
from seamark.change.steps.progress import CheckProgress
from seamark.change.steps.relocate import CarryOffsets, MakeOffsetsTopic, VerifyCarried
from seamark.change.steps.restored import BeginBack, StartRestored
from seamark.change.steps.run_state import RestartFailed, SetRunState
from seamark.change.steps.stopped import ProveStopped, VerifyOffsets
from seamark.change.steps.switch_config import StartSwitched, SwitchConfig
from seamark.change.steps.topic import CreateTopic, DeleteNewTopic, DeleteTopic
from seamark.change.steps.topic_change import AlterTopicConfig, GrowTopic
from seamark.change.steps.turn_over import TurnBack, TurnOver
from seamark.change.steps.unused import ProveUnused
from seamark.errors import UsageError
from seamark.model.plan import StepData

_CONNECT = (AwaitRunning, CreateConnector, PutConfig, DeleteConnector, SetRunState, RestartFailed, SetLogger)
_OFFSETS = (SetAside, BringBack, ProveStopped, CheckPreview, WriteOffsets, VerifyOffsets, CheckProgress)
_CARRIED = (
    MakeOffsetsTopic,
    CarryOffsets,
    VerifyCarried,
    WriteRecords,
    CopyOffsets,
    VerifyCopied,
    WriteOffsetFile,
    VerifyOffsetFile,
    ProveUnused,
)
_KAFKA = (CreateTopic, DeleteNewTopic, DeleteTopic, GrowTopic, AlterTopicConfig, MoveGroup, DeleteGroup)
_MENDING = (MendOffsets, VerifyMended, LendTopicConfig, AwaitCleaned, LevelRecords)
_SKIPPING = (LendConfig, RunMeanwhile, AwaitPoison, MakeParkingTopic, ParkRecord, AwaitProgress)
_CUTOVER = (
    Approach,
    CatchUp,
    ProveCopy,
    ProveStill,
    ProveUntouched,
    CarryReader,
    CarryReaderBack,
    ReturnReader,
    ShutOutLanding,
    ProveCarried,
    SwitchConfig,
    TurnOver,
    TurnBack,
    StartSwitched,
    BeginBack,
    StartRestored,
)

_ALL = (*_CONNECT, *_OFFSETS, *_CARRIED, *_KAFKA, *_MENDING, *_SKIPPING, *_CUTOVER, RegisterPipeline)

STEPS: dict[str, type[Step]] = {step.kind: step for step in _ALL}


def build_step(data: StepData) -> Step:
    """The step that a plan's data describes."""
    kind = STEPS.get(data.kind)
    if kind is None:
        raise UsageError(
            f"this seamark does not know the step {data.kind!r}", hint="apply the plan with the version that made it"
        )
    return kind.from_data(data)
