"""Operations that have not ended, and the spans that their ends make of them."""

from typing import Final

import msgspec

from callboard.actors.protocol.addresses import child_of, place_of
from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.endings import STATUS
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import (
    DelegationEnded,
    TurnRequested,
)
from callboard.actors.protocol.port_messages import (
    CallTool,
    ModelReplied,
    ToolReturned,
)
from callboard.actors.protocol.profiles import ModelSpec, Profile
from callboard.actors.protocol.usage import ZERO
from callboard.actors.protocol.value_types import Settled
from callboard.actors.supervisor.budgets import charge_of
from callboard.runtime.log.telemetry.spans import Link, Span, SpanStatus

_CUT_OFF_BY_END: Final = "unfinished"


class Root(msgspec.Struct):
    """An ask. host: the name of its host."""

    begun: Event
    host: str
    tags: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()

    def span(self, end: Event | None, at_ms: int) -> Span:
        """Return its span. end: None if it has no end in the log."""
        status: SpanStatus = _CUT_OFF_BY_END
        ending = ""
        if end is not None:
            assert isinstance(end.body, AskEnded), "the end of an ask"
            ending, status = end.body.kind, STATUS[end.body.kind]
        return Span(
            operation="invoke_workflow",
            trace=self.begun.seq,
            parent=0,
            begun=self.begun,
            ended=end,
            end_ms=at_ms,
            name=self.host,
            agent="host",
            profile=self.host,
            ending=ending,
            status=status,
            error=ending if status == "failed" else "",
            links=self.links,
            tags=self.tags,
        )


class Chat(msgspec.Struct):
    """A model call that is not settled. asked: its request. wait_ms: until the grant. reply: its answer."""

    grant: Event
    asked: TurnRequested
    wait_ms: int
    model: ModelSpec
    links: tuple[Link, ...]
    reply: Event | None = None


class Agent(msgspec.Struct):
    """An agent. span: the seq of its span, or of its parent's if it is implicit. parent: of the span above.

    wanted: its request for a turn. cut_off: the model call that the end of a process has cut off, 0 for none.
    stop: the reason for which it was stopped, empty for none.
    """

    root: Root
    begin: Event
    profile: Profile
    model: ModelSpec
    span: int
    parent: int
    is_implicit: bool
    wanted: Event | None = None
    chat: Chat | None = None
    cut_off: int = 0
    stop: str = ""

    def ended(self, end: Event | None, at_ms: int, status: SpanStatus, ending: str) -> Span:
        """Return its own span. ending: the kind of its end, empty for none."""
        return Span(
            operation="invoke_agent",
            trace=self.root.begun.seq,
            parent=self.parent,
            begun=self.begin,
            ended=end,
            end_ms=at_ms,
            name=self.profile.name,
            agent=self.begin.recipient,
            profile=self.profile.name,
            about=self.profile.description,
            ending=ending,
            status=status,
            error=ending if status == "failed" else "",
            model=self.model,
            tags=self.root.tags,
        )

    def refused(self, request: Event, end: Event, name: str) -> Span:
        """Return the span of a delegation that this agent asked for, and that never began."""
        assert isinstance(end.body, DelegationEnded), "the end of a delegation"
        kind = end.body.kind
        return Span(
            operation="invoke_agent",
            trace=self.root.begun.seq,
            parent=self.span,
            begun=request,
            ended=end,
            end_ms=end.at,
            name=name,
            agent=end.body.address,
            profile=name,
            ending=kind,
            status=STATUS[kind],
            error=kind if STATUS[kind] == "failed" else "",
            tags=self.root.tags,
        )

    def settled(self, chat: Chat, settlement: Settled | None, at_ms: int) -> Span:
        """Return the span of its model call. settlement: None if it was never settled."""
        end, error = chat.reply, ""
        status: SpanStatus = _CUT_OFF_BY_END
        charge = ZERO if settlement is None else charge_of(chat.asked.need, settlement.usage)
        if end is not None and isinstance(body := end.body, ModelReplied):
            at_ms, charge = end.at, ZERO if body.reused else charge
            status = _CHAT_ENDS.get(body.status, "failed")
            error = (body.failure.code if body.failure else body.status) if status == "failed" else ""
        return Span(
            operation="chat",
            trace=self.root.begun.seq,
            parent=self.span,
            begun=chat.grant,
            ended=end,
            end_ms=at_ms,
            name=chat.model.name,
            agent=self.begin.recipient,
            profile=self.profile.name,
            status=status,
            error=error,
            asked=chat.asked,
            model=chat.model,
            charge=charge,
            wait_ms=chat.wait_ms,
            links=chat.links,
            tags=self.root.tags,
        )


class Call(msgspec.Struct):
    """A call of a tool."""

    begun: Event
    agent: Agent

    def ended(self, end: Event | None, at_ms: int, status: SpanStatus, ending: str) -> Span:
        """Return its span. status, ending: of the ask that ends it, if it has no end of its own."""
        assert isinstance(self.begun.body, CallTool), "a call of a tool"
        profile, name = self.agent.profile, self.begun.body.tool
        if end is not None:
            assert isinstance(end.body, ToolReturned), "the answer of a tool"
            status, ending = _TOOL_ENDS[end.body.status]
        return Span(
            operation="execute_tool",
            trace=self.agent.root.begun.seq,
            parent=self.agent.span,
            begun=self.begun,
            ended=end,
            end_ms=at_ms,
            name=name,
            agent=self.begun.sender,
            profile=profile.name,
            about=next((one.description for one in profile.tools if one.name == name), ""),
            status=status,
            error=ending if status == "failed" else "",
            tags=self.agent.root.tags,
        )


_CHAT_ENDS: Final[dict[str, SpanStatus]] = {"ok": "ok", "cancelled": "cancelled"}
_TOOL_ENDS: Final[dict[str, tuple[SpanStatus, str]]] = {
    "ok": ("ok", ""),
    "error": ("failed", "tool_error"),
    "cancelled": ("cancelled", ""),
    "interrupted": ("failed", "interrupted"),
    "input_required": ("ok", ""),
    "needs_effect": ("failed", "needs_effect"),
}


def racers(first: str, number: int) -> list[str]:
    """Return the addresses of the agents of a delegation. first: of the first, empty for none."""
    if not first:
        return []
    parent, ordinal = place_of(first)
    return [child_of(parent, ordinal + place) for place in range(number)]
