"""Several sessions on one capacity port as a world: one process, one clock, one line for each model name.

A move is that of one session, and its strand has the session's name: `a/inbox host`. There are three more:

    a/capacity host/1        the port posts that it has given a place
    fault leave a            a session leaves with its whole log; `a/resume` brings it back
    fault crash all          the process ends, and a new one resumes all sessions at once

The policy gives a place as soon as one is free, as live. The schedule chooses when that is posted.

    world = CapacityWorld(SharedScenario({"a": one, "b": other}, {"scripted": Capacity(calls=1)}))
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from typing import Final, Literal, NamedTuple, Self

from msgspec.structs import replace as changed

from callboard.actors.session.capacity import Capacity, CapacityPolicy
from callboard.replay.testing.sessions.board import RESCUES
from callboard.replay.testing.sessions.injection import crash, resume
from callboard.replay.testing.sessions.memory import Memory
from callboard.replay.testing.sessions.scenario import START_MS, Scenario
from callboard.replay.testing.sessions.shared_session import PlacedSession
from callboard.replay.testing.sessions.world import STEPS_MAX
from callboard.replay.testing.world import Move, Step, run_to_rest

CRASH_ALL: Final = "fault crash all"
LEAVE: Final = "fault leave "
JUMPS_MAX: Final = 1_000
ENDLESS: Final = "A bucket has the tokens for the head of its line after the time that it says."
CAPACITY: Final = "the capacity"
"""The name that every step touches which moves the policy: the order of such steps may matter."""


class Entry(NamedTuple):
    """One entry of the capacity port's history, for the rules that keep books of their own.

    tokens: that a request needs, or that a call used; None if not known.
    """

    what: Literal["request", "give", "give back", "leave", "restart"]
    at: int
    session: str = ""
    agent: str = ""
    model: str = ""
    tokens: int | None = None


@dataclass(frozen=True)
class SharedScenario:
    """Sessions by name that share the capacity of a runtime.

    crashes: how often the process may end. leaves: the sessions that may leave once and come back.
    tags: of the sessions that have any.
    """

    sessions: Mapping[str, Scenario]
    capacity: Mapping[str, Capacity]
    crashes: int = 0
    leaves: tuple[str, ...] = ()
    tags: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @cached_property
    def limited(self) -> Mapping[str, Scenario]:
        """Return the sessions, each with the names of the limited models in its log."""
        names = tuple(sorted(self.capacity))
        return {name: replace(one, capacity=names) for name, one in self.sessions.items()}

    @cached_property
    def moves(self) -> dict[tuple[str, Move], Move]:
        """Return the moves by session and by the session's own move, kept for all runs."""
        return {}


