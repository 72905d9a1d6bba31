"""The landings and exact consumers whose ledgers are in the databases and lakes of a context."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.core.readings import Reading
from seamark.core.refs import build_pipeline_owner, is_pipeline
from seamark.errors import ConfigurationError, SeamarkError

if TYPE_CHECKING:
    from seamark.context import Context
    from seamark.context.context import LakeSettings
    from seamark.tables.delta.location import LakePlace
    from seamark.tables.delta.table import LakeTable


def open_lake(settings: LakeSettings) -> LakePlace:
    """Where a lake is, with its keys."""
    try:
        import deltalake  # noqa: F401, PLC0415

        from seamark.tables.delta.location import LakePlace  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError(
            f"the lake {settings.name} can't be opened: Arrow and delta-rs are not installed",
            cause=str(error),
            hint="pip install 'seamark[spark]'",
        ) from error
    return LakePlace(
        settings.url,
        endpoint=settings.endpoint,
        region=settings.region,
        access_key=settings.access_key.reveal() if settings.access_key else "",
        secret_key=settings.secret_key.reveal() if settings.secret_key else "",
    )


def find_landing(settings: LakeSettings, owner: str) -> LakeTable | None:
    """The table of a lake with a landing's offsets; None where the lake knows no such landing."""
    lake = open_lake(settings)
    from seamark.tables.delta.maintenance import open_landing  # noqa: PLC0415

    return open_landing(lake, owner)


def list_landings(settings: LakeSettings) -> list[str]:
    """The owners of all landings that a lake knows."""
    lake = open_lake(settings)
    from seamark.tables.delta.maintenance import list_owners  # noqa: PLC0415

    return list_owners(lake)


def list_owners(context: Context) -> Reading[str]:
    """Every owner `pipeline/NAME`, and by `database NAME` or `lake NAME` who did not answer."""
    stored, lakes = _list_in_databases(context, prefix=build_pipeline_owner("")), _list_in_lakes(context)
    return Reading(tuple(sorted({*stored.items, *lakes.items})), failures={**stored.failures, **lakes.failures})


def list_consumers(context: Context) -> frozenset[str]:
    """Every owner in the context's databases that is no landing: exact consumers, mostly by the names of their groups.

    Of databases that don't answer nothing is known; `list_owners` tells which.
    """
    owners = _list_in_databases(context, prefix="").items
    return frozenset(owner for owner in owners if not is_pipeline(owner))


def _list_in_lakes(context: Context) -> Reading[str]:
    found: list[str] = []
    failures: dict[str, SeamarkError] = {}
    for settings in context.lakes.values():
        try:
            found += list_landings(settings)
        except SeamarkError as error:
            failures[f"lake {settings.name}"] = error
    return Reading(tuple(found), failures=failures)


def _list_in_databases(context: Context, *, prefix: str) -> Reading[str]:
    if not context.databases:
        return Reading()
    try:
        from seamark.tables.postgres.connection import read_owners  # noqa: PLC0415
    except ImportError as error:
        return Reading(failures=dict.fromkeys(map(_name, context.databases), _build_no_driver(error)))
    found: dict[str, None] = {}
    failures: dict[str, SeamarkError] = {}
    for settings in context.databases.values():
        try:
            found |= dict.fromkeys(read_owners(settings.dsn.reveal(), settings.name, prefix=prefix))
        except SeamarkError as error:
            failures[_name(settings.name)] = error
    return Reading(tuple(sorted(found)), failures=failures)


def _name(database: str) -> str:
    return f"database {database}"


def _build_no_driver(error: ImportError) -> SeamarkError:
    return ConfigurationError(
        "PostgreSQL's driver is not installed", cause=str(error), hint="pip install 'seamark[postgres]'"
    )
