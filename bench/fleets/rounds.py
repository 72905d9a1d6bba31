"""What `fleet-apply` does to a fleet, in four rounds: as files for ours, as lists for the bare leg."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

PLUGIN = "org.apache.kafka.connect.file.FileStreamSourceConnector"
STOPPED, RUNNING = "STOPPED", "RUNNING"


@dataclass(frozen=True, slots=True)
class Wanted:
    """One connector that should be: a file source that reads nothing."""

    name: str
    file: str
    batch: str = "100"
    state: str = STOPPED

    @property
    def config(self) -> dict[str, str]:
        """Its config."""
        return {
            "connector.class": PLUGIN,
            "tasks.max": "1",
            "file": self.file,
            "topic": self.name,
            "batch.size": self.batch,
        }


@dataclass(frozen=True, slots=True)
class Round:
    """One round. `wanted` is the whole fleet after it; the rest is the way there."""

    title: str
    wanted: tuple[Wanted, ...]
    created: tuple[Wanted, ...] = ()
    changed: tuple[Wanted, ...] = ()
    deleted: tuple[str, ...] = ()


def build_rounds(size: int, *, prefix: str, file: str) -> tuple[Round, ...]:
    """`size` connectors created as STOPPED, a tenth of them changed, a tenth deleted; then a fifth more, running."""
    tenth = size // 10
    first = tuple(Wanted(f"{prefix}-{number:04d}", file) for number in range(size))
    changed = tuple(replace(one, batch="200") for one in first[:tenth])
    kept = changed + first[tenth : size - tenth]
    running = tuple(Wanted(f"{prefix}-run-{number:04d}", file, state=RUNNING) for number in range(size // 5))
    return (
        Round("create", first, created=first),
        Round("change", changed + first[tenth:], changed=changed),
        Round("delete", kept, deleted=tuple(one.name for one in first[size - tenth :])),
        Round("run", kept + running, created=running),
    )


def write_files(folder: Path, wanted: Sequence[Wanted], *, spec: str) -> None:
    """Write the folder that says so: defaults, and one file with a template for each state."""
    folder.mkdir(exist_ok=True)
    (folder / "_defaults.yaml").write_text(f"spec: {spec}\n")
    by_state: Mapping[str, list[Wanted]] = {
        state: [one for one in wanted if one.state == state] for state in (STOPPED, RUNNING)
    }
    for state, found in by_state.items():
        if found:
            (folder / f"{state.lower()}.yaml").write_text("\n".join(_render(found, state)) + "\n")


def _render(wanted: Sequence[Wanted], state: str) -> Iterator[str]:
    yield "each:"
    yield "  - name: ${{ each.name }}"
    yield f"    state: {state.lower()}"
    yield "    config:"
    yield f"      connector.class: {PLUGIN}"
    yield "      tasks.max: 1"
    yield "      topic: ${{ each.name }}"
    yield "      file: ${{ each.file }}"
    yield "      batch.size: ${{ each.batch }}"
    yield "    for:"
    for one in wanted:
        yield f"      - {{name: {one.name}, batch: {one.batch}, file: {one.file}}}"
