# Types of the names that `__init__.py` imports at their first use. import-linter doesn't read this file: the package
# itself depends on no stratum.
from seamark.fleet import Fleet as Fleet
from seamark.fleet import open_fleet as open  # noqa: A004

__all__ = ["Fleet", "__version__", "open"]
__version__: str
