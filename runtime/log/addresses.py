"""The address of a log: a path, `":memory:"`, or a URL such as `sqlite:///callboard.db`."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar

from callboard.actors.protocol.errors import MisuseError

T = TypeVar("T")

MEMORY: Final = "memory"
SQLITE: Final = "sqlite"
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)


def scheme_of(address: str | Path) -> str:
    """Return the scheme of an address. A path has `sqlite`, `":memory:"` has `memory`."""
    text = os.fspath(address)
    if text == ":memory:":
        return MEMORY
    url = _URL.fullmatch(text)
    return url[1].lower() if url else SQLITE


def opener_for(address: str | Path, openers: Mapping[str, T]) -> T:
    """Return the opener for an address. Raises MisuseError for an unknown scheme."""
    scheme = scheme_of(address)
    if scheme not in openers:
        known = ", ".join(f"{one}://" for one in openers if one != MEMORY)
        raise MisuseError(
            f'{scheme}:// is not a store that callboard knows; give a path, ":memory:", or one of: {known}'
        )
    return openers[scheme]


def file_of(address: str | Path) -> Path:
    """Return the file of a path or of a `sqlite` URL. Raises MisuseError for a URL without one.

    As SQLAlchemy writes them: sqlite:///relative.db, sqlite:////absolute/path.db. Nothing is unescaped.
    """
    url = _URL.fullmatch(os.fspath(address))
    if url is None:
        return Path(address)
    if not re.fullmatch("/.+", url[2], re.DOTALL):
        raise MisuseError(
            f"{address} names no file: write sqlite:///callboard.db or sqlite:////absolute/path.db"
        )
    return Path(url[2][1:])
