"""Write the stubs of the modules whose names are loaded on first use: `python -m tools.public_names`.

A test compares the committed stubs with what this makes. To add a public name, add it to the table `_HOMES`
of its module and run this.
"""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

from callboard.lazy_names import Homes

THEMES: Final = (
    "brains",
    "cluster.ray",
    "errors",
    "files",
    "frontends",
    "log",
    "memory",
    "messages",
    "models",
    "orchestrator",
    "outputs",
    "permissions",
    "replay",
    "spending",
    "streaming",
    "testing",
)
"""The modules of callboard that offer public names, beside callboard itself and callboard.tools."""


def public_modules() -> Iterator[ModuleType]:
    """Yield callboard, then the module of each theme."""
    yield import_module("callboard")
    for theme in THEMES:
        yield import_module(f"callboard.{theme}")


def stubs() -> dict[Path, str]:
    """Return the text of each stub, by its path: it lies beside its module."""
    return {
        Path(module.__file__ or "").with_suffix(".pyi").resolve(): stub(
            vars(module)["_HOMES"], has_version=module.__name__ == "callboard"
        )
        for module in public_modules()
    }


def stub(homes: Homes, *, has_version: bool = False) -> str:
    """Return the stub of a package that offers these names. has_version: it also has a `__version__`."""
    found = sorted(
        ((home, name) for home, names in homes.items() for name in names),
        key=lambda one: (one[0], one[1][0].islower(), one[1].lower()),  # as ruff sorts imports
    )
    lines = [f"from callboard.{home} import {name} as {name}" for home, name in found]
    names = sorted(
        (name for _, name in found), key=lambda one: (not one.isupper(), one[0].islower(), one)
    )  # as ruff does
    return "\n".join(
        [
            "# Written by `python -m tools.public_names` from the table beside it; do not edit.",
            "",
            *lines,
            "",
            *(["__version__: str", ""] if has_version else []),
            "__all__ = [",
            *(f'    "{name}",' for name in names),
            "]",
            "",
        ]
    )


def main() -> None:
    """Write every stub."""
    for path, text in stubs().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
