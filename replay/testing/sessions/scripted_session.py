"""A simulated session with scripted ports, a client with a list, and a process that may end.

`SessionWorld` puts moves on top of it; faults and crashes (`injection`) work on it.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from callboard.actors.agent.state import prefix_of
from callboard.actors.protocol.addresses import CLIENT, SUPERVISOR
from callboard.actors.protocol.client_messages import (
    Ask,
    AskEnded,
    Cancel,
    Close,
    SessionClosed,
    Tell,
    ToolsChanged,
)
from callboard.actors.protocol.events import Event, Post, is_closed_after
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import (
    CallModel,
    CallTool,
    CapacityGiven,
    CheckSchema,
    MakeContext,
    RequestApproval,
    RequestBudget,
    RequestCapacity,
)
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.session.cached_results import repeated
from callboard.actors.session.contexts import delegate_of, view_of
from callboard.actors.session.permissions import without_person
from callboard.actors.session.place_names import moment_name
from callboard.actors.session.recovery import recover
from callboard.replay.testing.sessions import ports
from callboard.replay.testing.sessions.board import Board, Request
from callboard.replay.testing.sessions.faults import FaultMix
from callboard.replay.testing.sessions.memory import Memory
from callboard.replay.testing.sessions.scenario import Scenario

SETS_TOOLS: Final = "client sets tools"
"""The client's move that changes tools, at any time."""

REOPENS: Final = "client reopens"
"""The client's move that opens a closed session again."""


TELLS: Final = "client tells "
"""The beginning of the strands of the client's words, each at any time."""


