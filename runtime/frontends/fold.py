"""The fold of a session's stream to facts.

Rules
  - A fact is durable, except for text of a reply in progress. Text that a reader missed comes whole, with its
    reply.
  - Ids of messages and calls name a place of the log (`ask/agent/turn/...`): each reader gets the same.
  - Instructions, schemas and the requests to models are in no fact.
  - Agents that answer one question of a program are a part of that program, and have no facts of their own.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from callboard.actors.protocol.addresses import BELOW_HOST, HOST, child_of, parent_of
from callboard.actors.protocol.client_messages import Ask, AskEnded, SessionClosed, Tell, TellEnded
from callboard.actors.protocol.endings import STATUS, OutcomeKind
from callboard.actors.protocol.events import Event, Takers
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import (
    Begin,
    Delegate,
    Delegated,
    DelegationEnded,
    Finished,
    ReportBack,
    ReportJudged,
    Stop,
    TurnRequested,
    Wake,
)
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallTool,
    ModelReplied,
    RequestApproval,
    ToolReturned,
)
from callboard.actors.protocol.profiles import read_profile
from callboard.actors.protocol.prompts import REPORT_BACK, TASK_CANCEL, TASK_WAIT
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.session.port_table import PORT_REQUESTS
from callboard.actors.session.shared_state import NO_STATE
from callboard.runtime.frontends.facts import (
    AgentBegan,
    AgentEnded,
    ApprovalAnswered,
    ApprovalAsked,
    Called,
    Fact,
    Heard,
    Prompted,
    Returned,
    RunEnded,
    StateChanged,
    TextAdded,
    TextDropped,
    TextEnded,
    Thought,
)
from callboard.runtime.log.tree import prompt_text
from callboard.runtime.sessions.stream_items import AnyStreamItem, StreamEvent, TextDelta, TextReset

NOT_RUN: Final = "This call did not run."
UNFINISHED: Final = "The ask ended before this call had a result."
IN_A_LATER_MESSAGE: Final = "Answered by the messages about its tasks."


@dataclass
class _Work:
    """The open work. requests: seqs of those to ports, without approvals. asleep: agents with a timer."""

    requests: set[int] = field(default_factory=set)
    asleep: set[str] = field(default_factory=set)


class FactFold:
    """The facts of a session, item by item of its stream.

    seq: of the last event. ask: the request id of the newest ask. approvals: those without an answer, by seq.
    agents: the sub-agents at work, by address.
    """

    def __init__(self) -> None:
        self.seq = 0
        self.ask = ""
        self.is_running = False
        self.is_closed = False
        self.state = NO_STATE
        self.approvals: dict[int, ApprovalAsked] = {}
        self.agents: dict[str, AgentBegan] = {}
        self._place = 0
        self._shown: dict[str, str] = {}
        self._open: dict[str, tuple[str, str]] = {}
        self._tasks: dict[tuple[str, int, int], Delegate] = {}
        self._ordinals: dict[str, int] = {}
        self._calls: dict[str, str] = {}
        self._parts: set[str] = set()
        self._values: dict[str, Json] = {}
        self._texts: dict[str, Tell] = {}
        self._programs: set[str] = set()
        self._begun: set[str] = set()  # calls
        self._work = _Work()

    @property
    def waits_only(self) -> bool:
        """Return whether the ask waits for people, and for nothing else."""
        return bool(self.approvals) and not self._work.requests and not self._work.asleep

    def add(self, item: AnyStreamItem) -> list[Fact]:
        """Add the next item of the stream. Return its facts."""
        match item:
            case StreamEvent(event=event):
                return list(self._add_event(event))
            case TextDelta(address=address, turn=turn, attempt=attempt, offset=offset, text=text):
                return list(self._add_text(address, self._message(address, turn, attempt), offset, text))
            case TextReset(address=address, turn=turn, attempt=attempt):
                return list(self._drop(address, self._message(address, turn, attempt)))
            case _:
                return []

    def _add_event(self, event: Event) -> Iterator[Fact]:
        body = event.body
        self.seq = event.seq
        self._note_work(event)
        if handler := _HANDLERS.get(type(body)):
            yield from handler(self, event, body)
        if (state := self.state.after(event)) is not self.state:
            self.state = state
            yield StateChanged(state.values())

    def _note_work(self, event: Event) -> None:
        """Note the requests to ports that have no answer yet, and the agents that wait for a moment."""
        work, body = self._work, event.body
        if type(body) in PORT_REQUESTS and not isinstance(body, RequestApproval):
            work.requests.add(event.seq)
        elif event.cause in work.requests and any(type(body) is row.answer for row in PORT_REQUESTS.values()):
            work.requests.discard(event.cause)
        match body:
            case Wake(until=until):
                (work.asleep.discard if until is None else work.asleep.add)(event.sender)
            case TurnRequested(after_ms=after_ms):
                (work.asleep.add if after_ms else work.asleep.discard)(event.sender)
            case RunStep():
                work.asleep.discard(event.sender)
            case ModelReplied():
                work.asleep.discard(event.recipient)
            case _:
                pass

    # --- names --------------------------------------------------------------------

    def _message(self, agent: str, turn: int, attempt: int) -> str:
        return f"{self._place}/{agent}/{turn}/{attempt}"

    def _call(self, agent: str, turn: int, call: int) -> str:
        return f"{self._place}/{agent}/{turn}.{call}"

    def _is_part(self, agent: str) -> bool:
        """Return True for an agent that answers one question of a program, and for those below it."""
        while agent.startswith(BELOW_HOST):
            if agent in self._parts:
                return True
            agent = parent_of(agent)
        return False

    # --- replies ------------------------------------------------------------------

    def _add_text(self, agent: str, message: str, offset: int, text: str) -> Iterator[Fact]:
        if self._is_part(agent):
            return
        shown = self._shown.get(message, "")
        # A reader that joins in the middle gets the text so far again.
        if new := (shown[:offset] + text)[len(shown) :]:
            self._shown[message] = shown + new
            yield TextAdded(agent, message, new, is_first=not shown)

    def _drop(self, agent: str, message: str) -> Iterator[Fact]:
        if self._shown.pop(message, ""):
            yield TextDropped(agent, message)

    def _replied(self, event: Event, body: ModelReplied) -> Iterator[Fact]:
        agent = event.recipient
        message = self._message(agent, body.turn, body.attempt)
        if body.status != "ok" or self._is_part(agent):
            yield from self._drop(agent, message)
            return
        blocks = _blocks(body.content)
        if thinking := _joined(blocks, "thinking", "thinking"):
            yield Thought(agent, message, thinking)
        text, shown = _joined(blocks, "text", "text"), self._shown.pop(message, "")
        if not text.startswith(shown):
            yield TextDropped(agent, message)
            shown = ""
        if new := text[len(shown) :]:
            yield TextAdded(agent, message, new, is_first=not shown)
        if text:
            yield TextEnded(agent, message)
        calls = [block for block in blocks if block.get("type") == "tool_use"]
        for place, block in enumerate(calls):
            if (tool := str(block.get("name", ""))) != REPORT_BACK:
                name = self._call(agent, body.turn, place)
                self._open[name] = agent, tool
                arguments = Json(msgspec.json.encode(block.get("input")))
                yield Called(agent, message, name, tool, arguments)

    def _called(self, event: Event, body: CallTool) -> Iterator[Fact]:
        self._begun.add(self._call(event.sender, body.turn, body.call))
        yield from ()

    def _returned(self, event: Event, body: ToolReturned) -> Iterator[Fact]:
        if body.status != "input_required":
            name = self._call(event.recipient, body.turn, body.call)
            yield from self._answer(event.recipient, name, body.output, is_error=body.status != "ok")

    def _answer(
        self, agent: str, name: str, output: Json, *, is_error: bool = False, is_denied: bool = False
    ) -> Iterator[Fact]:
        """Yield the result of a call, the first one."""
        self._begun.discard(name)
        if self._open.pop(name, None) is not None:
            yield Returned(agent, name, output, is_error, is_denied)

    def _requested(self, event: Event, body: TurnRequested | RunStep) -> Iterator[Fact]:
        """Answer the calls that an agent refused by itself, which leave no event.

        Its next request has the results of all calls before it, except for delegations at work. A program
        goes on while its calls run.
        """
        if body.attempt > 1 or event.sender in self._programs:
            return
        running = {self._call(event.sender, at[1], at[2]) for at in self._tasks if at[0] == event.sender}
        for name, (agent, tool) in list(self._open.items()):
            if agent == event.sender and name not in running:
                has_run = tool in (TASK_WAIT, TASK_CANCEL)
                told = _text(IN_A_LATER_MESSAGE if has_run else NOT_RUN)
                yield from self._answer(agent, name, told, is_error=not has_run)

    # --- delegations --------------------------------------------------------------

    def _delegate(self, event: Event, body: Delegate) -> Iterator[Fact]:
        parent = event.sender
        self._tasks[parent, body.turn, body.call] = body
        # Every delegation takes its ordinals in the order of the requests, and a denied one does, too.
        first = self._ordinals.get(parent, 1)
        self._ordinals[parent] = first + len(body.profiles)
        for ordinal in range(first, self._ordinals[parent]):
            child = child_of(parent, ordinal)
            self._calls[child] = self._call(parent, body.turn, body.call)
            if body.implicit != NULL:
                self._parts.add(child)
        yield from ()

    def _delegated(self, event: Event, body: Delegated) -> Iterator[Fact]:
        name = self._call(event.recipient, body.turn, body.call)
        yield from self._answer(event.recipient, name, _text(f"Started in the background as {body.address}."))

    def _delegation_ended(self, event: Event, body: DelegationEnded) -> Iterator[Fact]:
        self._tasks.pop((event.recipient, body.turn, body.call), None)
        name = self._call(event.recipient, body.turn, body.call)
        is_ok = STATUS[body.kind] == "ok"
        output = body.value if body.value != NULL else _text(body.text or body.detail or body.kind)
        yield from self._answer(event.recipient, name, output, is_error=not is_ok)

    def _begin(self, event: Event, body: Begin) -> Iterator[Fact]:
        agent = event.recipient
        if body.model.is_program:
            self._programs.add(agent)
        if agent == HOST:
            return
        call = self._calls.pop(agent, "")
        if self._is_part(agent):
            return
        profile = read_profile(bytes(body.profile)).name
        task = body.description or prompt_text(body.prompt)
        began = self.agents[agent] = AgentBegan(agent, parent_of(agent), profile, task, call)
        yield began

    def _end_agent(
        self, agent: str, kind: OutcomeKind, result: object = None, detail: str = ""
    ) -> Iterator[Fact]:
        if self.agents.pop(agent, None) is not None:
            yield AgentEnded(agent, kind, result, detail)

    def _reported(self, event: Event, body: ReportBack) -> Iterator[Fact]:
        self._values[event.sender] = body.value
        yield from ()

    def _judged(self, event: Event, body: ReportJudged) -> Iterator[Fact]:
        if body.verdict == "accepted":
            value = self._values.pop(event.recipient, NULL)
            yield from self._end_agent(event.recipient, "reported", msgspec.json.decode(value))

    def _finished(self, event: Event, body: Finished) -> Iterator[Fact]:
        result = msgspec.json.decode(body.value) if body.value != NULL else body.text
        yield from self._end_agent(event.sender, body.kind, result, body.detail)

    def _stop(self, event: Event, body: Stop) -> Iterator[Fact]:
        yield from self._end_agent(event.recipient, body.reason)

    # --- people -------------------------------------------------------------------

    def _asked(self, event: Event, body: RequestApproval) -> Iterator[Fact]:
        question = self.approvals[event.seq] = ApprovalAsked(
            event.seq,
            event.sender,
            self._call(event.sender, body.turn, body.call),
            body.tool,
            msgspec.json.decode(body.arguments),
            msgspec.json.decode(body.form),
            body.is_repeat,
            event.at + body.timeout_ms if body.timeout_ms else None,
        )
        yield question

    def _given(self, event: Event, body: ApprovalGiven) -> Iterator[Fact]:
        name = self._call(event.recipient, body.turn, body.call)
        if self.approvals.pop(event.cause, None) is not None:
            yield ApprovalAnswered(event.cause, event.recipient, name, body.verdict, body.note)
        if not body.goes_on:
            told = body.note or ("A person denied this call." if body.verdict == "denied" else NOT_RUN)
            yield from self._answer(event.recipient, name, _text(told), is_error=True, is_denied=True)

    def _tell(self, event: Event, body: Tell) -> Iterator[Fact]:
        if body.address == HOST:
            self._texts[body.request_id] = body
        yield from ()

    def _tell_ended(self, event: Event, body: TellEnded) -> Iterator[Fact]:
        said = self._texts.pop(body.request_id, None)
        if said is not None and body.status == "heard":
            yield Heard(event.seq, said.request_id, said.text)

    # --- the ask ------------------------------------------------------------------

    def _ask(self, event: Event, body: Ask) -> Iterator[Fact]:
        self.ask, self.is_running, self._place = body.request_id, True, event.seq
        yield Prompted(event.seq, body.request_id, msgspec.json.decode(body.prompt))

    def _ask_ended(self, event: Event, body: AskEnded) -> Iterator[Fact]:
        tasks = {self._call(*at) for at in self._tasks}
        for name, (agent, _) in list(self._open.items()):
            told = UNFINISHED if name in self._begun or name in tasks else NOT_RUN
            yield from self._answer(agent, name, _text(told), is_error=True)
        self._programs.clear()
        self._begun.clear()
        for address in list(self.agents):
            yield from self._end_agent(address, "cancelled")
        self.is_running = False
        self.approvals.clear()
        self._tasks.clear()
        value = msgspec.json.decode(body.value)
        yield RunEnded(event.seq, body.request_id, body.kind, body.text, value, body.detail, body.usage)

    def _closed(self, event: Event, body: SessionClosed) -> Iterator[Fact]:
        self.is_closed = True
        yield from ()


def _blocks(content: Json) -> list[dict[str, object]]:
    """Return the blocks of a reply; none for one that cannot be read."""
    try:
        return msgspec.json.decode(content, type=list[dict[str, object]])
    except (msgspec.DecodeError, RecursionError):
        return []


def _joined(blocks: list[dict[str, object]], kind: str, key: str) -> str:
    texts = [block.get(key) for block in blocks if block.get("type") == kind]
    return "".join(text for text in texts if isinstance(text, str))


def _text(text: str) -> Json:
    return Json(msgspec.json.encode(text))


_HANDLERS: Final[Takers[FactFold, Iterator[Fact]]] = {
    Ask: FactFold._ask,
    AskEnded: FactFold._ask_ended,
    SessionClosed: FactFold._closed,
    Tell: FactFold._tell,
    TellEnded: FactFold._tell_ended,
    Begin: FactFold._begin,
    TurnRequested: FactFold._requested,
    RunStep: FactFold._requested,
    ModelReplied: FactFold._replied,
    CallTool: FactFold._called,
    ToolReturned: FactFold._returned,
    Delegate: FactFold._delegate,
    Delegated: FactFold._delegated,
    DelegationEnded: FactFold._delegation_ended,
    ReportBack: FactFold._reported,
    ReportJudged: FactFold._judged,
    Finished: FactFold._finished,
    Stop: FactFold._stop,
    RequestApproval: FactFold._asked,
    ApprovalGiven: FactFold._given,
}
