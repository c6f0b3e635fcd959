"""Any protocol as a world: named actors with pure step functions, and first-in-first-out inboxes.

    def step(state, sender, message):            # pure: the next state, and the posts with recipients
        return state + 1, [("bob", "hello")]

    program = Program({"alice": Actor(0, step), ...}, starts=[Send("client", "alice", "go")])
    explore(program.world, [always("...", lambda world: world.states["alice"] < 3)])

States and messages are frozen values. A message is a struct, a text, or a plain tuple with its name first:
("put", 3). The messages that an actor sends itself are each a strand of their own ("bob wakes Timeout").
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.testing.canonical import _name, canonical, describe, key, tag
from callboard.replay.testing.world import Move, MoveKind, Step

S = TypeVar("S")
M = TypeVar("M")

Posts: TypeAlias = Sequence[tuple[str, object]]
"""(recipient, message), in the order of posting."""

NO_POSTS: Final[Posts] = ()


class Actor(NamedTuple, Generic[S, M]):
    """initial: its state. step(state, sender, message): the next state and the posts. role: for coverage.

    wakes(state): the messages that it may send itself in that state: timeouts, retries, decisions of its own.
    faults(state): those that need not come.
    """

    initial: S
    step: Callable[[S, str, M], tuple[S, Posts]]
    wakes: Callable[[S], Iterable[M]] | None = None
    faults: Callable[[S], Iterable[M]] | None = None
    role: str = ""


class Send(NamedTuple):
    """A message that is in transit when a run starts."""

    sender: str
    recipient: str
    message: object


class Program:
    """Actors, the messages in transit at the start, and the order of delivery. It never changes.

    inbox: "channel": messages from one sender to one recipient stay in order, all others race; a channel is a
    strand ("alice>bob"). "actor": a recipient has one inbox in the order of posting, as in a session, and
    that is the strand. clients: senders whose messages are a client's moves.
    """

    def __init__(
        self,
        actors: Mapping[str, Actor[Any, Any]],
        starts: Iterable[Send] = (),
        *,
        inbox: Literal["channel", "actor"] = "channel",
        clients: Collection[str] = (),
    ) -> None:
        self.actors = dict(actors)
        self.inbox = inbox
        self.clients = frozenset(clients)
        self.initial = {name: actor.initial for name, actor in self.actors.items()}
        self.steps = {name: actor.step for name, actor in self.actors.items()}
        self._wakes: dict[tuple[str, object], Move] = {}
        self.restless = frozenset(name for name, actor in self.actors.items() if actor.wakes or actor.faults)
        self.routes = {name: _Routes(self, name) for name in self.actors}
        self.starts = [
            ((self.routes.get(send.sender) or _Routes(self, send.sender))[send.recipient], send.message)
            for send in starts
        ]

    def world(self) -> "ProgramWorld":
        """Start a run."""
        return ProgramWorld(self)

    def wake(self, name: str, message: object, kind: MoveKind) -> Move:
        """Return the move with which an actor gets a message from itself."""
        found = self._wakes.get((name, message))
        if found is None:
            strand = f"{name} wakes {describe(message)}"
            found = self._wakes[name, message] = Move(strand, name, strand, kind)
        return found


class _Routes(dict[str, "_Heads"]):
    """Recipient -> the heads of what `sender` posts to it."""

    def __init__(self, program: Program, sender: str) -> None:
        super().__init__()
        self._program, self._sender = program, sender

    def __missing__(self, recipient: str) -> "_Heads":
        program, sender = self._program, self._sender
        if recipient not in program.actors:
            raise MisuseError(f"{sender} posts to {recipient!r}, there is {', '.join(program.actors)}")
        strand = f"{sender}>{recipient}" if program.inbox == "channel" else f"inbox {recipient}"
        kind: MoveKind = "client" if sender in program.clients else "deliver"
        found = self[recipient] = _Heads(strand, sender, recipient, kind)
        return found


class _Heads(dict[object, Move]):
    """A text or class of messages -> the move by which one is handled. Of one sender and one recipient."""

    __slots__ = ("kind", "recipient", "sender", "strand")

    def __init__(self, strand: str, sender: str, recipient: str, kind: MoveKind) -> None:
        super().__init__()
        self.strand, self.sender, self.recipient, self.kind = strand, sender, recipient, kind

    def __missing__(self, kind: object) -> Move:
        label = f"{self.recipient} handles {_name(kind)} from {self.sender}"
        found = self[kind] = Move(self.strand, self.recipient, label, self.kind)
        return found


class ProgramWorld:
    """A run of a program. states: of all actors, by name; look at them in rules, and change nothing."""

    # Lean, for speed: the poster of each message, which charts and reduction need, is computed on demand.

    def __init__(self, program: Program) -> None:
        self.program = program
        self.states: dict[str, Any] = program.initial.copy()
        self._queues: dict[str, list[tuple[_Heads, object]]] = {}
        self._wakes: dict[str, object] = {}
        self._stirred: dict[str, list[tuple[Move, object]]] = {}
        self._made: list[Move] = []
        self._posted = NO_POSTS
        self._offered: list[Move] = []
        self._places: dict[str, int] = {}
        for heads, message in program.starts:
            self._queues.setdefault(heads.strand, []).append((heads, message))
        for queue in self._queues.values():
            heads, message = queue[0]
            self._offer(heads[key(message)])
        for name in program.actors if program.restless else ():
            self._stir(name)

    def moves(self) -> Sequence[Move]:
        """Return the heads of all queues and the messages that actors may send themselves."""
        return self._offered

    def make(self, move: Move) -> None:
        """Let an actor handle the head of a queue, or a message to itself."""
        # The inner loop of a campaign: 40 steps a run and 10,000 runs a second leave two microseconds for it,
        # so posting is not a function of its own.
        self._made.append(move)
        strand, name = move.strand, move.actor
        queues, offered, places, program = self._queues, self._offered, self._places, self.program
        queue = queues.get(strand)
        if queue:
            heads, message = queue.pop(0)
            sender = heads.sender
            if queue:
                heads, later = queue[0]
                kind = later.__class__
                offered[places[strand]] = heads[kind if kind is not str and kind is not tuple else key(later)]
            else:  # the last move takes the place of the one that is gone
                index = places.pop(strand)
                last = offered.pop()
                if index < len(offered):
                    offered[index] = last
                    places[last.strand] = index
        else:
            sender, message = name, self._wakes[strand]
        states = self.states
        states[name], posts = program.steps[name](states[name], sender, message)
        self._posted = posts
        if posts:
            routes = program.routes[name]
            for recipient, post in posts:
                heads = routes[recipient]
                strand = heads.strand
                queue = queues.get(strand)
                if queue:
                    queue.append((heads, post))
                    continue
                queues[strand] = [(heads, post)]
                places[strand] = len(offered)
                kind = post.__class__
                offered.append(heads[kind if kind is not str and kind is not tuple else key(post)])
        if name in program.restless:
            self._stir(name)

    def skip(self, move: Move) -> None:
        """Lose the message of a delivery."""
        self._made.append(move)
        self._posted = NO_POSTS
        queue = self._queues[move.strand]
        queue.pop(0)
        if queue:
            heads, later = queue[0]
            self._offered[self._places[move.strand]] = heads[key(later)]
        else:
            self._withdraw(move.strand)

    def _offer(self, move: Move) -> None:
        self._places[move.strand] = len(self._offered)
        self._offered.append(move)

    def _withdraw(self, strand: str) -> None:
        """Remove a move; the last one takes its place."""
        index = self._places.pop(strand)
        last = self._offered.pop()
        if index < len(self._offered):
            self._offered[index] = last
            self._places[last.strand] = index

    def _stir(self, name: str) -> None:
        """Offer what the actor may send itself in the state that it is in now, if that has changed."""
        state, actor, wake = self.states[name], self.program.actors[name], self.program.wake
        wakes = actor.wakes(state) if actor.wakes else ()
        faults = actor.faults(state) if actor.faults else ()
        now = [(wake(name, message, "port"), message) for message in wakes]
        now += [(wake(name, message, "fault"), message) for message in faults]
        before = self._stirred.get(name, [])
        if before == now:
            return
        self._stirred[name] = now
        for move, _ in before:
            self._withdraw(move.strand)
        for move, message in now:
            self._wakes[move.strand] = message
            self._offer(move)

    def touched(self) -> Collection[str]:
        """Return the inboxes that the last move added to; nothing if each channel is an inbox of its own."""
        if self.program.inbox == "channel" or not self._made:
            return ()
        routes = self.program.routes[self._made[-1].actor]
        return {routes[recipient].strand for recipient, _ in self._posted}

    def digest(self) -> bytes:
        """Return a digest of all states and all queues."""
        parts = [canonical(state) for state in self.states.values()]
        for strand in sorted(strand for strand, queue in self._queues.items() if queue):
            parts.append(canonical((strand, *((heads.sender, one) for heads, one in self._queues[strand]))))
        return blake2b(b"\0".join(parts), digest_size=16).digest()

    def trace(self) -> Sequence[Step]:
        """Return the moves made, repeated by a world that records the poster of each message."""
        return self._traced().steps

    def coverage(self) -> Collection[tuple[str, str, str]]:
        """Return (role, tag of the state, tag of the message) for every message handled so far."""
        actors = self.program.actors
        return {
            (actors[name].role or name, tag(state), tag(message))
            for name, state, message in self._traced().handled
        }

    def _traced(self) -> "_Tracer":
        tracer = _Tracer(self.program)
        with suppress(Exception):  # the last step may be the one that raised
            for move in self._made:
                tracer.make(move)
        return tracer


class _Tracer(ProgramWorld):
    """A world that notes its steps and who posted what."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.steps: list[Step] = []
        self.handled: list[tuple[str, object, object]] = []
        self._causes = {strand: [0] * len(queue) for strand, queue in self._queues.items()}
        self._awake_since = dict.fromkeys(self._wakes, 0)

    def make(self, move: Move) -> None:
        """Make the move and record it."""
        strand, name = move.strand, move.actor
        queue = self._queues.get(strand)
        if queue:
            sender, message = queue[0][0].sender, queue[0][1]
            cause = self._causes[strand].pop(0)
        else:
            sender, message, cause = name, self._wakes[strand], self._awake_since[strand]
        self.handled.append((name, self.states[name], message))
        self._posted = NO_POSTS
        seq = len(self.steps) + 1
        try:
            super().make(move)
        finally:
            touched = tuple(sorted(self.touched()))
            self.steps.append(Step(seq, strand, move.kind, sender, name, move.label, cause, touched))
        routes = self.program.routes[name]
        for recipient, _ in self._posted:
            self._causes.setdefault(routes[recipient].strand, []).append(seq)
        self._awake_since = {strand: self._awake_since.get(strand, seq) for strand in self._wakes}
