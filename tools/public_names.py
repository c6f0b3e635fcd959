"""Write the stubs of the packages whose names are loaded on first use: `python -m tools.public_names`.

A test compares the committed stubs with what this makes. To add a public name, add it to the table `_HOMES`
of its package and run this.
"""

from pathlib import Path
from typing import Final

import callboard
import callboard.testing
from callboard.lazy_names import Homes

ROOT: Final = Path(__file__).parent.parent


def stubs() -> dict[Path, str]:
    """Return the text of each stub, by its path."""
    face, kit = vars(callboard)["_HOMES"], vars(callboard.testing)["_HOMES"]
    return {
        ROOT / "callboard" / "__init__.pyi": stub(face, has_version=True),
        ROOT / "callboard" / "testing" / "__init__.pyi": stub(kit),
    }


def stub(homes: Homes, *, has_version: bool = False) -> str:
    """Return the stub of a package that offers these names. has_version: it also has a `__version__`."""
    found = sorted(
        ((home, name) for home, names in homes.items() for name in names),
        key=lambda one: (one[0], one[1][0].islower(), one[1].lower()),  # as ruff sorts imports
    )
    lines = [f"from callboard.{home} import {name} as {name}" for home, name in found]
    names = sorted(name for _, name in found)
    return "\n".join(
        [
            "# Written by `python -m tools.public_names` from the table in __init__.py; do not edit.",
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
