"""A session as a world: the explorer chooses which of its moves happens next, and a schedule replays it.

    inbox host.1             host.1 handles the head of its inbox
    model host.1/3           the model answers the third turn of host.1
    tool host.1/3.0          a tool returns: the first call of that turn
    schema host.1            the schema port answers, about the delegation that host.1 works on first
    timer deadline host.1    a timer fires
    client                   the client sends the next message of its list, or closes
    client tells t1          the client posts its words t1 for an agent
    client reopens           the client opens a closed session again, in a new process
    process ends             the process has detached the session, after a fault `detach`
    resume                   a new process continues the session, after a crash or a polite end
    fault timeout model host.1/3, ...   see `faults`

The world starts where the session is open and the first ask is posted. Every log it leaves verifies.

    world = SessionWorld(Scenario([profile("host")], lambda request: Reply("done"), asks=[ask()]))
    world.run().ended.text
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from random import Random
from typing import Final, NamedTuple, Self, TypeVar

from callboard.actors.protocol.addresses import CLIENT, HOST, PORTS, SUPERVISOR
from callboard.actors.protocol.client_messages import AskEnded, Cancel, Close
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Message
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Begin, Stop
from callboard.actors.session.port_table import PORT_REQUESTS, owner_of
from callboard.actors.supervisor.state import Record
from callboard.replay.testing.sessions.captions import caption
from callboard.replay.testing.sessions.digest import digest_of, rest_digest_of
from callboard.replay.testing.sessions.injection import (
    ENDS,
    end,
    fault_mixes,
    inject,
    injectable,
    losses,
    reopen,
    resume,
)
from callboard.replay.testing.sessions.memory import Memory
from callboard.replay.testing.sessions.scenario import NO_LIMITS, Scenario, ask
from callboard.replay.testing.sessions.scripted_session import (
    REOPENS,
    SETS_TOOLS,
    TELLS,
    ScriptedSession,
)
from callboard.replay.testing.world import Move, Step, run_to_rest

M = TypeVar("M", bound=Message)

GIVES_UP: Final = "client gives up"
"""The client's reaction to an ask that cannot go on because a person does not answer."""

STEPS_MAX: Final = 100_000
"""More steps than this are a session that does not come to rest."""


class _Made(NamedTuple):
    """A move that was made: the event that it handled or answered, and the end of the log before it."""

    move: Move
    event: Event | None
    log: list[Event]
    start: int
    posters: list[int]


