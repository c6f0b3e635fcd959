"""The rules of a session as monitors of the explorer, and those that a log alone cannot show.

A rule that is broken is one `Violation`; `breaches_of(world)` tells the details of all of them.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar

from callboard.actors.protocol.addresses import is_decider
from callboard.actors.protocol.errors import StoreFailed
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import AskEnded
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallModel,
    CallTool,
    ModelReplied,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.protocol.usage import NOTHING
from callboard.actors.supervisor.state import SupervisorState
from callboard.replay.testing.rules.base import Breach, Invariant
from callboard.replay.testing.rules.invariants import INVARIANTS, check_log
from callboard.replay.testing.rules.requests import check_requests
from callboard.replay.testing.sessions.faults import kind_of
from callboard.replay.testing.sessions.injection import ENDS
from callboard.replay.testing.sessions.memory import BreachCache
from callboard.replay.testing.sessions.scripted_session import is_closed
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.replay.testing.world import Violation
from callboard.replay.verify import Verifier

RESTING: Final = ("idle", "new")
"""The phases of an agent that does nothing and waits for nothing."""

_Call: TypeAlias = tuple[str, int, int]
_OfCall = TypeVar("_OfCall", ToolStarted, ToolReturned, ApprovalGiven)

Breaks: TypeAlias = Callable[[SessionWorld], str]
"""Returns how a session breaks a rule, or ''."""


@dataclass(eq=False)
class SessionMonitor:
    """A rule that holds at rest."""

    name: str
    rule: str
    breach: Breaks = lambda world: ""

    def begin(self, steps: int) -> None:
        """Begin a run; nothing is kept from the last."""

    def after(self, world: SessionWorld, at: int, fair_steps: int) -> Violation | None:
        """Ignore a step: the rule is checked at rest."""
        return None

    def at_rest(self, world: SessionWorld, at: int) -> Violation | None:
        """Return the rule if it is broken at rest."""
        found = self.found(world)
        return Violation(found[0].rule, at) if found else None

    def found(self, world: SessionWorld) -> list[Breach]:
        """Return the breaches in the form that rules of a log use."""
        how = self.breach(world)
        return [Breach(self.name, self.rule, len(world.log), how)] if how else []


@dataclass(eq=False)
class StepMonitor(SessionMonitor):
    """A rule that holds after each step. is_broken: looks at the step that was made last."""

    is_broken: Callable[[SessionWorld], bool] = field(kw_only=True)

    def after(self, world: SessionWorld, at: int, fair_steps: int) -> Violation | None:
        """Return the rule if the last step broke it."""
        return Violation(self.rule, at) if self.is_broken(world) else None


class LogRules(SessionMonitor):
    """Every invariant, held against the whole log in the end: a breach stays in the log."""

    def __init__(self, kinds: Sequence[type[Invariant]] = INVARIANTS) -> None:
        super().__init__("log", "")
        self._kinds = kinds
        self._cache = BreachCache()

    def found(self, world: SessionWorld) -> list[Breach]:
        """Return the breaches of the log."""
        is_at_rest = world.is_at_rest and world.failure is None and world.down is None
        return self._cache.of(
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


class Requests(SessionMonitor):
    """The rules of model requests."""

    def __init__(self) -> None:
        super().__init__("requests", "")
        self._cache = BreachCache()

    def found(self, world: SessionWorld) -> list[Breach]:
        """Return the breaches of the requests."""
        if world.failure is not None:
            return []
        requests = None if world.is_continued else world.asked
        objects = (*world.log, *(requests or {}).values())
        return self._cache.of(objects, lambda: check_requests(world.log, requests))


class Replays(SessionMonitor):
    """Replay identity. every: look at one run out of so many; it costs as much as the run."""

    def __init__(self, every: int = 1) -> None:
        super().__init__(
            "replay", "The deciders, run again on the log, post the same events.", _first_divergence
        )
        self._every = every
        self._runs = 0

    def begin(self, steps: int) -> None:
        """Count."""
        self._runs += 1

    def at_rest(self, world: SessionWorld, at: int) -> Violation | None:
        """Check the rule in the runs that are replayed."""
        return super().at_rest(world, at) if self._runs % self._every == 0 else None


def _first_divergence(world: SessionWorld) -> str:
    found = Verifier(world.log).run()
    return "" if found is None else "; ".join(found.lines()[:3])


HARMLESS: Final = frozenset({"crash", "detach"})
"""Faults that change no outcome of an uncontended scenario. But what they cut off costs tokens."""


class SameOutcomes(SessionMonitor):
    """The outcomes of a scenario without contention, in every run of a campaign."""

    def __init__(self) -> None:
        rule = "Where nothing is contended, every schedule leads to the same outcomes, as expected."
        super().__init__("same-outcomes", rule)
        self._first: dict[int, list[tuple[str, str, bytes]]] = {}

    def found(self, world: SessionWorld) -> list[Breach]:
        """Compare the outcomes with those of the first run."""
        is_calm = world.failure is None and all(kind_of(strand) in HARMLESS for strand in world.injected)
        has_paid_twice = world.is_continued and world.scenario.limits.tokens is not None
        how = self._difference(world) if is_calm and not has_paid_twice else ""
        return [Breach(self.name, self.rule, len(world.log), how)] if how else []

    def _difference(self, world: SessionWorld) -> str:
        scenario = world.scenario
        told = [(str(ended.kind), ended.text, bytes(ended.value)) for ended in world.of(AskEnded)]
        kinds = [kind for kind, _, _ in told]
        if scenario.expects and kinds != list(scenario.expects):
            return f"the asks end as {kinds}, and {list(scenario.expects)} is expected"
        first = self._first.setdefault(id(scenario), told) if scenario.is_uncontended else told
        return "" if told == first else f"the asks end as {told}, and in the first run as {first}"


# --- at rest --------------------------------------------------------------------------


def _left(world: SessionWorld) -> str:
    """Return a description of what is left at rest."""
    if world.failure is not None or world.down is not None:
        return ""
    # Agents that had not drained when the session closed: the supervisor ignores them from then on.
    is_over = world.supervisor.phase == "closed"
    doubtful = {who for ended in world.of(AskEnded) for who in ended.in_doubt} if is_over else set()
    busy = [who for who in world.agents() if who not in doubtful and world.agent(who).phase not in RESTING]
    left = {"timers": len(world.timers), "port requests": len(world.gate.open)}
    if not doubtful:
        left |= _in_the_books(world.supervisor)
    return ", ".join([*(f"{count} {what}" for what, count in left.items() if count), *busy])


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


def _opened_again(world: SessionWorld) -> str:
    """Return how a session is open that its log says is closed."""
    is_open = is_closed(world.log) and world.supervisor.phase != "closed" and world.down is None
    return (
        f"the log ends in a closed session, and its supervisor is {world.supervisor.phase}" if is_open else ""
    )


def _own_failure(world: SessionWorld) -> str:
    """Return the error that ended the session, unless a fault caused it."""
    error = world.failure
    return "" if error is None or isinstance(error, StoreFailed) else f"{type(error).__name__}: {error}"


# --- calls: effects of tools, stopped agents, and what a crash leaves open ---------------


def _calls(
    world: SessionWorld, kind: type[_OfCall], which: Callable[[_OfCall], bool] = lambda body: True
) -> list[_Call]:
    """Return the agent, turn and call of the messages of a kind."""
    found = [(event.recipient, event.body) for event in world.log if isinstance(event.body, kind)]
    return [(who, body.turn, body.call) for who, body in found if which(body)]


def wrong_effect(world: SessionWorld) -> str:
    """Return a write that ran twice or unannounced, or an effect that the log denies."""
    ran = Counter((e.address, e.turn, e.call) for e in world.effects if e.effect == "write")
    # A person may allow a call to run again that was interrupted.
    ran.subtract(_calls(world, ApprovalGiven, lambda one: one.is_repeat and one.verdict == "approved"))
    started = _calls(world, ToolStarted)
    for (who, turn, call), times in ran.items():
        if times > 1:
            return f"call {turn}.{call} of {who} ran {times} times"
        if (who, turn, call) not in started:
            return f"call {turn}.{call} of {who} ran, and the log does not know"
    acted = {(e.address, e.turn, e.call) for e in world.effects if e.effect != "read"}
    for who, turn, call in _calls(world, ToolReturned, lambda one: one.status == "cancelled"):
        if (who, turn, call) in acted:
            return f"call {turn}.{call} of {who} ran and is told as not started"
    return ""


def has_kept_call(world: SessionWorld) -> bool:
    """Return whether a call of a stopped agent is not given up."""
    gate, aborted = world.gate, world.aborted
    # A loop: this runs after every step, and a comprehension made campaigns 5 % slower.
    for request in world.requests.values():
        event = request.event
        if event.seq not in aborted and not gate.is_wanted(event.seq):
            return True
    return False


def is_badly_resumed(world: SessionWorld) -> bool:
    """Look once, right after a resume, at the calls that were open in the log and at those made again."""
    made = world.made[-1] if world.made else None
    if made is None or made.move.strand != "resume" or world.is_closed:
        return False
    found, added = world.log[: made.start], world.log[made.start :]
    answered, answers = _answers_in(found), _answers_in(added)
    started = {event.cause for event in found if isinstance(event.body, ToolStarted)}
    cut = {_call_of(event) for event in found if getattr(event.body, "status", "") == "interrupted"}
    is_settled = [
        _is_settled(request, answers.get(request.seq), request.seq in started, _call_of(request) in cut)
        for request in found
        if request.seq not in answered and isinstance(request.body, CallModel | CallTool)
    ]
    # Requests that recovery adds cannot have started.
    is_denied = [
        answers[request.seq].status == ("interrupted" if _call_of(request) in cut else "cancelled")
        for request in added
        if request.seq in answers and isinstance(request.body, CallModel | CallTool)
    ]
    return not all(is_settled + is_denied)


def is_badly_detached(world: SessionWorld) -> bool:
    """Look at each step of a polite end: no actor may decide, and no model call may be left open."""
    made = world.made[-1] if world.made else None
    if made is None:
        return False
    if world.is_detaching:
        return any(is_decider(event.sender) for event in world.log[made.start :])
    is_end = made.move.strand == ENDS
    return is_end and any(isinstance(one.event.body, CallModel) for one in world.gate.open.values())


def _answers_in(log: list[Event]) -> dict[int, ModelReplied | ToolReturned]:
    """Return the answers to calls, by the seq of the request."""
    return {event.cause: event.body for event in log if isinstance(event.body, ModelReplied | ToolReturned)}


def _call_of(event: Event) -> _Call | None:
    """Return the tool call that this event requests or answers; an interrupted call has several events."""
    body = event.body
    if isinstance(body, CallTool):
        return event.sender, body.turn, body.call
    return (event.recipient, body.turn, body.call) if isinstance(body, ToolReturned) else None


def _is_settled(
    request: Event, answer: ModelReplied | ToolReturned | None, has_started: bool, was_cut: bool
) -> bool:
    """Return whether an old call has the answer that a crash leaves. was_cut: it was interrupted before."""
    if isinstance(request.body, CallModel):
        is_lost = answer is not None and answer.status in ("lost", "cancelled")
        return is_lost and isinstance(answer, ModelReplied) and answer.usage is None
    status = answer.status if isinstance(answer, ToolReturned) else ""
    if has_started or (was_cut and status):
        return status == "interrupted"
    is_write = isinstance(request.body, CallTool) and request.body.effect == "write"
    return not (is_write and status == "interrupted")


# --- all rules ------------------------------------------------------------------------

NOTHING_LEFT: Final = SessionMonitor(
    "nothing-left", "At rest no agent lives or waits, nothing is reserved and no timer is set.", _left
)
NO_RESCUE: Final = StepMonitor(
    "no-rescue",
    "A session whose ports all answer ends without the help of a deadline.",
    lambda world: f"only {world.rescued!r} could end the remaining work" if world.rescued else "",
    is_broken=lambda world: bool(world.rescued),
)
STAYS_CLOSED: Final = SessionMonitor(
    "stays-closed", "A closed session stays closed until a resume reopens it.", _opened_again
)
EFFECTS: Final = SessionMonitor(
    "effects", "No write tool runs twice for one call, or without its start in the log.", wrong_effect
)
FAILS_BY_FAULT: Final = SessionMonitor(
    "fails-by-fault", "A session fails only where the store does.", _own_failure
)
GIVEN_UP: Final = StepMonitor(
    "given-up",
    "When an agent is stopped or gives up a call, every such call in progress is given up.",
    is_broken=has_kept_call,
)
RESUMES: Final = StepMonitor(
    "resumes",
    "After a crash, cut-off model calls are charged, and write tools are `interrupted` if they had started.",
    is_broken=is_badly_resumed,
)

DETACHES: Final = StepMonitor(
    "detaches",
    "A process that detaches makes no decision any more, and leaves no model call without an answer.",
    is_broken=is_badly_detached,
)


def session_monitors(replay_every: int = 20) -> list[SessionMonitor]:
    """Return all rules of sessions. replay_every: the log of one run in so many is replayed."""
    at_rest = [LogRules(), NOTHING_LEFT, NO_RESCUE, STAYS_CLOSED, EFFECTS, FAILS_BY_FAULT, Requests()]
    at_rest.append(SameOutcomes())
    return [*at_rest, GIVEN_UP, RESUMES, DETACHES, Replays(replay_every)]


def breaches_of(world: SessionWorld) -> list[Breach]:
    """Return every breach of a session at rest, with its place and details."""
    return [breach for monitor in session_monitors(1) for breach in monitor.found(world)]
