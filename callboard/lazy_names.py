"""Public names that are loaded on first use (PEP 562), from one table.

    _HOMES = {"runtime.agent": ("Agent",), "replay.recording": ("Recording",)}
    __all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)

Type checkers cannot read such a table. They read the stub beside it, which `python -m tools.public_names`
writes from the table; a test compares the two.
"""

import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TypeAlias

Homes: TypeAlias = Mapping[str, tuple[str, ...]]
"""Module, without the leading `callboard.`, to the public names it defines."""


def classes_of(*modules: ModuleType) -> Homes:
    """Return a table of all public classes that these modules of callboard define, in their order."""
    return {
        module.__name__.removeprefix("callboard."): tuple(
            name
            for name, value in vars(module).items()
            if isinstance(value, type) and value.__module__ == module.__name__ and name[0] != "_"
        )
        for module in modules
    }


def lazy_names(
    package: str, homes: Homes
) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` for a package that offers these names."""
    found = {name: f"callboard.{home}" for home, names in homes.items() for name in names}
    names = sorted(found)

    def load(name: str) -> object:
        if name not in found:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        # As `from home import name`, which finds a submodule that is not loaded yet; import_module does not.
        # Imported here: the bare `import callboard` loads nothing else.
        from callboard.keywords import checked

        value = checked(getattr(__import__(found[name], fromlist=[name]), name))
        vars(sys.modules[package])[name] = value
        return value

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *names})

    return names, load, listed
