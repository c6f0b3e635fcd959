"""The board of one live session: durability and tasks around the session core.

Rules
  - Decisions and port answers are *submitted* during a pass of the loop's run queue. When no actor has a
    message they are posted: they take the next seqs, in the order of their submission, and go into mailboxes.
    At the end of the pass all new events are *published*: they go to the writer, and then the gate's actions
    are performed. All posts of one decision stand together in the log and in every mailbox.
  - A request that is published together with a later stop of its agent does not start, and is answered as
    `cancelled`.
  - Delivery, model calls and `read` tools do not wait for the disk. A request that waits is kept in `_gated`
    until the log is durable up to and including it, and an event for the client in `_outbox`.
  - A board that detaches stands still: no actor decides, no port starts. Answers are posted until it is cut
    off; then the model calls that are left are answered as `detached`, and nothing is posted any more.
  - When a commit fails, or an actor dies, the session fails in this process: nothing starts any more and
    every waiter gets a typed error. The log stays readable.
"""

import asyncio
import contextlib
import contextvars
import heapq
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from callboard.actors.protocol.addresses import CLIENT, PORTS, SUPERVISOR
from callboard.actors.protocol.errors import Diverged, SessionFailed
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.messages import AnyMessage, Finished, Stop
from callboard.actors.protocol.usage import Usage
from callboard.actors.session.core import Mailbox, PostGroup, SessionCore
from callboard.actors.session.port_actions import Arm, Start
from callboard.actors.session.port_gate import PortGate
from callboard.actors.session.recovery import Recovered
from callboard.runtime.clock import now_ms
from callboard.runtime.failure_text import failure_text
from callboard.runtime.log.protocol import EMPTY, Head
from callboard.runtime.log.writer import GroupWriter
from callboard.runtime.scheduling.run_queue import run_queue_of
from callboard.runtime.secrets.registry import NO_SECRETS, Secrets
from callboard.runtime.sessions.decider_actor import DeciderActor, admitted_groups
from callboard.runtime.sessions.ended_asks import DELEGATION_KINDS, Delegations
from callboard.runtime.sessions.port_protocol import Port, TimerPort
from callboard.runtime.sessions.secret_inputs import SecretInputs
from callboard.runtime.sessions.session_deps import SessionDeps

PATIENCE_S: Final = 10.0  # seconds that cancelled work may take to end, before a session leaves it behind


