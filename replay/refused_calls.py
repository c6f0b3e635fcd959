"""The calls that agents refused by themselves: no event says so, only a result in the next request.

An agent answers a call without asking any port or the supervisor if its permissions forbid the call, its
tools do not have it, its arguments are unusable, or it is over `max_tool_calls`. A call that has waited for a
place or a person may still be refused. An ask of a program that ends before it is posted counts, too.

`Suspects` finds the agents that may have refused a call, by the calls of replies that led to no message.
`refusal_watch` folds the states of these agents again, so that the deciders themselves name their refusals.

Watch the decisions of agents for calls that they refuse: see `refused_calls`.

Each decision is compared with the state before it. An answer that is new, that no event brought, and that is
an error, is a refusal. It stands in the state while other calls are open, and else in the next request, or in
the results that an ended agent keeps for its next ask. Nothing is guessed from events.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import ClassVar, Final, NamedTuple, Self, TypeAlias, TypeVar

import msgspec

from callboard.actors.agent.content import ToolUse, read
from callboard.actors.agent.continued_calls import after_answer
from callboard.actors.agent.open_calls import find
from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.errors import Diverged
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import Delegate, ReportBack, Stop
from callboard.actors.protocol.port_messages import ApprovalGiven, CallTool, ModelReplied
from callboard.actors.session.step import ActorState
from callboard.replay.reading import Source
from callboard.replay.states import Fold, History, history_in
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


class _Place(msgspec.Struct, gc=False):
    turn: int
    call: int


class _Block(msgspec.Struct, gc=False):
    type: str


class _Reply(msgspec.Struct, gc=False):
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
        if type(body) is CallTool or type(body) is Delegate or type(body) is ReportBack:
            self._post(event.sender, body.turn, body.call)
        elif type(body) is ModelReplied and body.status == "ok":
            try:
                blocks = _blocks(body.content)
            except _UNREAD:
                return
            self._reply(event.recipient, body.turn, blocks)

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


class _Result(msgspec.Struct):
    tool_use_id: str
    content: object = ""
    is_error: bool = False
    status: str = ""


class _Message(msgspec.Struct):
    content: list[msgspec.Raw]


_result: Final = msgspec.json.Decoder(_Result).decode
_message: Final = msgspec.json.Decoder(_Message).decode
_NO_USE: Final = ToolUse("", "", NULL)


def refused_by(agents: Iterable[str], history: History, last: int) -> list[RefusedCall]:
    """Return the calls that these agents refused, in the order of the log. last: the last seq to look at.

    Where this code decides differently than the log, those of an agent end before that event.
    """
    found: list[RefusedCall] = []
    for agent in agents:
        fold, watch = Fold(agent), RefusalWatch(found)
        fold.watch(watch.note)
        try:
            for item in history(agent, 1, last):
                fold.take(item)
            fold.finish(lambda event: "")
        except Diverged:
            continue
    return sorted(found)


def refused_in(source: Source, suspects: Suspects) -> list[RefusedCall]:
    """Return the calls that these agents of a log refused, in the order of the log."""
    return refused_by(suspects.agents, partial(history_in, source), source.head.seq)


class RefusalWatch:
    """Watches the decisions of one agent for calls that it refuses. found: takes them."""

    def __init__(self, found: list[RefusedCall]) -> None:
        self._found = found
        self._replies: dict[int, tuple[Event, tuple[ToolUse, ...]]] = {}

    def note(self, before: ActorState, event: Event, after: ActorState) -> None:
        """Take in the next decision: the state before it, its event, and the state after it."""
        if isinstance(before, AgentState) and isinstance(after, AgentState):
            self._found += self._refused(before, event, after)

    def _refused(self, before: AgentState, event: Event, after: AgentState) -> Iterator[RefusedCall]:
        if before.phase == "stopping" or isinstance(event.body, Stop):
            return
        if isinstance(event.body, ModelReplied) and before.phase == "thinking":
            said = read(event.body.content) if event.body.status == "ok" else None
            self._replies[before.turn] = event, said.uses if said is not None else ()
        answered = _in_program if after.program is not None else _in_turn
        for turn, call, block in answered(before, event, after, self._uses(before)):
            result = _result(block)
            reply, uses = self._replies.get(turn, (event, ()))
            if result.is_error:
                use = uses[call] if call < len(uses) else _NO_USE
                where = reply.seq, reply.at, event.seq, after.address, turn, call
                yield RefusedCall(*where, use.name, use.input, _text(result.content))

    def _uses(self, before: AgentState) -> tuple[ToolUse, ...]:
        return self._replies[before.turn][1] if before.turn in self._replies else ()


_Answered: TypeAlias = Iterator[tuple[int, int, Json]]
"""Turns, calls, and the blocks that answer them."""


def _in_turn(before: AgentState, event: Event, after: AgentState, uses: tuple[ToolUse, ...]) -> _Answered:
    """Yield the answers that a decision gave by itself, of an agent whose turns wait for all calls."""
    if before.compaction is not None and before.compaction.saved is not None:
        return  # calls in the answer to a request for a summary never run
    is_reply = before.phase == "thinking"
    if not is_reply and before.phase not in ("acting", "judging"):
        return
    known = before.calls.answers
    if after.turn == before.turn and after.phase in ("acting", "judging"):
        own = ((call, one.block) for call, one in after.calls.answers.items() if not one.seq)
        yield from ((before.turn, call, block) for call, block in own if known.get(call) is None)
        return
    is_asked = after.turn != before.turn and after.unsent is not None
    sent = after.unsent.answers if is_asked and after.unsent is not None else after.calls.answers
    brought = _brought(before, event)
    for call, one in sent.items():
        if known.get(call) is None and call != brought:
            yield before.turn, call, one.block


def _brought(before: AgentState, event: Event) -> int:
    """Return the call that an event has answered; -1 if it has answered none."""
    body = event.body
    if before.phase == "thinking" or getattr(body, "turn", 0) != before.turn:
        return -1
    call = getattr(body, "call", -1)
    asked = find(before.calls, before.turn, call) if isinstance(body, ApprovalGiven) else None
    goes_on = (
        isinstance(body, ApprovalGiven) and asked is not None and after_answer(asked.use, body) is not None
    )
    return -1 if goes_on else call


def _in_program(before: AgentState, event: Event, after: AgentState, uses: tuple[ToolUse, ...]) -> _Answered:
    """Yield the answers that a decision gave by itself, of a program."""
    if before.program is None or after.program is None:
        return
    heard = [(one.block, one.seq) for one in after.calls.answers.values()]
    if after.turn != before.turn and after.unsent is not None:
        asked = after.history.get(after.unsent.history.size)
        heard = [(Json(block), 0) for block in _message(asked).content] if asked is not None else []
    new = {use.id: call for call, use in enumerate(uses)} if before.phase == "thinking" else {}
    waiting = {one.use.id: one for one in before.calls.line.values()}
    for block, seq in heard[before.calls.answers.size :]:
        result = _result(block)
        if seq or result.tool_use_id not in new.keys() | waiting.keys():
            continue
        if (call := new.get(result.tool_use_id)) is not None:
            yield before.turn, call, block
        elif result.status == "error":
            one = waiting[result.tool_use_id]
            yield one.turn, one.call, block


def _text(content: object) -> str:
    return content if isinstance(content, str) else msgspec.json.encode(content).decode()
