"""The board of one session: the one place where events get their numbers.

Rules
  - One way to post. What actors decide and ports answer during a pass of the loop's rota is published
    together at its end: it takes the next seqs, in the order in which it was said, goes to the writer, then
    into the inboxes of its recipients, and only then is done what the gate says. All posts of one decision
    stand together in the log and in every inbox. That is a log that actors would leave who decide one after
    the other, a little later; but a request that is posted together with a later stop of its agent does not
    start, and is answered as cancelled.
  - Delivery, model calls and `read` tools do not wait for the disk. Everything else does: a request that
    waits is kept in `_gated` until the log is durable up to and including it; what goes to the client is
    kept in `_outbox` until then.
  - When a commit fails, or an actor dies, the memory of this session is dead: nothing starts any more and
    everyone who waits gets a typed error. What is in the log stays readable.
"""

import asyncio
import contextvars
import heapq
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Protocol, TypeAlias

from callboard.actors.protocol.addresses import CLIENT, HOST, PORTS, SUPERVISOR
from callboard.actors.protocol.errors import SessionFailed
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.messages import AnyMessage, Begin
from callboard.actors.session.port_gate import Abort, Action, Arm, Disarm, PortGate, Refuse, Start, cancelled
from callboard.actors.session.recovery import Recovered
from callboard.actors.session.step import ActorState, failed, initial, is_at_rest, step, steps
from callboard.runtime.clock import now_ms
from callboard.runtime.log.protocol import Head
from callboard.runtime.log.writer import GroupWriter
from callboard.runtime.scheduling.loop_actor import LoopActor
from callboard.runtime.scheduling.run_queue import run_queue_of
from callboard.runtime.secrets.registry import NO_SECRETS, Secrets

Said: TypeAlias = tuple[str, int, Sequence[Post]]
"""Posts that stand together: who says them, because of which event, and what."""

logger = logging.getLogger("callboard.board")


class Port(Protocol):
    """An edge to the world: acts on requests and answers each once, through `Board.answer`."""

    def start(self, request: Event) -> None:
        """Act on a request; everything that it has to wait for has happened."""
        ...

    def abort(self, request: Event) -> bool:
        """Give up what is under way; the answer still comes. False: this request never started."""
        ...

    async def aclose(self) -> None:
        """Give up everything, without answers."""
        ...


class TimerPort(Protocol):
    """The clock."""

    def arm(self, timer: int, request: int, at: int, after_ms: int) -> None:
        """Fire a timer `after_ms` after `at`."""
        ...

    def disarm(self, timer: int) -> None:
        """Forget a timer."""
        ...

    def close(self) -> None:
        """Forget all timers."""
        ...


class DeciderActor(LoopActor):
    """The shell around a decider: receive, decide, post. Nothing else."""

    use_registry = False

    def __init__(self, board: "Board", address: str) -> None:
        super().__init__(urn=address)
        self.board = board
        self.address = address
        self.state: ActorState = initial(address)
        self.is_below_host = address not in (SUPERVISOR, HOST)

    def on_receive(self, message: Event) -> None:
        """Handle one event. A decider that raises is not asked again: the failure stands in its place."""
        try:
            state, posts = step(self.state, message)
        except Exception as error:
            self.board.report(self.address, message, error)
            if self.address == SUPERVISOR:
                self.board.publish()  # what was decided before this event stands
                self.board.fail(error)
                return
            state, posts = failed(self.state, message, type(error).__name__)
        self.state = state
        if posts:  # an agent says so when it comes to rest
            self.board.post(self.address, message.seq, posts)
            if self.is_below_host and is_at_rest(state):
                self.board.dismiss(self.address)

    def on_receive_together(self, messages: list[Event]) -> None:
        """Handle events that follow each other; one by one if the decider raises, up to the one at fault."""
        try:
            decided = steps(self.state, messages)
        except Exception:
            decided = None
        if decided is None:
            for message in messages:
                self.on_receive(message)
            return
        self.state, decisions = decided
        for message, posts in zip(messages, decisions, strict=True):
            if posts:
                self.board.post(self.address, message.seq, posts)
        if self.is_below_host and is_at_rest(self.state):
            self.board.dismiss(self.address)

    def on_crash(self, error: BaseException) -> None:
        """The actor has ended without having been asked to: its state can no longer be trusted."""
        self.board.fail(error)