class Board:
    """The board of one session, on one event loop. actors: those that are not at rest, by address."""

    def __init__(self, session_id: str, epoch: int, writer: GroupWriter, is_strict: bool = False) -> None:
        self.session_id = session_id
        self.error: BaseException | None = None
        self.is_still = False
        self.is_cut_off = False
        self.is_held = False  # no request starts, while its ask waits for its end
        self.actors: dict[str, DeciderActor] = {}
        self.ports: dict[str, Port] = {}
        self.clock = TimerPort()
        self.on_client: Callable[[Event, Head], None] = lambda event, head: None
        self.on_failure: Callable[[BaseException], None] = lambda error: None
        self.on_place_free: Callable[[str, Usage | None], None] = lambda agent, usage: None
        self.on_cut_off: Callable[[], None] = lambda: None
        self.on_published: Callable[[], None] | None = None
        self.on_posted: Callable[[Sequence[Event]], None] | None = None
        self.time: Callable[[], int] = now_ms  # a playback has a clock of its own
        self.admits: Callable[[Start], Start | None] | None = None
        self.keeps: Callable[[Event], bool] = lambda request: False
        self.on_diverged: Callable[[str, str], bool] = lambda agent, why: False
        self.writing: Callable[[], set[asyncio.Task[object]]] = set
        self.waits: Diverged | None = None  # for its code
        self.on_agent_end: list[Callable[[str], None]] = []
        self.watchers: list[Callable[[Event], object]] = []
        self.observers: list[Callable[[Event], object]] = []  # not readers: a session may sleep beside them
        self.delegations = Delegations()  # a resumed session puts its own here
        self.takers: dict[type, Callable[[Event], None]] = dict.fromkeys(DELEGATION_KINDS, self._delegate)
        self.takers |= {Stop: self._ended, Finished: self._ended}
        self.secrets: Secrets = NO_SECRETS
        self.deps = SessionDeps(None)
        self.inputs = SecretInputs()
        self.epoch = epoch
        self._writer = writer
        self.stage: Callable[..., None] = partial(writer.stage, session_id, epoch)
        self._run_queue = run_queue_of(asyncio.get_running_loop())
        self._deliver_later = self._deliver  # one object for all calls
        # Ports call models and tools, which see the context variables of the session's start.
        self._publish_in_context = partial(contextvars.copy_context().run, self._publish)
        self._at_end = self._run_queue.at_end
        self._submitted: list[PostGroup] = []
        self._is_foreign = False
        self._unpublished: list[Event] = []
        self._at = 0
        self._gated: list[tuple[int, int, Callable[[], None]]] = []
        self._waiting = 0
        self._durable_seq = 0
        self._outbox: deque[Event] = deque()
        self._unseen: deque[Event] = deque()
        self.core = SessionCore(self._spawn, PortGate(is_strict))
        self.core.mailboxes[CLIENT] = self._outbox.append
        writer.on_durable(session_id, self._on_durable, self.fail)

    @property
    def seq(self) -> int:
        """Return the seq of the last event."""
        return self.core.seq

    @property
    def gate(self) -> PortGate:
        """Return the session's port gate."""
        return self.core.gate

    @property
    def now_ms(self) -> int:
        """Return the time by the session's clock, in milliseconds since 1970 UTC. It never goes back."""
        return max(self.time(), self._at)

    # --- posting ------------------------------------------------------------------

    def submit(self, sender: str, cause: int, posts: Sequence[Post]) -> None:
        """Submit the posts of one decision or port answer, to be posted in the order of submission."""
        if self.error is None and not self.is_cut_off:
            if not self._submitted:
                self._at_end(self._deliver_later)
            self._submitted.append((sender, cause, posts))
            self._is_foreign |= sender in PORTS

    def submit_for_client(self, body: AnyMessage) -> None:
        """Publish a message from the client to the supervisor, at once."""
        self.submit(CLIENT, 0, (Post(SUPERVISOR, body),))
        self.flush()

    def post(self, sender: str, cause: int, posts: Sequence[Post]) -> None:
        """Post in a port's name while the gate's actions are performed. `_publish` publishes it next."""
        self._unpublished += self.core.post(self._at, ((sender, cause, posts),))

    def flush(self) -> None:
        """Post and publish everything submitted so far."""
        self._deliver()
        self._publish()

    def _deliver(self) -> None:
        """Post the submitted posts: make events of them and put those into mailboxes."""
        submitted = self._submitted
        if not submitted or self.error is not None:
            return
        self._submitted = []
        try:
            if not self._unpublished:
                # One time for all events of a pass, which takes a few milliseconds at most.
                self._at = max(self.time(), self._at)
                self._run_queue.after_pass(self._publish_in_context)
            if self._is_foreign:
                self._is_foreign = False
                submitted = admitted_groups(self.secrets, submitted)
            self._unpublished += self.core.post(self._at, submitted)
        except BaseException as error:
            self._fail_stop(error)

    def _publish(self) -> None:
        """Hand the new events to the writer, then perform the gate's actions."""
        core = self.core
        try:
            while (events := self._unpublished) and self.error is None:
                self._unpublished = []
                self._note(events)
                self.stage(events)
                core.perform(core.gate.on_events(events), self)
        except BaseException as error:
            self._fail_stop(error)
        if self.on_published is not None:
            self.on_published()

    def _fail_stop(self, error: BaseException) -> None:
        """Fail the session in this process. Raise an error again that is not an Exception."""
        self.fail(error)
        if not isinstance(error, Exception):
            raise error

    def _delegate(self, event: Event) -> None:
        self.delegations.add(event)

    def _ended(self, event: Event) -> None:
        who = event.recipient if isinstance(event.body, Stop) else event.sender
        for tell in self.on_agent_end:
            tell(who)

    def _note(self, events: Sequence[Event]) -> None:
        """Let the parts that follow the session see its new events, before they are staged."""
        taker_of = self.takers.get
        for event in events:
            if (taker := taker_of(type(event.body))) is not None:
                taker(event)
        if self.on_posted is not None:
            self.on_posted(events)
        if self.watchers or self.observers:
            self._unseen.extend(events)

    def restore(self, recovered: Recovered, stored: Head | None = None) -> None:
        """Continue a recovered session: take its states, and start the requests that are open.

        stored: the head of the log if it has the events that recovery adds; without it they are written.
        """
        self.core = core = recovered.core
        self._stop_actors()
        core.move_to(self._spawn, self._outbox.append)
        self._outbox.extend(event for event in recovered.posted if event.recipient == CLIENT)
        self._at = recovered.posted[-1].at
        try:
            self._note(recovered.posted)
            if stored is None:
                self.stage(recovered.posted)
            core.perform((*recovered.timers, *recovered.starts), self)
        except BaseException as error:
            self._fail_stop(error)
        self._publish()
        if stored is not None:  # no commit of the writer tells of these events
            asyncio.get_running_loop().call_soon(self._on_durable, stored)

    def answer(self, request: Event, post: Post) -> None:
        """Post a port's answer to a request, unless it has one."""
        answer = self.core.gate.take_answer(request.seq, post)
        if answer is not None:
            self.submit(request.recipient, request.seq, (answer,))

    def _spawn(self, address: str) -> Mailbox:
        actor = self.actors[address] = DeciderActor.spawn(self, address)
        return actor.actor_inbox.put_here

    def dismiss(self, address: str) -> None:
        """Stop the actor of a sub-agent at rest: it posts nothing any more."""
        actor = self.actors.pop(address, None)
        if actor is not None:
            actor.stop()

    # --- ports --------------------------------------------------------------------

    def start(self, start: Start) -> None:
        """Let a port act on a request, unless `admits` takes care of it, or nothing may start."""
        if not self.is_held and (admitted := self.admits(start) if self.admits else start) is not None:
            self._begin(admitted)

    def start_admitted(self, start: Start) -> None:
        """Let a port act on a request that `admits` has kept back, while nothing else is performed."""
        self.flush()
        if self.error is None and self.core.gate.may_start(start.request):
            self._at = self.now_ms
            self._begin(start)
            self._publish()

    def _begin(self, start: Start) -> None:
        """Let a port act on a request, once the log is as durable as the request needs."""
        request = start.request
        if start.waits:
            self.when_durable(self.core.announce(start, self), lambda: self._start(request))
        else:
            self._start_now(request)

    def _start(self, request: Event) -> None:
        """Start a request that has waited, unless it got an answer or a stop meanwhile."""
        if self.core.gate.may_start(request):
            self._start_now(request)

    def _start_now(self, request: Event) -> None:
        if self.error is not None or not self._writer.may_start():
            return  # without the right to run it, the session is left soon: the next owner starts the request
        if self._writer.is_full:
            self._writer.when_room(lambda: self._start(request))
        else:
            self.ports[request.recipient].start(request)

    def abort(self, request: Event) -> None:
        """Make a port give up a request. Answer a request that never started as cancelled."""
        if not self.ports[request.recipient].abort(request):
            self.answer(request, self.gate.cancelled(request))

    def arm(self, arm: Arm) -> None:
        """Set a timer."""
        self.clock.arm(arm.timer, arm.request, arm.at, arm.after_ms)

    def disarm(self, timer: int) -> None:
        """Forget a timer."""
        self.clock.disarm(timer)

    def give_back(self, agent: str, usage: Usage | None) -> None:
        """Give back an agent's place among the model calls of all sessions."""
        self.on_place_free(agent, usage)

    @property
    def is_gated(self) -> bool:
        """Return True while a request waits for the disk."""
        return bool(self._gated)

    def when_durable(self, seq: int, then: Callable[[], None]) -> None:
        """Call `then` once the log is durable up to `seq`; at once if it is."""
        if seq <= self._durable_seq:  # no commit may come that tells of it
            then()
            return
        self._waiting += 1
        heapq.heappush(self._gated, (seq, self._waiting, then))

    def _on_durable(self, head: Head) -> None:
        self._durable_seq = head.seq
        for event in _taken(self._unseen, head.seq):
            for watcher in (*self.observers, *self.watchers):
                watcher(event)
        for event in _taken(self._outbox, head.seq):
            self.on_client(event, head)
        while self._gated and self._gated[0][0] <= head.seq:
            heapq.heappop(self._gated)[2]()
        if self.on_published is not None:
            self.on_published()

    # --- detaching ------------------------------------------------------------------

    def stand_still(self) -> None:
        """Let no actor decide and no port start from now on. Decisions made so far stand."""
        if self.is_still or self.error is not None:
            return
        self.is_still = True
        self.core.stand_still()
        self.flush()
        self.clock.close()
        self._stop_actors()

    def cut_off(self) -> None:
        """Detach at once: answer the model calls that are left, and post nothing more."""
        self.stand_still()
        if self.is_cut_off or self.error is not None:
            return
        for port in self.ports.values():
            port.detach()
        for request, answer in self.core.detached_answers():
            if not self.keeps(request):
                self.answer(request, answer)
        self.flush()
        self.is_cut_off = True

    def end_with_loop(self) -> None:
        """Detach at once, since the loop's end has cancelled the work of a port."""
        if not self.is_cut_off:
            self._writer.hurry()
            self.cut_off()
            self.on_cut_off()

    def running(self) -> "set[asyncio.Task[object]]":
        """Return the tasks of ports that may still answer."""
        return {task for port in self.ports.values() for task in port.running}

    # --- failure and end ----------------------------------------------------------

    def fail(self, error: BaseException) -> None:
        """Fail the session in this process: start nothing more, and give every waiter a SessionFailed."""
        if self.error is None:
            why = failure_text(error)
            failure = SessionFailed(
                f"session {self.session_id} can go no further in this process ({why}); "
                f"the events in the log are kept: continue with `callboard resume {self.session_id}` or "
                "`Runtime.resume`"
            )
            failure.__cause__ = error
            self.error = failure
            self.clock.close()
            self.on_failure(failure)

    async def durable(self) -> Head:
        """Wait until everything submitted so far is durable, and return the head; at once if it failed."""
        self.flush()
        if self.error is None and self.seq:
            return await self._writer.wait(self.session_id, self.seq)
        return EMPTY

    async def aclose(self, patience_s: float = PATIENCE_S) -> None:
        """Stop the actors, ports and timers of this session, dead actors or not.

        patience_s: seconds that cancelled work may take to end. It is left behind then.
        """
        try:
            self.clock.close()
            closing = asyncio.gather(*(port.aclose() for port in self.ports.values()))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(closing, patience_s)
            self.flush()
        finally:
            self._stop_actors()
            self._writer.forget(self.session_id, self.epoch)

    def _stop_actors(self) -> None:
        for actor in self.actors.values():
            if not actor.actor_stopped.is_set():
                actor.stop()
        self.actors.clear()


def _taken(events: deque[Event], seq: int) -> Iterator[Event]:
    """Take the events up to a seq off a queue, one by one."""
    while events and events[0].seq <= seq:
        yield events.popleft()
