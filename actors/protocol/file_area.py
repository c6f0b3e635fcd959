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

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import Part

PATH_CHARS_MAX: Final = 4_096
"""Characters of a path; Linux allows so many bytes."""

PREFIXES_MAX: Final = 1_000
ALL: Final = (".",)


class FileArea(Part, frozen=True):
    """The files of a session. name: of the root. read, write: prefixes, as `prefixes_of` returns them."""

    name: str
    read: tuple[str, ...] = ALL
    write: tuple[str, ...] = ()


def prefixes_of(what: str, given: Iterable[str]) -> tuple[str, ...]:
    """Return prefixes in one order, without those that another one covers.

    what: the name of the argument. Raises MisuseError for a text alone, or a path that is no prefix.
    """
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise MisuseError(f'{what}={given!r:.80}: use a list of paths below the root, for example ["docs"]')
    found = {_prefix(what, one) for one in given}
    if len(found) > PREFIXES_MAX:
        raise MisuseError(f"{what} has {len(found):,} paths; use at most {PREFIXES_MAX:,}")
    return _widest(found)


def _widest(found: set[str]) -> tuple[str, ...]:
    return tuple(sorted(one for one in found if not covers(found - {one}, one)))


def _prefix(what: str, given: object) -> str:
    parts = given.split("/") if isinstance(given, str) else [".."]
    is_up = ".." in parts or parts[0] == ""  # also the empty path, which has one empty part
    if is_up or "\0" in str(given) or len(str(given)) > PATH_CHARS_MAX:
        raise MisuseError(
            f"{what}: {given!r:.80} is no path below the root; write `docs/notes`, or `.` for the root itself"
        )
    return "/".join(part for part in parts if part not in ("", ".")) or "."


def covers(prefixes: Iterable[str], path: str) -> bool:
    """Return True if one of the prefixes is the path, or a folder above it."""
    return any(one in (".", path) or path.startswith(one + "/") for one in prefixes)


def leads_to(prefixes: Iterable[str], path: str) -> bool:
    """Return True if the path is a folder above one of the prefixes."""
    return any(path == "." or one.startswith(path + "/") for one in prefixes)


def narrowed(area: FileArea, read: Sequence[str] = ALL, write: Sequence[str] = ALL) -> FileArea:
    """Return the part of an area within these prefixes. It covers no path that `area` does not.

    Raises MisuseError for a path that is no prefix.
    """
    return FileArea(
        area.name,
        _common(area.read, prefixes_of("read", read)),
        _common(area.write, prefixes_of("write", write)),
    )


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    both = {path for path in one if covers(other, path)} | {path for path in other if covers(one, path)}
    return prefixes_of("the common paths", both)