class Board:
    """Posts, delivers, gates. Lives on one event loop; not safe to use from another thread."""

    def __init__(self, session_id: str, epoch: int, writer: GroupWriter, is_strict: bool = False) -> None:
        self.session_id = session_id
        self.seq = 0
        self.error: BaseException | None = None
        self.actors: dict[str, DeciderActor] = {}
        self.ports: dict[str, Port] = {}
        self.clock: TimerPort | None = None
        self.on_client: Callable[[Event, Head], None] = lambda event, head: None
        self.on_failure: Callable[[BaseException], None] = lambda error: None
        self.watchers: list[Callable[[Event], None]] = []
        self.gate = PortGate(is_strict)
        self.secrets: Secrets = NO_SECRETS
        self._epoch = epoch
        self._writer = writer
        self._run_queue = run_queue_of(asyncio.get_running_loop())
        self._context = contextvars.copy_context()
        self._said: list[Said] = []
        self._answered: set[int] = set()
        self._at = 0
        self._gated: list[tuple[int, int, Callable[[], None]]] = []
        self._waiting = 0
        self._outbox: deque[Event] = deque()
        self._unseen: deque[Event] = deque()
        writer.on_durable(session_id, self._on_durable, self.fail)
        self._spawn(SUPERVISOR)

    # --- posting ------------------------------------------------------------------

    def post(self, sender: str, cause: int, posts: Sequence[Post]) -> None:
        """Have the posts of one decision or port published, behind all that was said before."""
        if self.error is None:
            said = self._said
            if not said:
                self._run_queue.at_end(partial(self._context.run, self.publish))
            said.append((sender, cause, posts))

    def say(self, body: AnyMessage) -> None:
        """Publish at once what the client says to the supervisor."""
        self.post(CLIENT, 0, (Post(SUPERVISOR, body),))
        self.publish()

    def publish(self) -> None:
        """Publish all that was said by now."""
        said, self._said = self._said, []
        self._answered.clear()
        if said and self.error is None:
            self._publish(said)

    def _publish(self, said: Sequence[Said]) -> None:
        """Number the posts, log them, deliver them, and do what follows."""
        self._at = at = max(now_ms(), self._at)
        seq = self.seq
        events: list[Event] = []
        try:
            foreign = [post for sender, _, posts in said if sender in PORTS for post in posts]
            admitted = iter(self.secrets.admit(foreign) if foreign else ())
            for sender, cause, posts in said:
                for post in islice(admitted, len(posts)) if sender in PORTS else posts:
                    seq += 1
                    events.append(Event(seq, at, sender, post.recipient, cause, post.body))
            self._log(events)
            self._deliver(events)
            for action in self.gate.on_events(events):
                if type(action) is Start and not action.waits:
                    self._start(action.request)
                else:
                    self._act(action)
        except BaseException as error:
            self.fail(error)
            if not isinstance(error, Exception):
                raise

    def _deliver(self, events: Sequence[Event]) -> None:
        actors = self.actors
        for event in events:
            recipient = event.recipient
            actor = actors.get(recipient)
            if actor is not None:
                actor.actor_inbox.put(event)
            elif recipient == CLIENT:
                self._outbox.append(event)
            elif type(event.body) is Begin:
                self._spawn(recipient).deliver(event)
            # Ports hear from the gate, and nobody else is told anything.

    def _log(self, events: Sequence[Event]) -> None:
        """Hand events to the writer; whatever that raises, the session is dead."""
        self._writer.stage(self.session_id, self._epoch, events)
        self.seq = events[-1].seq
        if self.watchers:
            self._unseen.extend(events)

    def restore(self, head: int, recovered: Recovered) -> None:
        """Go on where a log ended at this seq: with the states there, and what was left undone by then."""
        self.seq, self.gate = head, recovered.gate
        for address, state in recovered.states.items():
            if address in (SUPERVISOR, HOST) or not is_at_rest(state):
                actor = self.actors.get(address) or self._spawn(address)
                actor.state = state
        try:
            self._log(recovered.posted)
        except Exception as error:
            self.fail(error)
            return
        self._at = recovered.posted[-1].at
        self._outbox.extend(event for event in recovered.posted if event.recipient == CLIENT)
        for timer in recovered.timers:
            self._act(timer)
        for start in recovered.starts:
            self._act(start)

    def answer(self, request: Event, post: Post) -> None:
        """Post a port's answer to a request, unless it has one."""
        gate, seq = self.gate, request.seq
        if gate.may_answer(seq) and seq not in self._answered:
            self._answered.add(seq)
            self.post(request.recipient, seq, (gate.without_false_claim(request, post),))

    def _spawn(self, address: str) -> DeciderActor:
        actor = DeciderActor.spawn(self, address)
        self.actors[address] = actor
        return actor

    def dismiss(self, address: str) -> None:
        """A sub-agent has drained: it posts nothing any more, so it need not be kept."""
        actor = self.actors.pop(address, None)
        if actor is not None:
            actor.stop()

    # --- ports --------------------------------------------------------------------

    def _act(self, action: Action) -> None:
        match action:
            case Start():
                self._admit(action)
            case Refuse(request, sender, answer):
                self.post(sender, request.seq, (answer,))
            case Abort(request):
                self._abort(request)
            case Arm(timer, at, after_ms, request_seq):
                if self.clock is not None:
                    self.clock.arm(timer, request_seq, at, after_ms)
            case Disarm(timer):
                if self.clock is not None:
                    self.clock.disarm(timer)

    def _admit(self, start: Start) -> None:
        request = start.request
        if not self.gate.may_start(request):
            return
        if start.announcement is not None:
            self._publish(((request.recipient, request.seq, (start.announcement,)),))
        if start.waits:
            self.when_durable(self.seq, lambda: self._start(request))
        else:
            self._start(request)

    def _start(self, request: Event) -> None:
        if not self.gate.may_start(request) or self.error is not None:
            return
        if self._writer.is_full:
            self._writer.when_room(lambda: self._start(request))
        else:
            self.ports[request.recipient].start(request)

    def _abort(self, request: Event) -> None:
        if not self.ports[request.recipient].abort(request):
            self.answer(request, cancelled(request))

    def when_durable(self, seq: int, then: Callable[[], None]) -> None:
        """Do something once the log is durable up to this seq."""
        self._waiting += 1
        heapq.heappush(self._gated, (seq, self._waiting, then))

    def _on_durable(self, head: Head) -> None:
        while self._unseen and self._unseen[0].seq <= head.seq:
            event = self._unseen.popleft()
            for watcher in tuple(self.watchers):
                watcher(event)
        while self._outbox and self._outbox[0].seq <= head.seq:
            self.on_client(self._outbox.popleft(), head)
        while self._gated and self._gated[0][0] <= head.seq:
            heapq.heappop(self._gated)[2]()

    # --- failure and end ----------------------------------------------------------

    def report(self, address: str, event: Event, error: Exception) -> None:
        """Tell the programmer's log that a decider raised."""
        logger.error("session %s: %s failed on event %d", self.session_id, address, event.seq, exc_info=error)

    def fail(self, error: BaseException) -> None:
        """Nothing more happens here. Everyone who waits gets a SessionFailed that says why."""
        if self.error is None:
            why = f"{type(error).__name__}: {error}"
            failure = SessionFailed(
                f"session {self.session_id} can go no further in this process ({why}); "
                f"what is in the log stays: go on with `callboard resume {self.session_id}` or "
                "`Runtime.resume`"
            )
            failure.__cause__ = error
            self.error = failure
            if self.clock is not None:
                self.clock.close()
            self.on_failure(failure)

    async def durable(self) -> None:
        """Wait until all that was said by now is durable; at once in a session that failed."""
        self.publish()
        if self.error is None and self.seq:
            await self._writer.wait(self.session_id, self.seq)

    async def aclose(self) -> None:
        """Stop the actors, ports and timers of this session. A dead actor is no obstacle."""
        try:
            if self.clock is not None:
                self.clock.close()
            await asyncio.gather(*(port.aclose() for port in self.ports.values()))
            self.publish()
        finally:
            for actor in list(self.actors.values()):
                if not actor.actor_stopped.is_set():
                    actor.stop()
            self.actors.clear()
            self._writer.forget(self.session_id)
