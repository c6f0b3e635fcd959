"""The calls that agents refused by themselves: no event says so, only a result in the next request.

An agent answers a call without asking any port or the supervisor if its permissions forbid the call, its
tools do not have it, its arguments are unusable, or it is over `max_tool_calls`. A call that has waited for a
place or a person may still be refused. An ask of a program that ends before it is posted counts, too.

`Suspects` finds the agents that may have refused a call, by the calls of replies that led to no message.
`refusal_watch` folds the states of these agents again, so that the deciders themselves name their refusals.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import ClassVar, Final, NamedTuple, Self, TypeVar

import msgspec

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import Delegate, ReportBack
from callboard.actors.protocol.port_messages import CallTool, ModelReplied
from callboard.runtime.log.protocol import Sealed, Stored

P = TypeVar("P", bound=Sequence[Stored | Sealed])


class RefusedCall(NamedTuple):
    """A call that its agent answered with an error by itself.

    reply, replied_at: the seq of the model's reply that holds it, and its time in milliseconds. seq: of the
    event whose handling refused it: the reply, or the event that ended its wait. call: its place among the
    calls of the reply. tool, arguments: as the model wrote them. reason: the text that the model was told.
    """

    reply: int
    replied_at: int
    seq: int
    agent: str
    turn: int
    call: int
    tool: str
    arguments: Json
    reason: str


class _Place(msgspec.Struct):
    turn: int
    call: int


class _Block(msgspec.Struct):
    type: str


class _Reply(msgspec.Struct):
    turn: int
    status: str = "ok"
    content: tuple[_Block, ...] = ()


_place: Final = msgspec.json.Decoder(_Place).decode
_reply: Final = msgspec.json.Decoder(_Reply).decode
_blocks: Final = msgspec.json.Decoder(tuple[_Block, ...]).decode
_UNREAD: Final = (msgspec.ValidationError, RecursionError)  # of content that is garbage to its agent, too
_REPLY: Final = b'{"type":"ModelReplied"'
_POSTS: Final = (b'{"type":"CallTool"', b'{"type":"Delegate"', b'{"type":"ReportBack"')


class Suspects:
    """The agents with a call that led to no message. Feed it every event or row of a session in order."""

    kinds: ClassVar = frozenset({"ModelReplied", "CallTool", "Delegate", "ReportBack"})

    def __init__(self) -> None:
        self._left: dict[tuple[str, int], set[int]] = {}

    @classmethod
    def among(cls, pages: Iterable[Sequence[Stored | Sealed]]) -> Self:
        """Return those of a session."""
        suspects = cls()
        for _ in suspects.through(pages):
            pass
        return suspects

    def take(self, event: Event) -> None:
        """Take in the next event, of one of these kinds."""
        body = event.body
        if type(body) is ModelReplied:
            if body.status == "ok":
                with suppress(*_UNREAD):
                    self._reply(event.recipient, body.turn, _blocks(body.content))
        elif isinstance(body, CallTool | Delegate | ReportBack):
            self._post(event.sender, body.turn, body.call)

    def through(self, pages: Iterable[P]) -> Iterator[P]:
        """Yield the pages of a session's rows, each taken in before. Only the needed fields are decoded."""
        for page in pages:
            for row in page:
                if row.body.startswith(_POSTS):
                    place = _place(row.body)
                    self._post(row.sender, place.turn, place.call)
                elif row.body.startswith(_REPLY):
                    self._take_reply(row)
            yield page

    def _take_reply(self, row: Stored | Sealed) -> None:
        body = row.whole().body if row.cuts else row.body
        try:
            reply = _reply(body)
        except _UNREAD:
            return
        if reply.status == "ok":
            self._reply(row.recipient, reply.turn, reply.content)

    def _reply(self, agent: str, turn: int, blocks: tuple[_Block, ...]) -> None:
        if count := [block.type for block in blocks].count("tool_use"):
            self._left[agent, turn] = {0} if count == 1 else set(range(count))

    def _post(self, agent: str, turn: int, call: int) -> None:
        left = self._left.get((agent, turn))
        if left is not None:
            left.discard(call)
            if not left:
                del self._left[agent, turn]

    @property
    def agents(self) -> list[str]:
        """Return their addresses, in the order of those replies."""
        return list(dict.fromkeys(agent for agent, _ in self._left))
