"""A simulated session that acts: ports that answer, a client with a list, a process that may end.

`SessionWorld` puts moves on top of it; faults and crashes (`strikes`, `crash`) work on it.
"""

from typing import NamedTuple

from callboard.actors.protocol.addresses import CLIENT, SUPERVISOR
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.messages import (
    AnyMessage,
    Ask,
    AskEnded,
    CallModel,
    CallTool,
    CheckSchema,
    Close,
    RequestApproval,
    SessionClosed,
)
from callboard.replay.testing.sessions import ports
from callboard.replay.testing.sessions.board import Board, Request
from callboard.replay.testing.sessions.faults import FaultMix
from callboard.replay.testing.sessions.memory import Memory
from callboard.replay.testing.sessions.scenario import Scenario


class Effect(NamedTuple):
    """A tool run: its agent, turn, call, name and possible effect on the world."""

    address: str
    turn: int
    call: int
    tool: str
    effect: str


class Down(NamedTuple):
    """A session without a process. running: tools that were under way, and the seq that starts each."""

    running: tuple[tuple[Event, int], ...]


class Acting(Board):
    """A session in progress, with all that faults can touch.

    durable: up to which seq the log is on disk for sure. effects: tools that ran. down: the remains of
    the last process, while no process runs. injected: the faults so far. fault_mix: the faults on offer,
    if a mix was chosen.
    """

    def __init__(self, scenario: Scenario, memory: Memory | None = None) -> None:
        super().__init__(scenario, memory)
        self.fault_mix: FaultMix | None = None
        self.injected: list[str] = []
        self.durable = 0
        self.effects: list[Effect] = []
        self.down: Down | None = None
        self._told = 0
        self._list: list[AnyMessage] = [*scenario.asks, *([Close()] if scenario.closes else [])]
        self._script = self._list[::-1]
        if self._script:
            self.speak()

    # --- ports ----------------------------------------------------------------------

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
            answer = self._answer(request, fault_mode)
            if self.memory is not None:
                answer = self.memory.answer(event, fault_mode, answer)
        self.answer(event, answer)
        if fault == "twice":
            self.answer(event, answer)

    def _answer(self, request: Request, fault_mode: str) -> Post:
        event, body = request.event, request.event.body
        if isinstance(body, CallModel):
            asked = self.asked[event.seq]
            reply = ports.policy_reply(self.scenario, asked)
            wish = self.gate.wish_of(event)
            return ports.replied(asked, wish, ports.faulty_reply(fault_mode, reply) if fault_mode else reply)
        if isinstance(body, CallTool):
            return self._use(event, body, fault_mode)
        if isinstance(body, RequestApproval):
            self.durable = max(self.durable, self.start_of(event))
            return ports.given(self.scenario, event, body, fault_mode)
        if isinstance(body, CheckSchema):
            return ports.checked(self.scenario, body, fault_mode)
        return self.scenario.others[type(body)](event)

    def _use(self, event: Event, call: CallTool, fault_mode: str) -> Post:
        if call.effect != "read":
            self.durable = max(self.durable, self.start_of(event))
        answer = self.act(event, call)
        limits = self.agent(event.sender).limits
        return ports.faulty_tool_answer(fault_mode, event, call, limits.tool_timeout_s or 0.0) or answer

    def act(self, event: Event, call: CallTool) -> Post:
        """Run a tool, with its effect; return its answer."""
        self.effects.append(Effect(event.sender, call.turn, call.call, call.tool, call.effect))
        return ports.returned(self.scenario, event, call)

    # --- the client -----------------------------------------------------------------

    def speak(self) -> None:
        """Post the client's next message; the client has now seen every earlier outcome."""
        self.offers.pop(CLIENT, None)
        self.durable = max(self.durable, self._told)
        self.say(self._script.pop())

    def say(self, body: AnyMessage) -> None:
        """Post a message of the client now."""
        if isinstance(body, Ask) and not self.running:
            self.running = body.request_id
        self.post(CLIENT, 0, (Post(SUPERVISOR, body),))

    def tell(self, event: Event) -> None:
        """Deliver an event to the client, which may continue its list once an ask has ended."""
        super().tell(event)
        self._told = event.seq
        self.offer_client()

    def offer_client(self) -> None:
        """Offer the client's next message, if there is one and no ask is running."""
        self.offers.pop(CLIENT, None)
        if self._script and not self.running and not self.is_closed:
            self.offers[CLIENT] = self.names.other(CLIENT, CLIENT, "client", "the client goes on")

    def remember(self) -> None:
        """Restore after a crash the client's list: the messages that the log does not hold."""
        said = {id(event.body) for event in self.log if event.sender == CLIENT}
        self._script = [body for body in self._list if id(body) not in said][::-1]
        open_asks: dict[str, bool] = {}
        for event in self.log:
            if isinstance(event.body, Ask):
                open_asks[event.body.request_id] = True
            elif isinstance(event.body, AskEnded):
                open_asks.pop(event.body.request_id, None)
        self.running = next(iter(open_asks), "")
        self.is_closed = any(isinstance(event.body, SessionClosed) for event in self.log)
        self._told = 0
        self.offer_client()
