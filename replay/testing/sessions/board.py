"""The board of a simulated session: it drives the session core with one thread, no disk and no tasks.

Rules
  - Each step that the live board leaves to the event loop, to tasks or to the clock is an offer here:
    a move that the scheduler may choose. Everything else happens at once, as it does live: posts, delivery
    into inboxes, refusals, and the end of a sub-agent at rest.
  - The clock stands still while any offer is open. Then it jumps to the next moment at which a timer fires or
    a delayed port answers.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from callboard.actors.agent.state import AgentState, request_of
from callboard.actors.protocol.addresses import CLIENT, CLOCK, HOST, SUPERVISOR, is_agent
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.messages import (
    AskEnded,
    CallModel,
    CallTool,
    CheckSchema,
    RequestApproval,
    SessionClosed,
    TimerFired,
)
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.session.core import Mailbox, SessionCore
from callboard.actors.session.port_gate import Arm, PortGate, Start
from callboard.actors.session.port_table import owner_of
from callboard.actors.session.recovery import Recovered
from callboard.actors.session.step import ActorState
from callboard.actors.supervisor.state import SupervisorState
from callboard.replay.testing.sessions.memory import Memory
from callboard.replay.testing.sessions.names import (
    approval_subject,
    check_chain,
    model_subject,
    timer_chain,
    tool_subject,
)
from callboard.replay.testing.sessions.scenario import START_MS, Scenario
from callboard.replay.testing.world import Move

GRACE_MS: Final = 5_000
"""The wait for a tool that cannot be stopped, in milliseconds, as in the live tool port."""

RESCUES: Final = ("timer deadline", "timer grace")
"""Timers that end a session that hangs. A session whose ports all answer never needs them."""


class Request(NamedTuple):
    """A port request that has no answer. bent: the fault of its answer, or ''."""

    event: Event
    chain: str
    bent: str = ""


class Board:
    """One simulated session in progress.

    offers: the moves that can happen next, by chain.
    later: the moments of the moves that wait for the clock, in milliseconds since 1970, by chain.
    requests: the requests that ports have not answered, by chain.
    asked: the requests to models, by the seq of the grant.
    step: the number of the current step. posters: the step that posted each event of the log.
    failure: the exception that has ended the session in this process.
    """

    def __init__(self, scenario: Scenario, memory: Memory | None = None) -> None:
        event, state = scenario.opened
        self.memory = memory
        self.scenario = scenario
        self.names = scenario.names
        self.log: list[Event] = [event]
        self.inboxes: dict[str, deque[Event]] = {}
        self.core = SessionCore(self._open_inbox)
        self._remember_decisions(self.core)
        self.core.mailboxes[CLIENT] = self.tell
        self.core.seq = 1
        self.core.keep(SUPERVISOR, state)
        self.now = START_MS
        self.offers: dict[str, Move] = {}
        self.later: dict[str, int] = {}
        self.requests: dict[str, Request] = {}
        self.asked: dict[int, ModelRequest] = {}
        self.aborted: set[int] = set()
        self.timers: dict[int, tuple[str, int]] = {}
        self.running = ""
        self.is_closed = False
        self.is_continued = False
        self.failure: Exception | None = None
        self.rescued = ""
        self.seen: set[tuple[str, str, type]] = set()
        self.step = 0
        self.posters = [0]
        self._chains: dict[int, str] = {}
        self._announced: dict[int, int] = {}

    @property
    def states(self) -> dict[str, ActorState]:
        """Return the state of every actor, by address."""
        return self.core.states

    @property
    def gate(self) -> PortGate:
        """Return the session's port gate."""
        return self.core.gate

    def _remember_decisions(self, core: SessionCore) -> None:
        if self.memory is not None:
            core.step, core.initial, core.event = self.memory.step, self.memory.initial, self.memory.event

    # --- posting --------------------------------------------------------------------

    def post(self, sender: str, cause: int, posts: Sequence[Post]) -> None:
        """Post the outputs of one decision or port, then perform the gate's actions."""
        self.posters += [self.step] * len(posts)
        events = self.core.number(self.now, ((sender, cause, posts),))
        self.log += events  # before delivery: the names of moves are taken from the log
        self.core.route(events)
        self.core.perform(self.core.gate.on_events(events), self)

    def _open_inbox(self, address: str) -> Mailbox:
        inbox = self.inboxes[address] = deque()

        def deliver(event: Event) -> None:
            if not inbox:
                self.offers[f"inbox {address}"] = self.names.delivery(event)
            inbox.append(event)

        return deliver

    def tell(self, event: Event) -> None:
        """Deliver an event to the client."""
        body = event.body
        if isinstance(body, AskEnded) and body.request_id == self.running:
            self.running = ""
        elif isinstance(body, SessionClosed):
            self.is_closed = True

    def answer(self, request: Event, post: Post) -> None:
        """Post a port's answer to a request, unless it has one."""
        answer = self.core.gate.take_answer(request, post)
        if answer is not None:
            self.post(request.recipient, request.seq, (answer,))

    # --- deciding -------------------------------------------------------------------

    def deliver(self, address: str, error: str = "") -> None:
        """Let an actor handle the head of its inbox.

        error: the class of the exception that a fault makes the decider raise, or ''.
        """
        core, inbox = self.core, self.inboxes[address]
        event = inbox.popleft()
        before = core.state_of(address)
        self.seen.add((address, before.phase, type(event.body)))
        try:
            posts = core.decide(event, error) if error else core.decide_safely(event)
        except Exception as raised:  # the supervisor's
            self.fail(raised)
            return
        self.decided(address, before, event, core.states[address])
        if posts:
            self.post(address, event.seq, posts)
        if address in core.mailboxes:
            self._next(address, inbox)
        else:  # at rest
            self.inboxes.pop(address, None)
            self.offers.pop(f"inbox {address}", None)

    def _next(self, address: str, inbox: deque[Event]) -> None:
        """Offer the delivery of the event at the head of an inbox."""
        if inbox:
            self.offers[f"inbox {address}"] = self.names.delivery(inbox[0])
        else:
            self.offers.pop(f"inbox {address}", None)

    def decided(self, address: str, before: ActorState, event: Event, after: ActorState) -> None:
        """Observe a decision. A subclass overrides this hook; a board does nothing."""

    def fail(self, error: Exception) -> None:
        """Fail the session in this process: withdraw every offer."""
        self.failure = error
        self.offers.clear()
        self.later.clear()
        self.requests.clear()

    # --- ports ----------------------------------------------------------------------

    def start(self, start: Start) -> None:
        """Give a request to its port, and offer the port's answer."""
        request = start.request
        self.core.announce(start, self)
        self._announced[request.seq] = len(self.log)
        self._offer_answer(request)

    def _offer_answer(self, request: Event) -> None:
        body = request.body
        if isinstance(body, CallModel):
            self._note(request, body)
            chain, label = f"model {model_subject(body.agent, self.gate.wish_of(request))}", "answers"
        elif isinstance(body, CallTool):
            chain, label = f"tool {tool_subject(request.sender, body)}", "returns"
        elif isinstance(body, RequestApproval):
            chain, label = f"approval {approval_subject(request.sender, body)}", f"is given for {body.tool}"
        elif isinstance(body, CheckSchema):
            chain, label = check_chain(self.supervisor, body.check, self.log), "answers"
        else:
            chain, label = f"{request.recipient} {owner_of(request)}", "answers"
        while chain in self.requests:  # two requests of one name are two moves
            chain += " again"
        self.requests[chain] = Request(request, chain)
        self._chains[request.seq] = chain
        self.offers[chain] = self.names.other(chain, f"ports {owner_of(request)}", "port", f"{chain} {label}")

    def _note(self, request: Event, grant: CallModel) -> None:
        """Keep the request to the model, as the agent's state holds it at the moment of the grant."""
        state = self.states.get(grant.agent)
        if not isinstance(state, AgentState) or state.digest != self.gate.wish_of(request).digest:
            self.fail(RuntimeError(f"{grant.agent}: the request is not the one that was granted"))
            return
        self.asked[request.seq] = (self.memory.request if self.memory else request_of)(state)

    def start_of(self, request: Event) -> int:
        """Return the seq up to which the log must be durable before a port acts on a request that waits."""
        return self._announced[request.seq]

    def close_request(self, request: Request) -> None:
        """Close a request that its port has finished."""
        self.requests.pop(request.chain, None)
        self._chains.pop(request.event.seq, None)
        self.offers.pop(request.chain, None)
        self.later.pop(request.chain, None)

    def actor_of(self, chain: str) -> str:
        """Return the actor of a move. All answers of ports to one agent have one: they conflict."""
        request = self.requests.get(chain)
        return f"ports {owner_of(request.event)}" if request else chain

    def delay(self, request: Request, bent: str, after_ms: int) -> None:
        """Let a port answer a request later.

        bent: the fault of the answer, or ''.
        """
        self.requests[request.chain] = request._replace(bent=bent)
        self.offers.pop(request.chain, None)
        self.later[request.chain] = self.now + after_ms

    def ignore(self, request: Request) -> None:
        """Let a port ignore a request until its agent is stopped."""
        self.requests[request.chain] = request._replace(bent="ignored")
        self.offers.pop(request.chain, None)

    def abort(self, request: Event) -> None:
        """Make a port give up a request, at once unless its tool cannot be stopped."""
        self.aborted.add(request.seq)
        chain = self._chains.get(request.seq, "")
        if chain in self.later:
            if self.requests[chain].bent == "never" and isinstance(request.body, CallTool):
                self.later[chain] = self.now + GRACE_MS
            else:
                self._due(chain)
        elif chain and chain not in self.offers:  # the port ignores it, but a stop is answered
            self._due(chain)

    # --- continuing -----------------------------------------------------------------

    def restore(self, log: list[Event], recovered: Recovered) -> None:
        """Continue a recovered session: take its states, and start the requests that are open."""
        self.posters = self.posters[: len(log)] + [self.step] * len(recovered.posted)
        self.log = [*log, *recovered.posted]
        self.inboxes = {}
        self.core = recovered.core
        self._remember_decisions(self.core)
        self.core.move_to(self._open_inbox, self.tell)
        for memory in (self.offers, self.later, self.requests, self.timers, self._chains, self._announced):
            memory.clear()
        self.asked.clear()
        self.is_continued = True
        self.aborted.clear()
        for event in recovered.posted:
            if event.recipient == CLIENT:
                self.tell(event)
        self.core.perform((*recovered.timers, *recovered.starts), self)

    # --- the clock ------------------------------------------------------------------

    def arm(self, arm: Arm) -> None:
        """Set a timer, or move it to a later moment."""
        timer = arm.timer
        chain = self.timers[timer][0] if timer in self.timers else timer_chain(self.supervisor, timer)
        self.timers[timer] = (chain, arm.request)
        self.later[chain] = arm.at + arm.after_ms

    def disarm(self, timer: int) -> None:
        """Forget a timer."""
        chain, _ = self.timers.pop(timer, ("", 0))
        self.later.pop(chain, None)
        self.offers.pop(chain, None)

    def fire(self, chain: str) -> None:
        """Fire a timer."""
        timer, request = next((timer, seq) for timer, (name, seq) in self.timers.items() if name == chain)
        self.offers.pop(chain, None)
        self.later.pop(chain, None)
        self.post(CLOCK, request, (Post(SUPERVISOR, TimerFired(timer)),))

    def jump(self) -> None:
        """Set the clock to the next moment at which a move is due, and offer the moves that are due."""
        if self.later:
            self.now = max(self.now, min(self.later.values()))
            for chain in [chain for chain, due in self.later.items() if due <= self.now]:
                self._due(chain)

    def wake(self) -> None:
        """Jump, after the last offer. Note a session that only a deadline can still end."""
        is_ignored = any(request.bent == "ignored" for request in self.requests.values())
        if not self.rescued and self.later and self.running and not is_ignored:
            is_last_hope = all(chain.startswith(RESCUES) for chain in self.later)
            self.rescued = min(self.later) if is_last_hope else ""
        self.jump()

    def _due(self, chain: str) -> None:
        self.later.pop(chain, None)
        label = "" if chain in self.requests else f"{chain} fires"
        self.offers[chain] = self.names.other(chain, self.actor_of(chain), "port", label)

    # --- looking --------------------------------------------------------------------

    @property
    def supervisor(self) -> SupervisorState:
        """Return the supervisor's state."""
        state = self.states[SUPERVISOR]
        assert isinstance(state, SupervisorState)
        return state

    def agent(self, address: str = HOST) -> AgentState:
        """Return an agent's state. Raises KeyError for an agent that never began."""
        state = self.states[address]
        assert isinstance(state, AgentState)
        return state

    def agents(self) -> list[str]:
        """Return the addresses of all agents that ever began, in the order of their first decisions."""
        return [address for address in self.states if is_agent(address)]
