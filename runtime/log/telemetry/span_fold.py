"""The spans of a session: a fold over its events that gives each operation once it has ended.

    invoke_workflow     an ask: the root of its trace                      Ask .. AskEnded
      invoke_agent      an agent, below the agent that delegated           Begin .. Finished or Stopped
        chat            one attempt of a model call                        CallModel .. ModelReplied
        execute_tool    one call of a tool, each round of it               CallTool .. ToolReturned

Rules
  - A span is known by the seq of the event that begins it, and its trace by the seq of the `Ask`.
  - A step of a program is not a model call, and has no span. A question of a program to a model is one `chat`
    below the program: the implicit agent that carries it has no span.
  - A `chat` is complete when its use is settled, which the agent's next decision says. So the charges of all
    `chat` spans of an ask add up to the usage of its outcome.
  - A delegation that was refused is an `invoke_agent` that begins with its `Delegate`.
  - Links lead from an attempt to the one that the end of a process cut off (`resume`), from the first ask
    that a fork ends to that of its origin (`fork`), and from the first `chat` that reads the result of work
    in the background to the agent that did it (`background`).
  - The end of an ask ends all that is still open below it.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from callboard.actors.protocol.addresses import parent_of
from callboard.actors.protocol.client_messages import Ask, AskEnded, Forked, Resumed, SessionOpened
from callboard.actors.protocol.endings import STATUS
from callboard.actors.protocol.events import Event, Takers
from callboard.actors.protocol.messages import (
    Begin,
    Delegate,
    Delegated,
    DelegationEnded,
    Finished,
    ReportBack,
    Stop,
    Stopped,
    TurnRequested,
    TurnSettled,
    Wake,
)
from callboard.actors.protocol.port_messages import (
    CUT_OFF,
    CallModel,
    CallTool,
    ModelReplied,
    ToolReturned,
)
from callboard.actors.protocol.profiles import read_profile
from callboard.actors.protocol.prompts import ASK_MODEL
from callboard.actors.protocol.value_types import Settled
from callboard.actors.protocol.wishes import wish_in
from callboard.runtime.log.telemetry.open_spans import Agent, Call, Chat, Root, racers
from callboard.runtime.log.telemetry.spans import Link, Span, SpanStatus

UNKNOWN: Final = Settled()
"""The settlement of a model call whose agent ends without one: its whole reservation is charged."""


class SpanFold:
    """Makes spans of the events of one session. Feed it every event in order, from the first."""

    def __init__(self) -> None:
        self.host = ""
        self.tags: tuple[str, ...] = ()
        self._root: Root | None = None
        self._beside: dict[int, Root] = {}
        self._agents: dict[str, Agent] = {}
        self._calls: dict[int, Call] = {}
        self._delegations: dict[tuple[str, int, int], Event] = {}
        self._begun: dict[str, int] = {}
        self._background: set[str] = set()
        self._heard: dict[int, Link] = {}
        self._last_ask: tuple[str, int] = ("", 0)
        self._links: tuple[Link, ...] = ()

    def add(self, event: Event) -> tuple[Span, ...]:
        """Add the next event. Return the spans that it completes, children before their parents."""
        handler = _HANDLERS.get(type(event.body))
        return handler(self, event, event.body) if handler is not None else ()

    def unfinished(self, at_ms: int) -> tuple[Span, ...]:
        """Return the operations that are open now, as spans that end at this time without an end."""
        if (root := self._root) is None:
            return ()
        return (*self._open(at_ms, "unfinished", ""), root.span(None, at_ms))

    # --- the ask --------------------------------------------------------------------

    def opened(self, event: Event, body: SessionOpened) -> tuple[Span, ...]:
        """Note the host and the tags."""
        self.host, self.tags = body.host, body.tags
        return ()

    def resumed(self, event: Event, body: Resumed) -> tuple[Span, ...]:
        """Note another host."""
        self.host = body.host or self.host
        return ()

    def forked(self, event: Event, body: Forked) -> tuple[Span, ...]:
        """Begin a session of its own: its spans follow from those of its origin."""
        self.host = body.host or body.resumed.host or self.host
        owner, seq = self._last_ask
        self._last_ask = owner or body.origin, seq
        links = (Link("fork", seq, seq, self._last_ask[0]),) if seq else ()
        if self._root is not None:
            self._root.links = links
        else:  # of the next ask
            self._links = links
        return ()

    def ask(self, event: Event, body: Ask) -> tuple[Span, ...]:
        """Begin a trace. An ask beside a running one is refused, and has nothing below it."""
        root = Root(event, self.host, self.tags, self._links)
        if self._root is None:
            self._root, self._last_ask, self._links = root, ("", event.seq), ()
        else:
            self._beside[event.seq] = root
        return ()

    def ask_ended(self, event: Event, body: AskEnded) -> tuple[Span, ...]:
        """End a trace, with all that is open in it."""
        if (beside := self._beside.pop(event.cause, None)) is not None:
            return (beside.span(event, event.at),)
        if (root := self._root) is None:
            return ()
        done = (*self._open(event.at, STATUS[body.kind], body.kind), root.span(event, event.at))
        self._root = None
        for held in (self._agents, self._calls, self._delegations, self._begun, self._background):
            held.clear()
        self._heard.clear()
        return done

    def _open(self, at_ms: int, status: SpanStatus, ending: str) -> Iterator[Span]:
        """Yield all that is open below the ask: calls first, then agents, the deepest first."""
        for call in self._calls.values():
            yield call.ended(None, at_ms, status, ending)
        for agent in self._agents.values():
            yield from self._chat_of(agent, None, at_ms)
        for agent in reversed(self._agents.values()):
            if not agent.is_implicit:
                yield agent.ended(None, at_ms, status, ending)

    # --- agents ---------------------------------------------------------------------

    def begin(self, event: Event, body: Begin) -> tuple[Span, ...]:
        """Begin an agent below the one that delegated to it."""
        if (root := self._root) is None:
            return ()
        above = self._agents.get(parent_of(event.recipient))
        parent = above.span if above is not None else root.begun.seq
        profile = read_profile(bytes(body.profile))
        # The name is reserved: no agent of a program's author has it.
        is_implicit = profile.name == ASK_MODEL
        span = parent if is_implicit else event.seq
        self._agents[event.recipient] = Agent(root, event, profile, body.model, span, parent, is_implicit)
        self._begun[event.recipient] = span
        return ()

    def delegate(self, event: Event, body: Delegate) -> tuple[Span, ...]:
        """Note a delegation, which may be refused, and the settlement that it carries."""
        self._delegations[event.sender, body.turn, body.call] = event
        return self._settled(event, body.settled)

    def delegated(self, event: Event, body: Delegated) -> tuple[Span, ...]:
        """Note that a delegation works in the background."""
        self._background.add(body.address)
        return ()

    def delegation_ended(self, event: Event, body: DelegationEnded) -> tuple[Span, ...]:
        """Make a span of a delegation that never began. Remember work in the background that has ended."""
        request = self._delegations.pop((event.recipient, body.turn, body.call), None)
        above = self._agents.get(event.recipient)
        if request is None or above is None or not isinstance(request.body, Delegate):
            return ()
        names = request.body.profiles
        begun = [self._begun.pop(address, 0) for address in racers(body.address, len(names))]
        if body.address in self._background:
            self._background.discard(body.address)
            self._heard[event.seq] = Link("background", above.root.begun.seq, begun[0])
        if any(begun) or names[0] == ASK_MODEL:
            return ()
        return (above.refused(request, event, names[0]),)

    def stop(self, event: Event, body: Stop) -> tuple[Span, ...]:
        """Note the reason for which an agent ends."""
        if (agent := self._agents.get(event.recipient)) is not None:
            agent.stop = body.reason
        return ()

    def finished(self, event: Event, body: Finished) -> tuple[Span, ...]:
        """End an agent by its own end."""
        return (*self._settled(event, body.settled or UNKNOWN), *self._ends(event, body.kind))

    def stopped(self, event: Event, body: Stopped) -> tuple[Span, ...]:
        """End an agent that was stopped."""
        agent = self._agents.get(event.sender)
        kind = agent.stop if agent is not None else ""
        return (*self._settled(event, body.settled or UNKNOWN), *self._ends(event, kind))

    def _ends(self, event: Event, kind: str) -> tuple[Span, ...]:
        agent = self._agents.pop(event.sender, None)
        if agent is None or agent.is_implicit:
            return ()
        # Empty for an agent that was not told why it stops.
        status: SpanStatus = next((one for name, one in STATUS.items() if name == kind), "cancelled")
        return (agent.ended(event, event.at, status, kind),)

    # --- model calls ------------------------------------------------------------------

    def turn(self, event: Event, body: TurnRequested) -> tuple[Span, ...]:
        """Note a request for a turn, which settles the one before it."""
        done = self._settled(event, body.settled)
        if (agent := self._agents.get(event.sender)) is not None:
            agent.wanted = event
        return done

    def call_model(self, event: Event, body: CallModel) -> tuple[Span, ...]:
        """Begin a model call, unless it is the step of a program."""
        agent = self._agents.get(body.agent)
        if agent is None or agent.model.is_program:
            return ()
        if body.opening is not None:
            agent.wanted = event
        if (wanted := agent.wanted) is None or (asked := wish_in(wanted.body)) is None:
            return ()
        links = [self._heard.pop(seq) for seq in asked.new if seq in self._heard] if self._heard else []
        if agent.cut_off:
            links.append(Link("resume", agent.root.begun.seq, agent.cut_off))
            agent.cut_off = 0
        wait_ms = max(0, event.at - wanted.at - asked.after_ms)
        agent.chat = Chat(event, asked, wait_ms, agent.model.spec_named(asked.model), tuple(links))
        return ()

    def replied(self, event: Event, body: ModelReplied) -> tuple[Span, ...]:
        """Note the answer to a model call. Its span ends when the agent has settled it."""
        agent = self._agents.get(event.recipient)
        if agent is not None and agent.chat is not None and agent.chat.grant.seq == event.cause:
            agent.chat.reply = event
            if body.status in CUT_OFF:
                agent.cut_off = event.cause
        return ()

    def settles(self, event: Event, body: TurnSettled | ReportBack | Wake) -> tuple[Span, ...]:
        """End the model call of an agent by a message that carries its settlement."""
        return self._settled(event, body.settled)

    def _settled(self, event: Event, settled: Settled | None) -> tuple[Span, ...]:
        if settled is None or (agent := self._agents.get(event.sender)) is None:
            return ()
        return self._chat_of(agent, settled, event.at)

    def _chat_of(self, agent: Agent, settled: Settled | None, at_ms: int) -> tuple[Span, ...]:
        if (chat := agent.chat) is None:
            return ()
        agent.chat = None
        return (agent.settled(chat, settled, at_ms),)

    # --- tools ------------------------------------------------------------------------

    def call_tool(self, event: Event, body: CallTool) -> tuple[Span, ...]:
        """Begin a call of a tool."""
        if (agent := self._agents.get(event.sender)) is not None:
            self._calls[event.seq] = Call(event, agent)
        return ()

    def returned(self, event: Event, body: ToolReturned) -> tuple[Span, ...]:
        """End a call of a tool."""
        call = self._calls.pop(event.cause, None)
        return () if call is None else (call.ended(event, event.at, "ok", ""),)


_HANDLERS: Final[Takers[SpanFold, tuple[Span, ...]]] = {
    SessionOpened: SpanFold.opened,
    Resumed: SpanFold.resumed,
    Forked: SpanFold.forked,
    Ask: SpanFold.ask,
    AskEnded: SpanFold.ask_ended,
    Begin: SpanFold.begin,
    Delegate: SpanFold.delegate,
    Delegated: SpanFold.delegated,
    DelegationEnded: SpanFold.delegation_ended,
    Stop: SpanFold.stop,
    Finished: SpanFold.finished,
    Stopped: SpanFold.stopped,
    TurnRequested: SpanFold.turn,
    TurnSettled: SpanFold.settles,
    ReportBack: SpanFold.settles,
    Wake: SpanFold.settles,
    CallModel: SpanFold.call_model,
    ModelReplied: SpanFold.replied,
    CallTool: SpanFold.call_tool,
    ToolReturned: SpanFold.returned,
}


def spans_of(events: Iterable[Event], after: int = 0) -> Iterator[Span]:
    """Yield the spans of a session, children before their parents; those that are open at its end, too.

    events: all, from the first. after: leave out the spans that end with an event up to this one, as those
    that a fork shares with its origin.
    """
    fold, last = SpanFold(), 0
    for event in events:
        last = event.at
        done = fold.add(event)
        if event.seq > after:
            yield from done
    yield from fold.unfinished(last)
