"""The `jsonl` export: written as lines, and read back with every digest checked."""

import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from os import SEEK_END
from tempfile import TemporaryFile
from typing import Final, Literal, TypeAlias

import msgspec

from callboard.actors.protocol.codec import UnreadableBody, decode
from callboard.actors.protocol.errors import CorruptLog, MisuseError
from callboard.actors.protocol.events import Event
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.large_values import Cut, blob_digest, splice
from callboard.runtime.log.protocol import Head, Sealed

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


_header: Final = msgspec.json.Decoder(Header).decode
_blob: Final = msgspec.json.Decoder(BlobLine).decode
_cuts: Final = msgspec.json.Decoder(CutsLine).decode
_event: Final = msgspec.json.Decoder(EventLine).decode

Item: TypeAlias = Header | tuple[Event, bytes]
"""A header, or an event with its digest."""


class _Blobs:
    """The large values of a session, in a temporary file: any later event may need one again."""

    def __init__(self) -> None:
        self._file = TemporaryFile()  # noqa: SIM115  # `close` closes it
        self._places: dict[bytes, tuple[int, int]] = {}
        self.close = self._file.close

    def add(self, digest: bytes, data: bytes) -> None:
        """Keep a large value."""
        self._places[digest] = self._file.seek(0, SEEK_END), len(data)
        self._file.write(data)

    def get(self, digest: bytes) -> bytes:
        """Return a large value. Raises LookupError."""
        place, size = self._places[digest]
        self._file.seek(place)
        return self._file.read(size)

    def clear(self) -> None:
        """Forget all of them."""
        self._places.clear()
        self._file.truncate(0)


class ExportReader(AbstractContextManager["ExportReader"]):
    """Reads the lines of a `jsonl` export. key: the digest key, if any. where: the file, for errors."""

    def __init__(self, lines: Iterable[bytes], key: bytes | None, where: str) -> None:
        self._lines = lines
        self._hash_chain = HashChain(key)
        self._where = where
        self._number = 0
        self._header: Header | None = None
        self._head = Head(0, b"")
        self._blobs = _Blobs()
        self._cuts: tuple[int, tuple[Cut, ...]] | None = None

    def __exit__(self, *exception: object) -> None:
        self._blobs.close()

    def items(self) -> Iterator[Item]:
        """Yield the headers and events. Raises CorruptLog at the first bad line, MisuseError, WrongKey."""
        for line in self._lines:
            self._number += 1
            try:
                item = self._item(line)
            except (ValueError, LookupError) as error:
                raise self._corrupt(f"cannot be read ({type(error).__name__}: {error})") from None
            if item is not None:
                yield item
        self._check_end()
        if self._header is None:
            raise MisuseError(f"{self._where} is empty; write it with `callboard export`")

    def _item(self, line: bytes) -> Item | None:
        if line.startswith(b'{"callboard":') or self._header is None:
            return self._begin(line)
        if line.startswith(b'{"blob":'):
            self._keep(_blob(line))
            return None
        if b'"cuts":' in line[:64]:
            found = _cuts(line)
            self._cuts = found.seq, tuple(Cut(place, bytes.fromhex(name), b"") for place, name in found.cuts)
            return None
        return self._checked(self._header, _event(line))

    def _begin(self, line: bytes) -> Header:
        self._check_end()
        try:
            header = _header(line)
        except msgspec.DecodeError:
            raise MisuseError(
                f"{self._where}, line {self._number}: no header of a session; write the file with "
                "`callboard export --format jsonl`"
            ) from None
        if header.version > VERSION:
            raise MisuseError(
                f"{self._where} has version {header.version} of the format; use a newer callboard"
            )
        if header.bodies != "text":
            raise MisuseError(
                f"{self._where} was exported with --parsed, so its digests cannot be checked; export it "
                "again without"
            )
        self._hash_chain.check_key(header.key_check, self._where)
        self._header, self._head = header, Head(0, bytes.fromhex(header.origin))
        self._blobs.clear()
        self._cuts = None
        return header

    def _keep(self, line: BlobLine) -> None:
        digest, data = bytes.fromhex(line.blob), line.data.encode()
        if blob_digest(data) != digest:
            raise self._corrupt("holds a large value that does not match its digest")
        self._blobs.add(digest, data)

    def _checked(self, header: Header, line: EventLine) -> tuple[Event, bytes]:
        if line.seq != self._head.seq + 1 or not isinstance(line.body, str):
            raise self._corrupt(f"is not event {self._head.seq + 1}, which is next")
        seq, cuts = self._cuts or (line.seq, ())
        if seq != line.seq:
            raise self._corrupt(f"is not event {seq}, which the cuts before it belong to")
        body, envelope = line.body.encode(), (line.seq, line.at, line.sender, line.recipient, line.cause)
        row = Sealed(*envelope, body, cuts, b"")
        digest = self._hash_chain.digest(header.session_of(line.seq), self._head.digest, row)
        if digest.hex() != line.digest:
            raise self._corrupt("does not match its digest: it was changed")
        whole = splice(body, [cut._replace(data=self._blobs.get(cut.digest)) for cut in cuts])
        try:
            event = Event(*envelope, decode(whole))
        except UnreadableBody as error:
            raise self._corrupt(f"{error}") from None
        if event.kind != line.kind:
            raise self._corrupt(f"says that it is {line.kind}, and its body is {event.kind}")
        self._head, self._cuts = Head(line.seq, digest), None
        return event, digest

    def _check_end(self) -> None:
        """Raise CorruptLog if the session before is not read to its head."""
        header = self._header
        if header is not None and header.head != f"{self._head.seq}:{self._head.digest.hex()}":
            raise self._corrupt(
                f"session {header.session} ends at event {self._head.seq}, its head is {header.head}"
            )

    def _corrupt(self, said: str) -> CorruptLog:
        session = self._header.session if self._header else ""
        return CorruptLog(f"{self._where}, line {self._number}: {said}", session, self._head.seq + 1)
