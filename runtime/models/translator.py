"""Conversations as the models of one adapter read them, each message translated once.

    self._translator = Translator(rules=InputRules())   # one for each model object
    messages = self._translator.messages_for(request)   # in `call`; raises Unsayable

The translation is `actors/protocol/translation.py`. The translator keeps the messages as they were sent, and
reads on where it has stopped. A message that stays the same is the same object in the next answer, so that an
adapter too can convert it once. A conversation of which nothing is changed is `request.messages` itself.
"""

from collections import OrderedDict
from operator import is_
from typing import Final

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.origin import Origin
from callboard.actors.protocol.repair_levels import Repair
from callboard.actors.protocol.repairs import InputRules
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.translation import (
    CanSend,
    Reader,
    Unsayable,
    is_as_said,
    read_on,
    reader_for,
)
from callboard.actors.protocol.value_types import ModelFailure

CONVERSATIONS_MAX: Final = 256
"""The translated conversations that are kept; others are translated again when they are needed."""


class _Kept:
    """One conversation: its messages that are read, and their reader."""

    def __init__(self, reader: Reader, request: ModelRequest) -> None:
        self.reader = reader
        self._read: tuple[Json, ...] = ()
        self._for = _way_of(request)

    def is_beginning_of(self, request: ModelRequest) -> bool:
        """Return True if the request begins with the messages that are read, for the same model."""
        # The same objects, not equal ones: messages never change, and a comparison would read them all.
        return (
            self._for == _way_of(request)
            and len(self._read) <= request.length
            and all(map(is_, self._read, request.messages))
        )

    def read_on(self, request: ModelRequest) -> tuple[Json, ...]:
        """Read the rest of the request's messages. Return all as they are sent. Raises Unsayable."""
        read_on(self.reader, request)
        self._read = request.messages
        return self.reader.sent if self.reader.is_changed else request.messages


def _way_of(request: ModelRequest) -> tuple[Origin, bool, Repair]:
    """Return all that the translation depends on beside the messages."""
    return request.model.made_by, request.is_lossy, request.repair


class Translator:
    """Translates the requests to one model.

    can_send: tells if the adapter can send a block of a user; None if all are sent as they are. rules: of the
    service, for its own replies; None if it takes all of them back.
    """

    def __init__(
        self,
        can_send: CanSend | None = None,
        conversations_max: int = CONVERSATIONS_MAX,
        *,
        rules: InputRules | None = None,
    ) -> None:
        self._can_send = can_send
        self._rules = rules
        self._most = conversations_max
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()

    def messages_for(self, request: ModelRequest) -> tuple[Json, ...]:
        """Return the conversation of a request as its model reads it. Raises Unsayable."""
        if is_as_said(request, self._can_send, self._rules):
            return request.messages
        key = (request.session_id, request.address)
        kept = self._kept.pop(key, None)
        if kept is None or not kept.is_beginning_of(request):
            kept = _Kept(reader_for(request, self._can_send, self._rules), request)
        messages = kept.read_on(request)
        self._kept[key] = kept
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return messages

    def repairs(self, request: ModelRequest) -> tuple[str, ...]:
        """Return the changes to the replies of a request's own model, as texts. Raises Unsayable."""
        reader = reader_for(request, self._can_send, self._rules)
        read_on(reader, request)
        return tuple(reader.repairs)

    def forget(self, session_id: str, address: str = "") -> None:
        """Forget the conversation of an agent, or without an address all of a session."""
        for key in [key for key in self._kept if key[0] == session_id and address in ("", key[1])]:
            del self._kept[key]


def unsayable(request: ModelRequest, error: Unsayable) -> ModelFailure:
    """Return the failure of a call that was not made because its request has such a block."""
    where = f" of request {request.seq}" if request.seq else ""
    return ModelFailure(
        "unsayable",
        f"{error}{where} cannot be sent to the model {request.model.name}; ask a model whose service takes "
        "it, or let a text stand for it with Agent(lossy=True)",
    )
