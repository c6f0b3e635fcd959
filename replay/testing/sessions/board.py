"""The board of a simulated session: it drives the session core with one thread, no disk and no tasks.

The steps that the live board leaves to the event loop, to tasks and to the system's clock are offers here,
moves that a caller may make. All others happen at once, as they do live. The clock stands still while any
other move is possible; then it jumps to the next due time of a timer, or of a port that takes its time.
"""

import copy
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from callboard.actors.agent.state import AgentState, request_of
from callboard.actors.protocol.addresses import CLIENT, CLOCK, HOST, SUPERVISOR, is_agent
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.port_messages import CallModel, TimerFired
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.protocol.usage import Usage
from callboard.actors.session.core import Mailbox, SessionCore
from callboard.actors.session.permissions import expires_at
from callboard.actors.session.port_actions import Arm, Start
from callboard.actors.session.port_gate import PortGate
from callboard.actors.session.port_table import owner_of
from callboard.actors.session.recovery import Recovered
from callboard.actors.session.step import ActorState
from callboard.actors.supervisor.state import SupervisorState
from callboard.replay.testing.sessions.memory import Memory
from callboard.replay.testing.sessions.names import answer_name, timer_strand
from callboard.replay.testing.sessions.scenario import START_MS, Scenario
from callboard.replay.testing.world import Move, MoveKind

GRACE_MS: Final = 5_000
"""The wait for a tool that cannot be stopped, in milliseconds, as in the live tool port."""

RESCUES: Final = ("timer deadline", "timer grace")
"""Timers that end a session that hangs. A session whose ports all answer never needs them."""


class Request(NamedTuple):
    """A port request that has no answer."""

    event: Event
    strand: str
    waits_for: int  # the seq up to which the log must be durable before the port acts; or 0
    fault_mode: str = ""  # the fault of its answer


