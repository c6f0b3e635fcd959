"""The files that agents may reach: a named root, and prefixes of paths below it.

    .            the root itself, so every path
    docs         `docs` and every path below `docs/`, but not `docs-old`

Rules
  - The log has the root by its name, never by its place on a machine.
  - A path is relative to the root, with `/` between its parts, and without `.`, `..` and empty parts.
  - An area only narrows: the prefixes of two lists have in common what both of them cover.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from callboard.actors.protocol.bundle_entries import common, is_path_within, listed
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import Part
from callboard.actors.protocol.labels import NO_LABELS, Labels

PREFIXES_MAX: Final = 1_000
ALL: Final = (".",)


class FileArea(Part, frozen=True):
    """The files of a session. name: of the root. read, write: prefixes, as `prefixes_of` returns them.

    labels: of the files that no tool has written. history: True if the log keeps the versions of files.
    """

    name: str
    read: tuple[str, ...] = ALL
    write: tuple[str, ...] = ()
    labels: Labels = NO_LABELS
    history: bool = False


def prefixes_of(what: str, given: Iterable[str]) -> tuple[str, ...]:
    """Return prefixes in one order, without those that another one covers.

    what: the name of the argument. Raises MisuseError for a text alone, or a path that is no prefix.
    """
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise MisuseError(f'{what}={given!r:.80}: use a list of paths below the root, for example ["docs"]')
    found = tuple(given)
    if len(found) > PREFIXES_MAX:
        raise MisuseError(f"{what} has {len(found):,} paths; use at most {PREFIXES_MAX:,}")
    try:
        return listed("read", found)
    except ValueError as error:
        raise MisuseError(f"{what}: {error}") from None


def covers(prefixes: Iterable[str], path: str) -> bool:
    """Return True if one of the prefixes is the path, or a folder above it."""
    return any(is_path_within(path, one) for one in prefixes)


def leads_to(prefixes: Iterable[str], path: str) -> bool:
    """Return True if the path is a folder above one of the prefixes."""
    return any(path == "." or one.startswith(path + "/") for one in prefixes)


def narrowed(area: FileArea, read: Sequence[str] = ALL, write: Sequence[str] = ALL) -> FileArea:
    """Return the part of an area within these prefixes. It covers no path that `area` does not.

    Raises MisuseError for a path that is no prefix.
    """
    return replace(
        area,
        read=common("read", area.read, prefixes_of("read", read)),
        write=common("write", area.write, prefixes_of("write", write)),
    )
