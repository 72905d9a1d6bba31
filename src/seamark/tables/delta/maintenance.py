"""Which landings a lake has: a small file for each, by which its table is found when no spec file is at hand."""

from __future__ import annotations

import json
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from seamark.core.refs import build_pipeline_owner, parse_owner
from seamark.core.strict_json import StoredFormat, check_format
from seamark.errors import NotFoundError, RefusedError, UnreachableError
from seamark.tables.delta.files import FILE_BYTES
from seamark.tables.delta.location import TableLocation
from seamark.tables.delta.table import LakeTable
from seamark.tables.model import FilePart

_MARK = "seamark.compaction"
_ROWS = "num_records"


def list_files(table: LakeTable) -> list[FilePart]:
    """How many files each part of the table has, and how large they are together."""
    with table.telling():
        told = pa.table(table.refresh().get_add_actions(flatten=True))
    name = next((one for one in told.column_names if one.startswith("partition.")), None)
    days = told.column(name).to_pylist() if name else [None] * told.num_rows
    found: dict[str, list[int]] = {}
    for day, size in zip(days, told.column("size_bytes").to_pylist(), strict=True):
        found.setdefault("" if day is None else str(day), []).append(size)
    return [
        FilePart(day, len(sizes), sum(sizes), fewest=max(1, -(-sum(sizes) // FILE_BYTES)))
        for day, sizes in sorted(found.items())
    ]


def count_rows(table: LakeTable) -> int | None:
    """Return the rows by the statistics of the log. None without a table, or if a file has no statistics."""
    with table.telling():
        try:
            found = table.refresh()
        except NotFoundError:
            return None
        told = pa.table(found.get_add_actions(flatten=True))
    if not told.num_rows:
        return 0
    if _ROWS not in told.column_names or told.column(_ROWS).null_count:
        return None
    return int(pc.sum(told.column(_ROWS)).as_py())


def compact_files(table: LakeTable) -> tuple[int, int]:
    """Merge small files; returns how many became how many. A landing that is running continues.

    Raises:
        StalePlanError: another compaction of the table has begun meanwhile.
    """
    # delta-rs lets two compactions replace the same files, and has their rows twice. What it does look at is whether
    # the table's properties were changed: so who begins later ends who began before, however long that one was away.
    table.set_property(_MARK, uuid4().hex)
    with table.telling():
        told = table.refresh().optimize.compact(target_size=FILE_BYTES)
    return told["numFilesRemoved"], told["numFilesAdded"]


FORMAT = StoredFormat("lake pipeline", 1)

_FOLDER, _ENDING = "_seamark/landings", ".json"


def enter_landing(lake: TableLocation, owner: str, *, table: str) -> None:
    """Write down that a landing has its offsets in a table. One that is at another table is refused."""
    known = find_table(lake, owner)
    if known == table:
        return
    if known is not None and LakeTable(lake.below(known), owner=owner).read_position().vector.entries:
        raise RefusedError(
            f"{owner} has its offsets in table {known}, and can't write to table {table}",
            cause="a pipeline has one table",
            hint="use another name for the pipeline; or, to start from the beginning, delete its offsets: "
            f"seamark offsets reset {owner}",
        )
    files, path = lake.open_files(), _build_path(lake, owner)
    try:
        if isinstance(files, pafs.LocalFileSystem):
            files.create_dir(path.rpartition("/")[0], recursive=True)
        with files.open_output_stream(path) as file:
            file.write(json.dumps({**FORMAT.field, "table": table}).encode())
    except OSError as error:
        raise _build_error(lake, error) from error


def find_table(lake: TableLocation, owner: str) -> str | None:
    """The table that a landing has its offsets in; None where the lake knows no such landing."""
    if "/" in parse_owner(owner).name:
        # No landing is named so, and no path is to be made of it.
        return None
    try:
        with lake.open_files().open_input_stream(_build_path(lake, owner)) as file:
            found = json.loads(file.read())
        check_format(FORMAT, found, where=f"{_FOLDER}/{parse_owner(owner).name}{_ENDING} in {lake.url}")
        return str(found["table"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _build_error(lake, error) from error


def list_owners(lake: TableLocation) -> list[str]:
    """Every landing that the lake knows."""
    folder = f"{lake.path}/{_FOLDER}"
    try:
        found = lake.open_files().get_file_info(pafs.FileSelector(folder, allow_not_found=True))
    except OSError as error:
        raise _build_error(lake, error) from error
    names = sorted(one.base_name for one in found if one.base_name.endswith(_ENDING))
    return [build_pipeline_owner(name.removesuffix(_ENDING)) for name in names]


def open_landing(lake: TableLocation, owner: str) -> LakeTable | None:
    """The table with a landing's offsets; None where the lake knows no such landing."""
    table = find_table(lake, owner)
    return None if table is None else LakeTable(lake.below(table), owner=owner)


def _build_path(lake: TableLocation, owner: str) -> str:
    return f"{lake.path}/{_FOLDER}/{parse_owner(owner).name}{_ENDING}"


def _build_error(lake: TableLocation, error: Exception) -> UnreachableError:
    return UnreachableError(
        f"could not read or write the lake at {lake.url}",
        cause=" ".join(str(error).split())[:300],
        hint="check url, endpoint and keys of the lake in the context, and that its storage is reachable",
    )
