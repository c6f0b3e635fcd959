"""The ids of traces and spans: hashes of a session and a seq, so that they are the same live and exported."""

from functools import lru_cache
from hashlib import blake2b

from callboard.runtime.log.telemetry.spans import Link, Span


@lru_cache(maxsize=4_096)
def trace_id(session: str, ask: int) -> bytes:
    """Return the 16 bytes that name the trace of an ask. ask: the seq of the `Ask`."""
    return blake2b(f"{session}\0{ask}".encode(), digest_size=16, person=b"callboard trace").digest()


@lru_cache(maxsize=4_096)
def span_id(session: str, seq: int) -> bytes:
    """Return the 8 bytes that name the span which begins with this event."""
    return blake2b(f"{session}\0{seq}".encode(), digest_size=8, person=b"callboard span").digest()


def ids_of(session: str, span: Span) -> tuple[bytes, bytes, bytes]:
    """Return the ids of a span's trace, of the span, and of its parent, which is empty for none."""
    parent = span_id(session, span.parent) if span.parent else b""
    return trace_id(session, span.trace), span_id(session, span.seq), parent


def ids_of_link(session: str, link: Link) -> tuple[bytes, bytes]:
    """Return the ids of the trace and of the span to which a link leads."""
    owner = link.session or session
    return trace_id(owner, link.trace), span_id(owner, link.seq)
