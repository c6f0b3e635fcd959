"""Requests as they were sent: the digests of their bodies, and the bodies that were kept."""

from collections.abc import Iterable
from typing import NamedTuple

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.kept_bodies import body_after
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.value_types import Sent


class SentRequest(NamedTuple):
    """A request as it was sent. body: without secrets; empty if it was not kept."""

    sent: Sent
    body: bytes


def sent_request(events: Iterable[Event], asked: ModelRequest) -> SentRequest | None:
    """Return a request as it was sent; None if the log does not say. events: of its agent, in order."""
    body = b""
    for event in events:
        reply = event.body
        if not isinstance(reply, ModelReplied) or event.recipient != asked.address:
            continue
        body = body_after(body, reply)
        is_own = (reply.turn, reply.attempt) == (asked.turn, asked.attempt)
        if is_own and reply.sent is not None:
            return SentRequest(reply.sent, body if reply.body else b"")
    return None
