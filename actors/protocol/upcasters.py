"""The format of messages, and the upcasters that read bodies of older formats.

    FORMAT    MAJOR.MINOR of this code; the first event of a session, and each that continues it, states it

    change                                        format    upcaster    older versions
    a new kind of message                         minor     none        refuse it where it occurs
    a new field with a default                    minor     none        refuse it where it is not the default
    any other change of a kind: a field is        major     one         refuse the session
    renamed, removed, or means something else

A kind that changes in another way gets a new tag, such as `ToolReturned/2`. So a body says by itself whether
it is an old one, and any event can be read alone. The upcaster of the old tag turns its fields into those of
the next tag; from there the next upcaster goes on, until the tag is one of today. Digests are of the stored
bytes, and are checked before: an old body stays as it is in the log.

To change a kind: set its `tag`, add the row of its old tag here, and raise FORMAT. The golden logs of the old
format stay in the suite.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, TypeVar

import msgspec

from callboard.actors.protocol.immutable import Json

FORMAT: Final = "1.0"

Fields: TypeAlias = dict[str, Json]
"""The fields of a stored body, its `type` included, each as its own bytes."""

Upcaster: TypeAlias = Callable[[Fields], Fields]
"""Returns the fields of the next version, with its tag as `type`. Foreign JSON keeps its bytes."""

UPCASTERS: dict[str, Upcaster] = {}
"""Tag of the old body -> its upcaster. Empty until the format is frozen."""

STEPS_MAX: Final = 100
"""Upcasters for one body. A longer chain goes round in a circle."""

T = TypeVar("T", bound=bytes | str)

_FORMAT: Final = re.compile(r"(\d{1,9})\.(\d{1,9})", re.ASCII)
_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode: Final = msgspec.json.Encoder().encode


class _Typed(msgspec.Struct, frozen=True, gc=False):
    type: str


_typed: Final = msgspec.json.Decoder(_Typed).decode


def upcast(body: T, upcasters: Mapping[str, Upcaster] | None = None) -> T | bytes:
    """Return a body as a body of today; the same object if it is one. Raises msgspec.DecodeError."""
    known = UPCASTERS if upcasters is None else upcasters
    if not known or _typed(body).type not in known:
        return body
    fields: Fields = _fields(body)
    for _ in range(STEPS_MAX):
        step = known.get(msgspec.json.decode(fields["type"], type=str))
        if step is None:
            return _encode(fields)
        fields = step(fields)
    raise msgspec.DecodeError(f"the upcasters of {_typed(body).type} go round in a circle")


def tag(name: str) -> Json:
    """Return a tag as the field `type` has it."""
    return Json(_encode(name))


def why_unreadable(written: str) -> str:
    """Return why sessions of a format cannot be read; an empty text if they can, event by event."""
    found, own = _FORMAT.fullmatch(written), _FORMAT.fullmatch(FORMAT)
    assert own is not None
    if found is None:
        return f"has the format {written!r:.40}, which is none"
    if int(found[1]) > int(own[1]):
        return f"has format {written}; this callboard reads up to {own[1]}.x: use one that reads {found[1]}.x"
    return ""
