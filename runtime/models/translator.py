"""Conversations as the models of one adapter read them, each message translated once.

    self._translator = Translator()                     # one for each model object
    messages = self._translator.messages_for(request)   # in `call`; raises Unsayable

The translation is `actors/protocol/translation.py`. A conversation that is all the model's own needs none. Of
any other the translator keeps the messages as they were sent, and reads on where it has stopped. A message
that stays the same is the same object in the next answer, so that an adapter too can convert it once.
"""

from collections import OrderedDict
from operator import is_
from typing import Final

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.origin import Origin
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.translation import CanSend, Reader, Unsayable, is_all_own, read_on
from callboard.actors.protocol.value_types import ModelFailure

CONVERSATIONS_MAX: Final = 256
"""The translated conversations that are kept; others are translated again when they are needed."""


class _Kept:
    """One conversation: its messages that are read, and their reader."""

    def __init__(self, reader: Reader, origin: Origin, is_lossy: bool) -> None:
        self.reader = reader
        self._read: tuple[Json, ...] = ()
        self._for = (origin, is_lossy)

    def is_beginning_of(self, request: ModelRequest) -> bool:
        """Return True if the request begins with the messages that are read, for the same model."""
        # The same objects, not equal ones: messages never change, and a comparison would read them all.
        return (
            self._for == (request.model.made_by, request.is_lossy)
            and len(self._read) <= request.length
            and all(map(is_, self._read, request.messages))
        )

    def read_on(self, request: ModelRequest) -> tuple[Json, ...]:
        """Read the rest of the request's messages. Return all as they are sent. Raises Unsayable."""
        read_on(self.reader, request)
        self._read = request.messages
        return self.reader.sent


class Translator:
    """Translates the requests to one model.

    can_send: tells if the adapter can send a block of a user; None if all are sent as they are.
    """

    def __init__(self, can_send: CanSend | None = None, conversations_max: int = CONVERSATIONS_MAX) -> None:
        self._can_send = can_send
        self._most = conversations_max
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()

    def messages_for(self, request: ModelRequest) -> tuple[Json, ...]:
        """Return the conversation of a request as its model reads it. Raises Unsayable."""
        if self._can_send is None and is_all_own(request):
            return request.messages
        key = (request.session_id, request.address)
        kept = self._kept.pop(key, None)
        if kept is None or not kept.is_beginning_of(request):
            origin = request.model.made_by
            is_lossy, handed = request.is_lossy, request.handed
            reader = Reader(origin, self._can_send, is_lossy=is_lossy, handed=handed)
            kept = _Kept(reader, origin, is_lossy)
        messages = kept.read_on(request)
        self._kept[key] = kept
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return messages

    def forget(self, session_id: str, address: str = "") -> None:
        """Let go of an agent's conversation, or without an address of all of a session."""
        for key in [key for key in self._kept if key[0] == session_id and address in ("", key[1])]:
            del self._kept[key]


def unsayable(request: ModelRequest, error: Unsayable) -> ModelFailure:
    """Return the failure of a call that was not made, since its request holds such a block."""
    where = f" of request {request.seq}" if request.seq else ""
    return ModelFailure(
        "unsayable",
        f"{error}{where} cannot be sent to the model {request.model.name}; ask a model whose service takes "
        "it, or let a text stand for it with Agent(lossy=True)",
    )