class CapacityWorld:
    """Sessions on one capacity port. history: what happened at the port. made: the moves, by session."""

    def __init__(self, scenario: SharedScenario, memories: Mapping[str, Memory] | None = None) -> None:
        self.scenario = scenario
        self.now = START_MS
        self.policy = CapacityPolicy(scenario.capacity, self.now)
        self.history: list[Entry] = []
        self.made: list[tuple[str, Move]] = []
        self._touches: list[tuple[str, ...]] = []
        self._places: list[int] = []  # of each move among those of its session
        self._crashes = scenario.crashes
        self._leaves = list(scenario.leaves)
        self.sessions = {
            name: self._session(name, one, (memories or {}).get(name))
            for name, one in scenario.limited.items()
        }

    def _session(self, name: str, scenario: Scenario, memory: Memory | None) -> PlacedSession:
        return PlacedSession(scenario, memory, name, self)

    # --- the world ------------------------------------------------------------------

    def moves(self) -> Sequence[Move]:
        """Return the moves that can happen next."""
        known, found = self.scenario.moves, []
        for name, session in self.sessions.items():
            for own in session.moves():
                move = known.get((name, own))
                if move is None:
                    strand, actor = f"{name}/{own.strand}", f"{name}/{own.actor}"
                    move = known[name, own] = Move(strand, actor, f"{name}: {own.label}", own.kind)
                found.append(move)
        if found:
            found += self._faults()
        return found

    def _faults(self) -> Iterator[Move]:
        """Yield the faults of the world itself."""
        if self._crashes:
            yield Move(CRASH_ALL, CAPACITY, "fault: the process ends and resumes all", "fault")
        for name in self._leaves:
            if self.sessions[name].can_leave:
                yield Move(f"{LEAVE}{name}", CAPACITY, f"fault: {name} leaves", "fault")

    def make(self, move: Move) -> None:
        """Let one of the moves happen."""
        before = len(self.history)
        if move.strand == CRASH_ALL or move.strand.startswith(LEAVE):
            self._strike(move.strand)
            self._note("", move, before)
            return
        name, _, strand = move.strand.partition("/")
        session = self.sessions[name]
        session.make(next(own for own in session.moves() if own.strand == strand))
        self._note(name, move, before)

    def _note(self, name: str, move: Move, before: int) -> None:
        """Give the places that are free now, and record the step."""
        self._serve()
        touched = self._touched_by(name)
        if len(self.history) > before or "/capacity " in move.strand:
            touched.add(CAPACITY)
        self.made.append((name, move))
        self._places.append(len(self.sessions[name].made) if name else 0)
        self._touches.append(tuple(sorted(touched)))
        self._jump()

    def _touched_by(self, name: str) -> set[str]:
        """Return the things that the last move of a session touches, or one of the world itself."""
        if not name:
            return {f"{one}/process" for one in self.sessions}
        touched = {f"{name}/{one}" for one in self.sessions[name].touched()}
        # A crash changes all that its session does.
        may_crash = self.sessions[name].is_faulty or name in self.scenario.leaves
        return touched | {f"{name}/process"} if may_crash or self.scenario.crashes else touched

    def touched(self) -> Collection[str]:
        """Return the things that the order of the last move decides apart from its actor's state."""
        return self._touches[-1]

    def _strike(self, strand: str) -> None:
        if strand == CRASH_ALL:
            self._crash_all()
        else:
            name = strand.removeprefix(LEAVE)
            self._leaves.remove(name)
            crash(self.sessions[name])

    def _crash_all(self) -> None:
        """End the process, and resume every session that can go on in a new one."""
        self._crashes -= 1
        for session in [one for one in self.sessions.values() if one.can_leave]:
            crash(session)
        self.policy = CapacityPolicy(self.scenario.capacity, self.now)
        self.history.append(Entry("restart", self.now))
        for session in self.sessions.values():
            if session.down is not None:
                resume(session)

    def _jump(self) -> None:
        """Advance the clock until something can happen."""
        for _ in range(JUMPS_MAX):
            if (due := self._next_due()) is None:
                for session in self.sessions.values():
                    session.may_give_up()
                return
            self.advance(due)
            self._serve()
        raise AssertionError(ENDLESS)

    def _next_due(self) -> int | None:
        """Return the next time at which something can happen; None if that is now or never."""
        if any(session.offers for session in self.sessions.values()):
            return None
        wait = self.policy.wait_ms(self.now)
        due = [at for session in self.sessions.values() for at in session.later.values()]
        if wait is not None:
            return min([self.now + wait, *due])
        # A call that is slow in one session may hold the place that another one waits for.
        left = [one for session in self.sessions.values() for one in session.later]
        if all(one.startswith(RESCUES) for one in left):
            for session in self.sessions.values():
                session.note_rescue()
        return min(due, default=None)

    def advance(self, now: int) -> None:
        """Advance the clock of all sessions, and offer the moves that are due."""
        self.now = max(self.now, now)
        for session in self.sessions.values():
            session.wake_at(self.now)

    def heal(self) -> None:
        """Stop offering faults."""
        self._crashes = 0
        self._leaves.clear()
        for session in self.sessions.values():
            session.heal()

    def digest(self) -> bytes:
        """Return a digest of all sessions and lines."""
        lines = repr((self.policy.states(self.now), self.policy.waiting(self.now), self.now))
        parts = [one.digest() for one in self.sessions.values()]
        return blake2b(b"".join((*parts, lines.encode())), digest_size=16).digest()

    def coverage(self) -> Collection[tuple[str, str, str]]:
        """Return the situations of all sessions."""
        return {one for session in self.sessions.values() for one in session.coverage()}

    def trace(self) -> Sequence[Step]:
        """Return one step for each move made."""
        traces = {name: session.trace() for name, session in self.sessions.items()}
        seqs: dict[tuple[str, int], int] = {}
        steps = []
        for seq, ((name, move), place) in enumerate(zip(self.made, self._places, strict=True), 1):
            seqs[name, place] = seq
            steps.append(self._step(seq, move, name, place and traces[name][place - 1], seqs))
        return steps

    def captions(self) -> Sequence[str]:
        """Return the captions of the sessions' moves."""
        captions = {name: session.captions() for name, session in self.sessions.items()}
        places = zip(self.made, self._places, strict=True)
        return [captions[name][place - 1] if place else "" for (name, _), place in places]

    def _step(
        self, seq: int, move: Move, name: str, own: Step | Literal[0], seqs: Mapping[tuple[str, int], int]
    ) -> Step:
        touched = self._touches[seq - 1]
        if not own:
            return Step(seq, move.strand, move.kind, CAPACITY, CAPACITY, move.label, 0, touched, move.actor)
        return changed(
            own,
            seq=seq,
            strand=move.strand,
            label=move.label,
            sender=f"{name}/{own.sender}",
            recipient=f"{name}/{own.recipient}",
            cause=seqs.get((name, own.cause), 0),
            touched=touched,
            actor=move.actor,
        )

    # --- the port -------------------------------------------------------------------

    def is_limited(self, model: str) -> bool:
        """Return whether the calls of a model need places."""
        return model in self.scenario.capacity

    def request(self, session: str, agent: str, model: str, tokens: int) -> None:
        """Take a request into the line of its model."""
        self.history.append(Entry("request", self.now, session, agent, model, tokens))
        self.policy.request(session, agent, model, tokens, self.now, self.scenario.tags.get(session, ()))

    def give_back(self, session: str, agent: str, used: int | None) -> None:
        """End an agent's request or place. used: the tokens of its call; None if not known."""
        self.history.append(Entry("give back", self.now, session, agent, tokens=used))
        self.policy.give_back(session, agent, used, self.now)

    def leave(self, session: str) -> None:
        """End all requests and places of a session."""
        self.history.append(Entry("leave", self.now, session))
        self.policy.leave(session, self.now)

    def _serve(self) -> None:
        for name, agent in self.policy.give(self.now):
            self.history.append(Entry("give", self.now, name, agent))
            self.sessions[name].placed(agent)

    # --- by hand --------------------------------------------------------------------

    def run(self, choose: Callable[[int], int] = lambda n: 0, steps: int = STEPS_MAX) -> Self:
        """Go on until nothing moves, or raise AssertionError. choose: one of n moves, or else the oldest."""
        run_to_rest(self, choose, steps)
        return self


class CapacityWorlds:
    """Makes the worlds of a campaign: one scenario, and what its runs have in common."""

    def __init__(self, scenario: SharedScenario) -> None:
        self.scenario = scenario
        self._memories = {name: Memory() for name in scenario.sessions}

    def __call__(self) -> CapacityWorld:
        """Make a world at its start."""
        return CapacityWorld(self.scenario, self._memories)
