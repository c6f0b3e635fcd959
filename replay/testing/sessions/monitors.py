"""The rules of a session as monitors of the explorer, and those that a log alone cannot show.

    log        every rule of `invariants`, as the log grows
    left       nothing is left at rest: no agent, no reservation, no timer, no request
    rescue     no deadline has to end what hangs
    effects    no tool with effect `write` runs twice, and none whose start is not in the log
    stopped    a session that fails, fails by a fault
    given up   every call in progress for a stopped agent is given up
    resumes    a model call that a crash cut off is charged, and a write tool that had started not run again
    requests   the rules of model requests
    replay     the deciders, run again on the log, post the same messages

A rule that is broken is one `Violation`; `breaches_of(world)` tells the details of all of them.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.errors import StoreFailed
from callboard.actors.protocol.messages import ApprovalGiven, AskEnded, ToolReturned, ToolStarted
from callboard.actors.protocol.usage import NOTHING
from callboard.actors.supervisor.state import SupervisorState
from callboard.replay.testing.rules.base import Breach, Invariant
from callboard.replay.testing.rules.invariants import INVARIANTS, check_log
from callboard.replay.testing.rules.requests import check_requests
from callboard.replay.testing.sessions.abandoned_calls import GivenUp, Resumes
from callboard.replay.testing.sessions.breach_cache import BreachCache
from callboard.replay.testing.sessions.session_monitor import SessionMonitor
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.replay.testing.world import Violation
from callboard.replay.verify import Verifier

LEFT: Final = "At rest no agent lives or waits, nothing is reserved and no timer is set."
RESCUE: Final = "A session whose ports all answer ends without the help of a deadline."
EFFECTS: Final = "No write tool runs twice for one call, or without its start in the log."
FAILED: Final = "A session fails only where the store does."
REPLAY: Final = "The deciders, run again on the log, post the same events."


class LogRules(SessionMonitor):
    """Every invariant, held against the whole log in the end: a breach stays in the log.

    kinds: the invariants; all that need nothing but a log if not given.
    """

    name = "log"

    def __init__(self, kinds: Sequence[type[Invariant]] = INVARIANTS) -> None:
        self._kinds = kinds
        self._verdicts = BreachCache()

    def found(self, world: SessionWorld) -> list[Breach]:
        """Return the breaches of the log."""
        is_at_rest = world.is_at_rest and world.failure is None and world.down is None
        return self._verdicts.of(
            (is_at_rest, *world.log),
            lambda: check_log(world.log, is_at_rest=is_at_rest, kinds=self._kinds),
        )

    def at_rest(self, world: SessionWorld, at: int) -> Violation | None:
        """Return the first broken rule and the step that broke it."""
        found = self.found(world)
        return Violation(found[0].rule, world.posters[found[0].seq - 1]) if found else None

    def unfinished(self, world: SessionWorld, at: int) -> Violation | None:
        """Return the same for a log that ends in the middle, where only its events can be wrong."""
        return self.at_rest(world, at)


class NothingLeft(SessionMonitor):
    """At rest everything is over."""

    name = "nothing-left"
    rule = LEFT

    def breach(self, world: SessionWorld) -> str:
        """Return a description of the remains; empty if nothing is left."""
        return "" if world.failure is not None or world.down is not None else _left(world)


def _left(world: SessionWorld) -> str:
    doubtful = _in_doubt(world)
    busy = [who for who in world.agents() if who not in doubtful and not _rests(world.states[who])]
    left = {"timers": len(world.timers), "port requests": len(world.gate.open)}
    if not doubtful:
        left |= _in_the_books(world.supervisor)
    return ", ".join([*(f"{count} {what}" for what, count in left.items() if count), *busy])


def _in_doubt(world: SessionWorld) -> set[str]:
    """Return the agents that had not drained when the session closed: the supervisor ignores them."""
    if world.supervisor.phase != "closed":
        return set()
    return {who for ended in world.of(AskEnded) for who in ended.in_doubt}


def _in_the_books(state: SupervisorState) -> dict[str, int]:
    left = {
        "agents": state.live,
        "model calls": state.in_flight,
        "asks": int(state.ask is not None),
        "in line": state.queue.size,
        "timers set": state.timers.size,
        "checks": state.checks.size if state.phase != "closed" else 0,  # after the end, answers are ignored
    }
    host = state.host
    if host is not None:
        left["reservations"] = int(host.reserved != NOTHING)
        left["children"] = host.children.size + host.delegations.size + host.waiting.size
    return left


def _rests(state: object) -> bool:
    return isinstance(state, AgentState) and state.phase in ("idle", "new")


class NoRescue(SessionMonitor):
    """Deadlines are for what hangs, and nothing hangs."""

    name = "no-rescue"
    rule = RESCUE

    def breach(self, world: SessionWorld) -> str:
        """Return the timer that would have to end the session; empty if none would."""
        return f"only {world.rescued!r} could end the remaining work" if world.rescued else ""

    def after(self, world: SessionWorld, at: int, fair_steps: int) -> Violation | None:
        """Report a violation as soon as the clock has to jump to a deadline."""
        return Violation(self.rule, at) if world.rescued else None


class Effects(SessionMonitor):
    """What tools did to the world, against the log."""

    name = "effects"
    rule = EFFECTS

    def breach(self, world: SessionWorld) -> str:
        """Return the call that ran twice or that is not in the log; empty if every call is in order."""
        ran = Counter((e.address, e.turn, e.call) for e in world.effects if e.effect == "write")
        ran.subtract(_repeated(world))
        started = {
            (event.recipient, event.body.turn, event.body.call)
            for event in world.log
            if isinstance(event.body, ToolStarted)
        }
        for call, times in ran.items():
            if times > 1:
                return f"call {call[1]}.{call[2]} of {call[0]} ran {times} times"
            if call not in started:
                return f"call {call[1]}.{call[2]} of {call[0]} ran, and the log does not know"
        return _denied_effect(world)


def _denied_effect(world: SessionWorld) -> str:
    """Return a call that took effect although the log says that it certainly did not start."""
    ran = {(e.address, e.turn, e.call) for e in world.effects if e.effect != "read"}
    for event in world.events(ToolReturned):
        body = event.body
        assert isinstance(body, ToolReturned)
        call = (event.recipient, body.turn, body.call)
        if body.status == "cancelled" and call in ran:
            return f"call {body.turn}.{body.call} of {event.recipient} ran and is told as not started"
    return ""


def _repeated(world: SessionWorld) -> list[tuple[str, int, int]]:
    """Return the calls that a person allowed to run again."""
    given = [(event.recipient, event.body) for event in world.log if isinstance(event.body, ApprovalGiven)]
    return [(who, one.turn, one.call) for who, one in given if one.is_repeat and one.verdict == "approved"]


class FailsByFault(SessionMonitor):
    """A session that can go no further says why."""

    name = "fails-by-fault"
    rule = FAILED

    def breach(self, world: SessionWorld) -> str:
        """Return the error, unless a fault caused it."""
        error = world.failure
        return "" if error is None or isinstance(error, StoreFailed) else f"{type(error).__name__}: {error}"


class Requests(SessionMonitor):
    """What models were asked. rule: the one that was broken."""

    name = "requests"

    def __init__(self) -> None:
        self._verdicts = BreachCache()

    def found(self, world: SessionWorld) -> list[Breach]:
        """Return the breaches of the requests."""
        if world.failure is not None:
            return []
        requests = None if world.is_continued else world.asked
        return self._verdicts.of(
            (*world.log, *(requests or {}).values()), lambda: check_requests(world.log, requests)
        )

    def at_rest(self, world: SessionWorld, at: int) -> Violation | None:
        """Return the first broken rule."""
        found = self.found(world)
        return Violation(found[0].rule, at) if found else None


class Replays(SessionMonitor):
    """Replay identity. every: look at one run out of so many; it costs as much as the run."""

    name = "replay"
    rule = REPLAY

    def __init__(self, every: int = 1) -> None:
        self._every = every
        self._runs = 0

    def begin(self, steps: int) -> None:
        """Count."""
        self._runs += 1

    def at_rest(self, world: SessionWorld, at: int) -> Violation | None:
        """Check the rule in the runs that are replayed."""
        return super().at_rest(world, at) if self._runs % self._every == 0 else None

    def breach(self, world: SessionWorld) -> str:
        """Return the first divergence; empty if there is no divergence."""
        found = Verifier(world.log).run()
        return "" if found is None else "; ".join(found.lines()[:3])


def session_monitors(replay_every: int = 20) -> list[SessionMonitor]:
    """Return all rules of sessions. replay_every: the log of one run in so many is replayed."""
    at_rest = [LogRules(), NothingLeft(), NoRescue(), Effects(), FailsByFault(), Requests()]
    return [*at_rest, GivenUp(), Resumes(), Replays(replay_every)]


def breaches_of(world: SessionWorld) -> list[Breach]:
    """Return every breach of a session at rest, with its place and details."""
    return [breach for monitor in session_monitors(1) for breach in monitor.found(world)]
