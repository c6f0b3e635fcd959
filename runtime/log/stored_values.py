"""Values of a log as stores keep them: what any store on tables does with its rows."""

import msgspec

from callboard.actors.protocol.errors import CorruptLog
from callboard.runtime.log.cipher import Cipher, Unopenable
from callboard.runtime.log.hash_chain import corrupt
from callboard.runtime.log.large_values import Cut, splice
from callboard.runtime.log.protocol import Sealed, Stored
from callboard.runtime.log.session_rows import Details

_details = msgspec.json.Decoder(Details).decode


def details_in(cipher: Cipher | None, session_id: str, stored: bytes) -> Details:
    """Return tags and metadata of a session; none if they cannot be read."""
    try:
        if cipher is not None:
            stored = cipher.open(("details", session_id), stored)
        return _details(stored)
    # As for titles: no digest covers these copies, so a damaged one must not hide its session.
    except (Unopenable, msgspec.DecodeError, UnicodeDecodeError):
        return Details()


def title_in(cipher: Cipher | None, session_id: str, stored: bytes) -> str:
    """Return the title of a session."""
    try:
        if cipher is not None and stored:
            return cipher.open(("title", session_id), stored).decode()
        return str(stored, "utf-8")
    # No digest covers a title: a damaged one must not keep its session from being read.
    except (Unopenable, UnicodeDecodeError):
        return "(a title that cannot be read)"


def decrypted(cipher: Cipher, session_id: str, seq: int, body: bytes) -> bytes:
    """Return the body of an event. Raises CorruptLog."""
    try:
        return cipher.open(("event", session_id, seq), body)
    except Unopenable as error:
        raise corrupt(session_id, seq, f"has a body of another event, or a changed one ({error})") from None


def whole_body(session_id: str, seq: int, text: bytes, cuts: tuple[Cut, ...]) -> bytes:
    """Return the body of an event with its large values. Raises CorruptLog."""
    try:
        return splice(text, cuts)
    except ValueError as error:
        raise corrupt(session_id, seq, f"has a large value in no known place ({error})") from None


def whole_row(session_id: str, row: Sealed) -> Stored:
    """Return an event with its large values. Raises CorruptLog."""
    body = whole_body(session_id, row.seq, row.body, row.cuts) if row.cuts else row.body
    return Stored(row.seq, row.at, row.sender, row.recipient, row.cause, body, row.digest)


def damaged_session(session_id: str) -> CorruptLog:
    """Return the error for a session whose row cannot be right."""
    said = f"session {session_id}: its row in the table sessions is damaged; restore a copy of the log"
    return CorruptLog(said, session_id)


def without_parent(session_id: str, parent: str, base: int) -> CorruptLog:
    """Return the error for a fork whose parent does not have the event that it begins behind."""
    said = f"is a fork, and its parent {parent} has no event {base} of that digest"
    return CorruptLog(f"session {session_id} {said}; restore a copy of the log", session_id)
