"""The lines of a `jsonl` export: a header per session, then its events, each as its digest sees it.

    {"callboard": "session", "version": 1, "session", "title", "created", "origin", "events", "head",
     "key_check", "bodies": "text"}              a fork has also "lineage": [[SESSION, LAST SEQ], ...]
    {"blob": DIGEST, "data": TEXT}                 a large value, before the first event that needs it
    {"seq": N, "cuts": [[OFFSET, DIGEST], ...]}    before event N, if large values were cut out of its body
    {"seq", "at", "sender", "recipient", "cause", "kind", "body", "digest"}

`body` is the stored text of the body, as one JSON string, with `null` where a large value was cut out. So
every digest can be computed from the file (`runtime/log/hash_chain.py` has the formula; `data` is hashed as
UTF-8). `at` and `created` are milliseconds since 1970 UTC. `key_check` is empty without a key. Digests: hex.
"""

import re
from typing import Final, Literal

import msgspec

from callboard.actors.protocol.errors import CorruptLog
from callboard.runtime.log.protocol import Sealed

VERSION: Final = 1
PARSED: Final = "objects; digests cannot be computed from this file"


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="callboard", tag="session"):
    """The first line of a session. lineage: of a fork, whose events it shares, and up to which seq."""

    version: int
    session: str
    title: str
    created: int
    origin: str
    events: int
    head: str
    key_check: str
    bodies: Literal["text", "objects; digests cannot be computed from this file"] = "text"
    lineage: tuple[tuple[str, int], ...] | msgspec.UnsetType = msgspec.UNSET

    @property
    def shared(self) -> tuple[tuple[str, int], ...]:
        """Return the sessions whose events a fork shares, the oldest first, each up to which seq."""
        return () if isinstance(self.lineage, msgspec.UnsetType) else self.lineage

    def session_of(self, seq: int) -> str:
        """Return the session under whose id an event stands: for the first events of a fork, its parent."""
        return next((name for name, last in self.shared if seq <= last), self.session)


class BlobLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A large value."""

    blob: str
    data: str


class CutsLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The places in a body where large values were cut out."""

    seq: int
    cuts: tuple[tuple[int, str], ...]


class EventLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An event. body: text, or the message itself where bodies are objects."""

    seq: int
    at: int
    sender: str
    recipient: str
    cause: int
    kind: str
    body: str | msgspec.Raw
    digest: str


class _Kind(msgspec.Struct):
    type: str


_encode: Final = msgspec.json.Encoder().encode
_kind: Final = msgspec.json.Decoder(_Kind).decode
_NOT_ASCII: Final = re.compile("[^\x00-\x7e]")


def ascii_line(value: object) -> bytes:
    """Return a value as JSON on one line of pure ASCII, with its line break."""
    # A program that splits text at U+2028, or takes another encoding, cannot break it; nor can it steer a
    # terminal.
    line = _encode(value) + b"\n"
    if line.isascii() and b"\x7f" not in line:
        return line
    return _NOT_ASCII.sub(_escape, line.decode()).encode()


def event_line(session_id: str, row: Sealed, body: msgspec.Raw | None = None) -> EventLine:
    """Return the line of a row. body: replaces the stored text. Raises CorruptLog if it is not a message."""
    try:
        kind, text = _kind(row.body).type, row.body.decode()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        said = f"session {session_id}, event {row.seq}: not a message ({error}); only a database can hold it"
        raise CorruptLog(said, session_id, row.seq) from None
    envelope = (row.seq, row.at, row.sender, row.recipient, row.cause)
    return EventLine(*envelope, kind, text if body is None else body, row.digest.hex())


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))
