"""Lakes of the context, opened. What reads and writes Delta is loaded when one is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.errors import ConfigurationError

if TYPE_CHECKING:
    from seamark.context.settings import LakeSettings
    from seamark.tables.delta.place import LakePlace
    from seamark.tables.delta.table import LakeTable


def open_lake(settings: LakeSettings) -> LakePlace:
    """Where a lake is, with its keys."""
    try:
        import deltalake  # noqa: F401, PLC0415

        from seamark.tables.delta.place import LakePlace  # noqa: PLC0415
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
    from seamark.tables.delta.landings import open_landing  # noqa: PLC0415

    return open_landing(lake, owner)


def list_landings(settings: LakeSettings) -> list[str]:
    """The owners of all landings that a lake knows."""
    lake = open_lake(settings)
    from seamark.tables.delta.landings import list_owners  # noqa: PLC0415

    return list_owners(lake)