class Board:
    """One simulated session in progress."""

    def __init__(self, scenario: Scenario, memory: Memory | None = None) -> None:
        if scenario.setup is not None:
            scenario.setup()
        event, state = scenario.opened
        self.memory = memory
        self.scenario = scenario
        self.names = scenario.names
        self.log: list[Event] = [event]
        self.inboxes: dict[str, deque[Event]] = {}
        self.core = SessionCore(self._open_inbox)
        self._remember_decisions()
        self.core.mailboxes[CLIENT] = self.tell
        self.core.seq = 1
        self.core.gate.on_events((event,))
        self.core.keep(SUPERVISOR, state)
        self.now = START_MS
        self.offers: dict[str, Move] = {}  # what can happen next, by strand
        self.later: dict[str, int] = {}  # what can happen once the clock is there, in milliseconds since 1970
        self.requests: dict[str, Request] = {}
        self.asked: dict[int, ModelRequest] = {}  # by the seq of the grant
        self.aborted: set[int] = set()  # the requests that were given up
        self.timers: dict[int, str] = {}
        self.running = ""  # the id of the ask in progress
        self.is_continued = False
        self.failure: Exception | None = None  # why the session can go no further, as a live one would say it
        self.rescued = ""  # the first timer that had to end the session
        self.situations: set[tuple[str, str, type]] = set()  # address, phase, kind of message
        self.step = 0
        self.posters = [0]  # by which step each event of the log was posted

    @property
    def states(self) -> dict[str, ActorState]:
        """Return the state of every actor by address."""
        return self.core.states

    @property
    def gate(self) -> PortGate:
        """Return the gate: the open port requests and the stopped agents."""
        return self.core.gate

    @property
    def supervisor(self) -> SupervisorState:
        """Return the supervisor's state."""
        state = self.states[SUPERVISOR]
        assert isinstance(state, SupervisorState)
        return state

    def agent(self, address: str = HOST) -> AgentState:
        """Return an agent's state. Raises KeyError for one that never began."""
        state = self.states[address]
        assert isinstance(state, AgentState)
        return state

    def agents(self) -> list[str]:
        """Return the addresses of all agents that ever began, in the order of their beginnings."""
        return [address for address in self.states if is_agent(address)]

    def _remember_decisions(self) -> None:
        core, memory = self.core, self.memory
        if memory is not None:
            core.step, core.initial, core.event = memory.step, memory.initial, memory.event

    # --- posting --------------------------------------------------------------------

    def post(self, sender: str, cause: int, posts: Sequence[Post]) -> None:
        """Post the outputs of one decision or port, then perform the gate's actions."""
        self.posters += [self.step] * len(posts)
        events = self.core.post(self.now, ((sender, cause, posts),))
        self.log += events  # before the gate: the names of answers are taken from the log
        self.core.perform(self.core.gate.on_events(events), self)

    def _open_inbox(self, address: str) -> Mailbox:
        inbox = self.inboxes[address] = deque()

        def deliver(event: Event) -> None:
            if not inbox:
                self.offers[f"inbox {address}"] = self.names.delivery(event)
            inbox.append(event)

        return deliver

    def tell(self, event: Event) -> None:
        """Do nothing with an event for the client. A session that has a client overrides this."""

    def answer(self, request: Event, post: Post) -> None:
        """Post a port's answer to a request, unless it has one."""
        answer = self.core.gate.take_answer(request.seq, post)
        if answer is not None:
            self.post(request.recipient, request.seq, (answer,))

    # --- deciding -------------------------------------------------------------------

    def deliver(self, address: str, error: str = "") -> None:
        """Let an actor handle the head of its inbox. error: the exception that a fault raises, or ''."""
        core, inbox = self.core, self.inboxes[address]
        event = inbox.popleft()
        self.situations.add((address, core.state_of(address).phase, type(event.body)))
        try:
            posts = core.decide(event, error) if error else core.decide_safely(event)
        except Exception as raised:  # the supervisor's
            self.fail(raised)
            return
        if posts:
            self.post(address, event.seq, posts)
        if address not in core.mailboxes:  # at rest
            self.inboxes.pop(address, None)
            inbox.clear()
        if inbox:
            self.offers[f"inbox {address}"] = self.names.delivery(inbox[0])
        else:
            self.offers.pop(f"inbox {address}", None)

    def fail(self, error: Exception) -> None:
        """End the session in this process: no further move is offered."""
        self.failure = error
        self.withdraw_all()

    def withdraw_all(self) -> None:
        """Forget all moves that are possible now or later, and all requests."""
        for memory in (self.offers, self.later, self.requests):
            memory.clear()

    # --- ports ----------------------------------------------------------------------

    def start(self, start: Start) -> None:
        """Give a request to its port, and offer the port's answer."""
        request = start.request
        waits_for = self.core.announce(start, self) if start.waits else 0
        if isinstance(request.body, CallModel | RunStep):
            self._note(request, owner_of(request))
        strand, label = answer_name(request, self.gate, self.supervisor, self.log)
        while strand in self.requests:  # two requests of one name are two moves
            strand += " again"
        self.requests[strand] = Request(request, strand, waits_for)
        self.offer(strand, f"ports {owner_of(request)}", "port", f"{strand} {label}")

    def offer(self, strand: str, actor: str, kind: MoveKind, label: str = "") -> None:
        """Offer a move other than a delivery."""
        self.offers[strand] = self.names.other(strand, actor, kind, label)

    def _note(self, request: Event, agent: str) -> None:
        """Record the request of a model call or a step, from the agent's state at that moment."""
        state = self.states.get(agent)
        if not isinstance(state, AgentState) or state.digest != self.gate.wish_of(request).digest:
            self.fail(RuntimeError(f"{agent}: the request is not the one that was granted"))
            return
        of = self.memory.request if self.memory and state.asked is None else request_of
        asked = of(state, self.states.__getitem__)
        if state.model.is_program:  # a step has a time and a state of its own
            asked = copy.copy(asked)
            asked.at, asked.left_out_ms = self.now, self.gate.left_out_ms
            asked.state_of = self.gate.shared.json_of
        self.asked[request.seq] = asked

    def close_request(self, request: Request) -> None:
        """Remove a request that its port has finished."""
        del self.requests[request.strand]
        self._withdraw(request.strand)

    def _withdraw(self, strand: str) -> None:
        self.offers.pop(strand, None)
        self.later.pop(strand, None)

    def actor_of(self, strand: str) -> str:
        """Return the actor of a strand's moves: the answers to one agent conflict with each other."""
        request = self.requests.get(strand)
        return f"ports {owner_of(request.event)}" if request else strand

    def delay(self, request: Request, fault_mode: str, after_ms: int) -> None:
        """Postpone the answer to a request."""
        self.ignore(request, fault_mode)
        self.later[request.strand] = self.now + after_ms

    def ignore(self, request: Request, fault_mode: str = "ignored") -> None:
        """Leave a request without an answer, unless its agent is stopped or the request expires."""
        self.requests[request.strand] = request._replace(fault_mode=fault_mode)
        self.offers.pop(request.strand, None)
        if (due := expires_at(request.event)) is not None:
            self.later[request.strand] = due

    def abort(self, request: Event) -> None:
        """Make a port give up a request, at once unless its tool cannot be stopped."""
        self.aborted.add(request.seq)
        given = next((one for one in self.requests.values() if one.event.seq == request.seq), None)
        if given is None or given.strand in self.offers:
            return
        if given.fault_mode == "never":  # a tool that cannot be stopped
            self.later[given.strand] = self.now + GRACE_MS
        else:
            self._due(given.strand)

    # --- continuing -----------------------------------------------------------------

    def restore(self, log: list[Event], recovered: Recovered) -> None:
        """Continue a recovered session: take its states, and start the requests that are open."""
        self.posters = self.posters[: len(log)] + [self.step] * len(recovered.posted)
        self.log = [*log, *recovered.posted]
        self.core = recovered.core
        self._remember_decisions()
        self.withdraw_all()
        for memory in (self.inboxes, self.timers, self.asked, self.aborted):
            memory.clear()
        self.is_continued = True
        self.core.move_to(self._open_inbox, self.tell)
        for event in recovered.posted:
            if event.recipient == CLIENT:
                self.tell(event)
        self.core.perform((*recovered.timers, *recovered.starts), self)

    # --- the clock ------------------------------------------------------------------

    def arm(self, arm: Arm) -> None:
        """Set a timer, or move it to a later moment."""
        strand = self.timers.get(arm.timer) or timer_strand(self.supervisor, arm.timer)
        self.timers[arm.timer] = strand
        self.later[strand] = arm.at + arm.after_ms

    def disarm(self, timer: int) -> None:
        """Forget a timer."""
        self._withdraw(self.timers.pop(timer, ""))

    def fire(self, strand: str) -> None:
        """Fire a timer."""
        timer = next(timer for timer, name in self.timers.items() if name == strand)
        self._withdraw(strand)
        self.post(CLOCK, self.gate.timers[timer].request, (Post(SUPERVISOR, TimerFired(timer)),))

    def give_back(self, agent: str, usage: Usage | None) -> None:
        """Do nothing: a session that runs alone shares its places with none."""

    def jump(self) -> None:
        """Advance the clock to the next due time and offer the moves that are due."""
        if self.later:
            self.now = max(self.now, min(self.later.values()))
            for strand in [strand for strand, due in self.later.items() if due <= self.now]:
                self._due(strand)

    def wake(self) -> None:
        """Advance the clock as the last resort; record it if only a deadline can end the session."""
        if not self.rescued and self.later and self.running and not self.is_ignored():
            is_last_hope = all(strand.startswith(RESCUES) for strand in self.later)
            self.rescued = min(self.later) if is_last_hope else ""
        self.jump()

    def is_ignored(self) -> bool:
        """Return whether a person leaves a question without an answer."""
        return any(request.fault_mode == "ignored" for request in self.requests.values())

    def _due(self, strand: str) -> None:
        self.later.pop(strand, None)
        self.offer(strand, self.actor_of(strand), "port", f"{strand} fires")
