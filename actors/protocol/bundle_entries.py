"""The entries of permission bundles: their one written form, and the test whether one lies within another.

    names      `read_file`, or `files__*` for every name that begins so
    effects    `read`, `idempotent`, `write`
    paths      POSIX paths below the session's root, `.` for the root: each is a prefix
    hosts      `api.example.com`, `*.example.com`, `http://localhost:8080`; https and its port unless stated

Rules
  - An entry is kept in one written form, and a list of entries sorted, without those that lie within
    another. So equal permissions are equal values.
  - Of two entries one lies within the other, or they have nothing in common. So the entries that two lists
    have in common are entries themselves.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, get_args

from callboard.actors.protocol.effects import Effect

NAME_CHARS_MAX: Final = 200
PATH_CHARS_MAX: Final = 4_096  # Linux allows so many bytes
_PORTS: Final[Mapping[str, int]] = MappingProxyType({"https": 443, "http": 80})
_LABEL: Final = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_BYTE: Final = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
# The last part of a name has no digit first: `0177.1` is an address in another notation.
_NAME: Final = rf"(?:\*\.)?(?:{_LABEL}\.)*(?![0-9]){_LABEL}"
_ADDRESS: Final = rf"{_BYTE}(?:\.{_BYTE}){{3}}|\[[0-9a-f:.]{{2,45}}\]"
_PORT: Final = "[1-5]?[0-9]{1,4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]"
_PLACE: Final = re.compile(
    rf"(?:(?P<scheme>https?)://)?(?P<host>\*|{_NAME}|{_ADDRESS})(?::(?P<port>{_PORT}))?"
)


def name_entry(text: str) -> str:
    """Return a name, or the beginning of names with a `*` behind it. Raises ValueError for another text."""
    stem = text.removesuffix("*")
    is_clean = stem.isprintable() and stem == stem.strip() and "*" not in stem
    if not is_clean or not 0 < len(text) <= NAME_CHARS_MAX:
        raise ValueError(
            f"{text[:80]!r} is not a name; a `*` may stand only at its end, "
            "and covers all names with that beginning"
        )
    return text


def is_name_within(entry: str, wide: str) -> bool:
    """Return True if every name that an entry stands for is one of a wider entry's."""
    return entry == wide or (wide.endswith("*") and entry.startswith(wide[:-1]))


def effect_entry(text: str) -> str:
    """Return an effect. Raises ValueError for another text."""
    if text not in get_args(Effect):
        raise ValueError(f"{text[:80]!r} is not an effect; the effects are: {', '.join(get_args(Effect))}")
    return text


def path_entry(text: str) -> str:
    """Return a path without empty parts and `.`. Raises ValueError for one that is absolute or leads up."""
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if not text or text.startswith("/") or ".." in parts or "\0" in text or len(text) > PATH_CHARS_MAX:
        raise ValueError(
            f"{text[:80]!r} is not a path below the root; write `docs/notes`, or `.` for the root itself"
        )
    return "/".join(parts) or "."


def is_path_within(entry: str, wide: str) -> bool:
    """Return True if a path is a prefix, or lies below it."""
    return wide in (".", entry) or entry.startswith(f"{wide}/")


class Place(NamedTuple):
    """A place in the network. host: a name or an address in lower case, an IPv6 address within brackets."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"


def place_of(text: str) -> Place:
    """Read `[scheme://]host[:port]`, https unless stated. Raises ValueError for another text."""
    found = _PLACE.fullmatch(text.lower())
    if found is None or len(text) > 300:
        raise ValueError(
            f"{text[:80]!r} is not a host; write `api.example.com`, `*.example.com` or "
            "`http://localhost:8080`, with non-ASCII letters as punycode"
        )
    scheme = found["scheme"] or "https"
    return Place(scheme, found["host"], int(found["port"] or _PORTS[scheme]))


def host_entry(text: str) -> str:
    """Return a place in the network in its one written form. Raises ValueError for another text."""
    return str(place_of(text))


def is_host_within(entry: str, wide: str) -> bool:
    """Return True if a place, or every place that an entry stands for, is one of a wider entry's."""
    one, other = place_of(entry), place_of(wide)
    if one[::2] != other[::2]:  # scheme and port
        return False
    if other.host == "*" or one.host == other.host:
        return True
    return other.host.startswith("*.") and one.host.endswith(other.host[1:])


class Kind(NamedTuple):
    """A kind of entries. written: its one form. is_within: True if its first entry lies within its second."""

    written: Callable[[str], str]
    is_within: Callable[[str, str], bool]


_NAMES: Final = Kind(name_entry, is_name_within)
_PATHS: Final = Kind(path_entry, is_path_within)

KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "tools": _NAMES,
        "effects": Kind(effect_entry, str.__eq__),
        "capabilities": _NAMES,
        "models": _NAMES,
        "agents": _NAMES,
        "secrets": _NAMES,
        "memory": _NAMES,
        "read": _PATHS,
        "write": _PATHS,
        "hosts": Kind(host_entry, is_host_within),
    }
)
"""The kind of each entry of a bundle."""


def covers(entry: str, wide: Collection[str], name: str) -> bool:
    """Return True if a name lies within one of these entries. entry: its row of `KINDS`."""
    if name in wide:
        return True
    is_within = KINDS[entry].is_within
    for one in wide:  # noqa: SIM110  # `any` makes a generator, and each call of a tool comes here often
        if is_within(name, one):
            return True
    return False


def listed(entry: str, given: Iterable[str]) -> tuple[str, ...]:
    """Return entries in their one form. Raises ValueError for one that cannot be read."""
    texts = tuple(given)
    if isinstance(given, str) or not all(isinstance(one, str) for one in texts):
        raise ValueError(f"{entry} is a tuple of texts, not {given!r:.80}")
    written, is_within = KINDS[entry]
    all_of = {written(one) for one in texts}
    return tuple(sorted(one for one in all_of if not any(one != w and is_within(one, w) for w in all_of)))


def common(entry: str, one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """Return the entries for all that two lists have in common."""
    both = [*(each for each in one if covers(entry, other, each))]
    both += [each for each in other if covers(entry, one, each)]
    return listed(entry, both)