class SessionWorld(ScriptedSession):
    """A session whose order is chosen by the caller. made: the moves so far."""

    def __init__(self, scenario: Scenario, memory: Memory | None = None) -> None:
        super().__init__(scenario, memory)
        self.made: list[_Made] = []
        self.is_faulty = bool(scenario.faults.kinds)

    # --- the world ------------------------------------------------------------------

    def moves(self) -> Sequence[Move]:
        """Return the moves that can happen next."""
        offers = list(self.offers.values())
        if self.is_faulty and self.failure is None:
            offers += self._faults()
        return offers

    def _faults(self) -> Collection[Move]:
        """Return the faults on offer."""
        about = self.scenario.faults
        if self.down is not None:
            return losses(self)
        if not self.made and about.fault_mixes:
            return fault_mixes(self)
        if len(self.injected) >= about.most:
            return ()
        if self.fault_mix is None:
            return injectable(self).values()
        fault = self.fault_mix.offers(len(self.made), lambda: injectable(self))
        return () if fault is None else (fault,)

    def make(self, move: Move) -> None:
        """Let one of the moves happen."""
        kind = move.kind
        self.step += 1
        self.made.append(_Made(move, self._event_of(move), self.log, len(self.log), self.posters))
        match kind:
            case "deliver":
                self.deliver(move.actor)
            case "port":
                self.reply(move.strand)
            case "client":
                self._go_on(move.strand)
            case "fault":
                inject(self, move.strand)
        self.look_ahead()

    def skip(self, move: Move) -> None:
        """Lose the message of a delivery."""
        self.step += 1
        self.made.append(_Made(move, self._event_of(move), self.log, len(self.log), self.posters))
        inbox = self.inboxes[move.actor]
        inbox.popleft()
        del self.offers[move.strand]
        if inbox:
            self.offers[move.strand] = self.names.delivery(inbox[0])
        self.look_ahead()

    def look_ahead(self) -> None:
        """Advance the clock when no move is left; let the client give up when that does not help."""
        if self.offers or self.failure is not None or self.down is not None:
            return
        self.wake()
        self.may_give_up()

    def may_give_up(self) -> None:
        """Let the client give up where only an answer that never comes could end the ask."""
        if not self.offers and self.running and self.is_ignored():
            self.offer(GIVES_UP, CLIENT, "client", "the client gives up")

    def _event_of(self, move: Move) -> Event | None:
        """Return the message to be handled, or the request that a port answers, also for a fault there."""
        if move.kind == "deliver":
            return self.inboxes[move.actor][0]
        where = (*move.strand.split(" ", 2), "")[2] if move.kind == "fault" else move.strand
        inbox, request = self.inboxes.get(where), self.requests.get(where)
        return inbox[0] if inbox else request and request.event

    def _go_on(self, strand: str) -> None:
        if strand == CLIENT:
            self.speak()
        elif strand.startswith(TELLS):
            self.tell_agent(strand)
        elif strand == SETS_TOOLS:
            self.set_tools()
        elif strand == GIVES_UP:
            del self.offers[GIVES_UP]
            self.say(Cancel("nobody answers"))
        elif strand == ENDS:
            end(self)
        elif strand == REOPENS:
            reopen(self)
        else:
            resume(self)

    def heal(self) -> None:
        """Stop offering faults."""
        self.is_faulty = False

    def conditions(self) -> str:
        """Return the fault mix as text: the enabled kinds of faults, and how often each occurs."""
        return "" if self.fault_mix is None else str(self.fault_mix)

    def coverage(self) -> Collection[tuple[str, str, str]]:
        """Return (supervisor, host or sub-agent; its phase; kind of message) for every handled message."""
        return {(_role(address), phase, kind.__name__) for address, phase, kind in self.situations}

    def digest(self) -> bytes:
        """Return a digest of all states and pending moves, without numbers that depend on the whole order."""
        return rest_digest_of(self) if not self.offers else digest_of(self)

    def trace(self) -> Sequence[Step]:
        """Return one step for each move made."""
        return [_step(index, made, end) for index, (made, end) in enumerate(self._made_until(), 1)]

    def captions(self) -> Sequence[str]:
        """Return for each move made the tool or agent that it is about."""
        return [
            caption(made.move, made.event, made.log, made.log[made.start : end])
            for made, end in self._made_until()
        ]

    def _made_until(self) -> Iterator[tuple[_Made, int]]:
        """Return the moves made, each with the end of its log after it."""
        nexts = [(one.log, one.start) for one in self.made[1:]]
        ends = [*nexts, (self.log, len(self.log))][: len(self.made)]
        for made, (log, length) in zip(self.made, ends, strict=True):
            yield made, length if log is made.log else len(made.log)

    def touched(self) -> Collection[str]:
        """Return the things that the order of the last move decides apart from its actor's state."""
        last = self.made[-1]
        end = len(self.log) if last.log is self.log else len(last.log)
        return _step(len(self.made), last, end).touched

    # --- by hand --------------------------------------------------------------------

    def ask(
        self, prompt: str = "go", schema: object = None, limits: Limits = NO_LIMITS, request_id: str = "r1"
    ) -> Self:
        """Ask the host."""
        self.say(ask(prompt, schema, limits, request_id))
        return self

    def cancel(self, reason: str = "enough") -> Self:
        """Cancel the running ask."""
        self.say(Cancel(reason))
        return self

    def close(self) -> Self:
        """End the session."""
        self.say(Close())
        return self

    def run(self, choose: Callable[[int], int] = lambda n: 0, steps: int = STEPS_MAX) -> Self:
        """Go on until nothing moves, or raise AssertionError. choose: one of n moves, or else the oldest."""
        self.look_ahead()  # after a resume by hand, a timer may be all that is left
        run_to_rest(self, choose, steps)
        return self

    # --- looking --------------------------------------------------------------------

    def of(self, kind: type[M]) -> list[M]:
        """Return the messages of a kind, in the order of the log."""
        return [event.body for event in self.log if isinstance(event.body, kind)]

    def events(self, kind: type) -> list[Event]:
        """Return the events with messages of a kind, in the order of the log."""
        return [event for event in self.log if isinstance(event.body, kind)]

    @property
    def host(self) -> Record:
        """Return the supervisor's record of the host. Raises LookupError before it began."""
        host = self.supervisor.host
        if host is None:
            raise LookupError("the host has not begun")
        return host

    @property
    def ended(self) -> AskEnded:
        """Return the outcome of the only ask. Raises LookupError unless exactly one ask has ended."""
        ended = self.of(AskEnded)
        if len(ended) != 1:
            raise LookupError(f"{len(ended)} asks have ended")
        return ended[0]

    @property
    def is_at_rest(self) -> bool:
        """Return whether no move but faults is left."""
        return not self.offers


class Worlds:
    """Makes the worlds of a campaign: one scenario, and what its runs have in common."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self._memory = Memory()

    def __call__(self) -> SessionWorld:
        """Make a world at its start."""
        return SessionWorld(self.scenario, self._memory)


def in_random_order(seed: object) -> Callable[[int], int]:
    """Return a function that picks one of n moves at random, for `SessionWorld.run`."""
    return Random(f"{seed}").randrange


def _step(index: int, made: _Made, end: int) -> Step:
    move, event, posted = made.move, made.event, made.log[made.start : end]
    sender, recipient, cause = move.actor, move.actor, 0
    if event is not None:
        sender, recipient, cause = event.sender, event.recipient, made.posters[event.seq - 1]
    touched = {f"inbox {one.recipient}" for one in posted if one.recipient not in PORTS}
    touched |= {f"ports {one.recipient}" for one in posted if isinstance(one.body, Stop | Begin)}
    touched |= {f"ports {owner_of(one)}" for one in posted if type(one.body) in PORT_REQUESTS}
    things = tuple(sorted(touched))
    return Step(index, move.strand, move.kind, sender, recipient, move.label, cause, things, move.actor)


def _role(address: str) -> str:
    return address if address in (SUPERVISOR, HOST) else "sub-agent"