class Effect(NamedTuple):
    """A tool run: its agent, turn, call, name and possible effect on the world. given: its arguments."""

    address: str
    turn: int
    call: int
    tool: str
    effect: str
    given: Json = Json(b"{}")

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments by name."""
        found: dict[str, Any] = msgspec.json.decode(self.given)
        return found


class ScriptedSession(Board):
    """A session in progress, with all that faults can touch."""

    def __init__(self, scenario: Scenario, memory: Memory | None = None) -> None:
        super().__init__(scenario, memory)
        self.fault_mix: FaultMix | None = None
        self.injected: list[str] = []
        self.disturbances: list[AnyMessage] = []  # the client's messages among them
        self.durable = 0  # up to which seq the log is on disk for sure
        self.effects: list[Effect] = []  # tools that ran
        self.states_given: list[tuple[int, dict[str, object]]] = []  # to tools, by the seq of the call
        self._tools = scenario.process_tools() if scenario.process_tools else None
        # After the end of its process: the requests of tools with effects that were under way.
        self.down: tuple[Request, ...] | None = None
        self.is_detaching = False  # it ends politely
        self.is_closed = False
        self._told = 0
        self._tells = {f"{TELLS}{_name_of(one)}": one for one in scenario.tells}
        self._held: dict[str, str] = {}
        self._list = _list_of(scenario)
        self._to_say = self._list[::-1]
        self._changes: list[AnyMessage] = [ToolsChanged(change) for change in scenario.changes]
        self._to_change = self._changes[::-1]
        self._offer_change()
        if self._to_say:
            self.speak()
        self._offer_tells()

    # --- ports ----------------------------------------------------------------------

    def is_in_line(self, request: Request) -> bool:
        """Return whether a request waits for a place, so that its port does not know it yet."""
        return False

    def reply(self, strand: str, fault: str = "") -> None:
        """Answer the request of a strand, or fire its timer."""
        request = self.requests.get(strand)
        if request is None:
            self.fire(strand)
            return
        event, fault_mode = request.event, fault or request.fault_mode
        self.close_request(request)
        if event.seq in self.aborted and fault != "finished":
            is_unstarted = fault == "unstarted"
            answer = self.gate.cancelled(event) if is_unstarted else ports.given_up(event, self.gate)
        else:
            self.durable = max(self.durable, request.waits_for)
            answer = self._answer(event, fault_mode)
            if self.memory is not None:
                answer = self.memory.answer(event, fault_mode, answer)
        self.answer(event, answer)
        if fault == "twice":
            self.answer(event, answer)

    def _answer(self, event: Event, fault_mode: str) -> Post:
        match event.body:
            case CallModel() | RunStep():
                asked = self.asked[event.seq]
                reply = ports.faulty_reply(fault_mode, ports.policy_reply(self.scenario, asked))
                return ports.replied(asked, self.gate.wish_of(event), reply)
            case CallTool() as call:
                if (found := self.gate.cached_result(event, self.now)) is not None:
                    return Post(event.sender, repeated(event, found, ports.SESSION_ID))
                answer, limits = self.act(event, call), self.agent(event.sender).limits
                return ports.faulty_tool_answer(fault_mode, event, call, limits.tool_timeout_s or 0) or answer
            case RequestApproval() as question:
                unasked = without_person(event, self.now, self.gate.permissions)
                return unasked or ports.given(self.scenario, event, question, fault_mode)
            case CheckSchema() as check:
                return ports.checked(self.scenario, check, fault_mode)
            case MakeContext() as wanted:
                view = view_of(self.states.get(wanted.parent), delegate_of(self.supervisor, wanted), wanted)
                return ports.context_made(self.scenario, wanted, view, fault_mode)
            case RequestCapacity(agent=agent, turn=turn, attempt=attempt):
                return Post(SUPERVISOR, CapacityGiven(agent, turn, attempt))
            case RequestBudget() as asked:
                return ports.reserved(self.scenario, asked)
            case other:
                return self.scenario.others[type(other)](event)

    def act(self, event: Event, call: CallTool) -> Post:
        """Run a tool, with its effect; return its answer."""
        made = Effect(event.sender, call.turn, call.call, call.tool, call.effect, call.arguments)
        self.effects.append(made)
        shared = self.gate.state_for(event)
        if self.scenario.state:
            self.states_given.append((event.seq, shared.values()))
        agent = self.agent(event.sender)
        reach = ports.Reach(agent.permissions, self.gate.files, self.gate.history)
        run = None
        if self._tools is not None:
            profile = prefix_of(agent).profile.name
            run = partial(self._tools, event.sender, profile, call, shared.values())
        return ports.returned(self.scenario, event, call, shared, reach, run)

    # --- the client -----------------------------------------------------------------

    def speak(self) -> None:
        """Post the client's next message; the client has now seen every earlier outcome."""
        self.offers.pop(CLIENT, None)
        self.durable = max(self.durable, self._told)
        self.say(self._to_say.pop())

    def tell_agent(self, strand: str) -> None:
        """Post the client's words of a strand."""
        del self.offers[strand]
        self.say(self._tells[strand])

    def _offer_tells(self) -> None:
        """Offer every `Tell` that the log does not hold, unless it waits for an event."""
        said = {id(event.body) for event in self.log if event.sender == CLIENT}
        moments = set(map(moment_name, self.log)) if self.scenario.tells_after else set()
        self._held = {}
        for strand, body in self._tells.items():
            after = self.scenario.tells_after.get(_name_of(body), "")
            if id(body) in said:
                continue
            if after and after not in moments:
                self._held[strand] = after
            else:
                self._offer_tell(strand)

    def _offer_tell(self, strand: str) -> None:
        body = self._tells[strand]
        does = "tells" if isinstance(body, Tell) else "cancels"
        self.offer(strand, strand, "client", f"the client {does} {body.address}")

    def post(self, sender: str, cause: int, posts: Sequence[Post]) -> None:
        """Post as `Board.post`, and at once the words that waited for one of these events."""
        begun = len(self.log)
        super().post(sender, cause, posts)
        if self._held:
            moments = set(map(moment_name, self.log[begun:]))
            for strand in [one for one, after in self._held.items() if after in moments]:
                del self._held[strand]
                self.say(self._tells[strand])

    def say(self, body: AnyMessage) -> None:
        """Post a message of the client now."""
        if isinstance(body, Ask) and not self.running:
            self.running = body.request_id
        self.post(CLIENT, 0, (Post(SUPERVISOR, body),))

    def disturb(self, body: AnyMessage) -> None:
        """Post a message that the client of this scenario would not send."""
        self.disturbances.append(body)
        self.say(body)

    def set_tools(self) -> None:
        """Let the client change tools."""
        self.offers.pop(SETS_TOOLS, None)
        self.say(self._to_change.pop())
        self._offer_change()

    def _offer_change(self) -> None:
        if self._to_change and not self.is_closed:
            self.offer(SETS_TOOLS, CLIENT, "client", "the client sets tools")

    def tell(self, event: Event) -> None:
        """Deliver an event to the client, which may continue its list once an ask has ended."""
        body = event.body
        if isinstance(body, AskEnded) and body.request_id == self.running:
            self.running = ""
        elif isinstance(body, SessionClosed):
            self.is_closed = True
            self.offers.pop(SETS_TOOLS, None)
        self._told = event.seq
        self._offer_client()

    def _offer_client(self) -> None:
        """Offer the client's next message, if there is one and no ask is running."""
        self.offers.pop(CLIENT, None)
        if not self._to_say or self.running:
            return
        if not self.is_closed:
            self.offer(CLIENT, CLIENT, "client", "the client goes on")
        elif self.scenario.reopens and any(isinstance(body, Ask) for body in self._to_say):
            self.offer(REOPENS, CLIENT, "client", "the client opens the session again")

    # --- continuing -----------------------------------------------------------------

    def lose_after(self, seq: int) -> None:
        """Lose the events after one of them, which the store does not hold."""
        self.log = self.log[:seq]  # the trace of moves before keeps the old one
        self._forget_after(seq)

    def _forget_after(self, seq: int) -> None:
        """Forget the seen parts of events that are lost: other events may get their seqs."""
        self.states_given = [given for given in self.states_given if given[0] <= seq]
        self.asked = {at: request for at, request in self.asked.items() if at <= seq}

    def resume(self, log: Sequence[Event], *, reopens: bool = False) -> None:
        """Start a new process that continues from a log, or raise Diverged. reopens: a closed session.

        It comes as much later as it says to leave out.
        """
        self.now += self.scenario.resumed.left_out_ms if log else 0
        first = replace(self.scenario.resumed, reopens=reopens) if log else self.scenario.first
        self._forget_after(len(log))
        if self.scenario.process_tools is not None:
            self._tools = self.scenario.process_tools()
        self.restore(list(log), recover(log, first, self.now))
        ask = self.supervisor.ask
        self.catch_up("" if ask is None else ask.request_id)

    def catch_up(self, running: str) -> None:
        """Let the client continue its list where the log ends. running: the id of the ask in progress."""
        # The client says what the log does not hold.
        said = {id(event.body) for event in self.log if event.sender == CLIENT}
        self._to_say = [body for body in self._list if id(body) not in said][::-1]
        self.running = running
        self.is_closed = is_closed(self.log)
        self._told = 0
        self._to_change = [body for body in self._changes if id(body) not in said][::-1]
        self._offer_change()
        self._offer_client()
        self._offer_tells()


def _name_of(body: Tell | Cancel) -> str:
    return body.request_id if isinstance(body, Tell) else f"to end {body.address}"


def _list_of(scenario: Scenario) -> list[AnyMessage]:
    """Return the messages of the client, in order."""
    said: list[AnyMessage] = []
    for one in scenario.asks:
        said += [Close(), one] if said and scenario.reopens else [one]
    return [*said, Close()] if scenario.closes else said


def is_closed(log: Sequence[Event]) -> bool:
    """Return whether a log ends in a closed session."""
    found = False
    for event in log:
        found = is_closed_after(event.body, was_closed=found)
    return found
