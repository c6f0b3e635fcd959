"""The rules of a session as monitors of the explorer, and those that a log alone cannot show.

A rule that is broken is one `Violation`; `breaches_of(world)` tells the details of all of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.supervisor.state import SupervisorState
from callboard.replay.testing.rules.base import Breach, Invariant
from callboard.replay.testing.rules.invariants import INVARIANTS, check_log
from callboard.replay.testing.rules.requests import check_requests
from callboard.replay.testing.rules.tool_results import FOLD
from callboard.replay.testing.sessions.call_rules import (
    FROM_LOG,
    has_kept_call,
    is_badly_detached,
    is_badly_resumed,
    opened_again,
    other_context,
    other_state,
    own_failure,
    work_left,
    wrong_effect,
)
from callboard.replay.testing.sessions.conserved import Sums, other_side
from callboard.replay.testing.sessions.faults import kind_of
from callboard.replay.testing.sessions.memory import BreachCache
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.replay.testing.world import Violation, idle
from callboard.replay.verify import Verifier

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

    @idle
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


class Conserved(SessionMonitor):
    """Counts of the supervisor, and its amounts too after each of its decisions.

    sums: what is known of its states. amounts: the rule of the amounts, so that no second look is needed.
    """

    def __init__(self, name: str, rule: str, sums: Sums, amounts: str) -> None:
        super().__init__(name, rule, lambda world: sums.places(world.supervisor))
        self._sums, self._amounts = sums, amounts
        self._last: object = None

    def after(self, world: SessionWorld, at: int, fair_steps: int) -> Violation | None:
        """Look at the state that the last step has left, if it is another one."""
        state = world.states[SUPERVISOR]
        if state is self._last or not isinstance(state, SupervisorState):
            return None
        self._last = state
        amount, count = self._sums.of(state)
        if not amount and not count:
            return None
        return Violation(self._amounts if amount else self.rule, at)


class SameOutcomes(SessionMonitor):
    """The outcomes of a scenario without contention, in every run of a campaign."""

    def __init__(self) -> None:
        rule = "Without contention, every schedule leads to the same, expected outcomes."
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


# --- all rules ------------------------------------------------------------------------

NOTHING_LEFT: Final = SessionMonitor(
    "nothing-left", "At rest no agent lives or waits, nothing is reserved and no timer is set.", work_left
)
NO_RESCUE: Final = StepMonitor(
    "no-rescue",
    "A session whose ports all answer ends without the help of a deadline.",
    lambda world: f"only {world.rescued!r} could end the remaining work" if world.rescued else "",
    is_broken=lambda world: bool(world.rescued),
)
STAYS_CLOSED: Final = SessionMonitor(
    "stays-closed", "A closed session stays closed until a resume reopens it.", opened_again
)
EFFECTS: Final = SessionMonitor(
    "effects", "No write tool runs twice for one call, or without its start in the log.", wrong_effect
)
FAILS_BY_FAULT: Final = SessionMonitor(
    "fails-by-fault", "A session fails only if the store does.", own_failure
)
STATE_IS_FOLD: Final = SessionMonitor("state-is-fold", FOLD, other_state)
CONTEXT_FROM_LOG: Final = SessionMonitor(
    "context-from-log", FROM_LOG, lambda world: other_context(world.scenario, world.log)
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
    "A process that detaches makes no more decisions, and leaves no model call without an answer.",
    is_broken=is_badly_detached,
)

RESERVED: Final = (
    "A scope has reserved the needs of its open calls, and room for each open background task and for each "
    "end of one that is in no request yet."
)
HELD: Final = (
    "Every slot, running agent and copy is counted exactly once where it is, and a request for a turn stands "
    "in one queue."
)

BOTH_SIDES: Final = StepMonitor(
    "both-sides",
    "An agent and the supervisor count the same tasks, unread ends and unread messages once no message "
    "between them is in transit.",
    is_broken=other_side,
)


def session_monitors(replay_every: int = 20) -> list[SessionMonitor]:
    """Return all rules of sessions. replay_every: the log of one run in so many is replayed."""
    at_rest = [
        LogRules(),
        NOTHING_LEFT,
        NO_RESCUE,
        STAYS_CLOSED,
        EFFECTS,
        FAILS_BY_FAULT,
        STATE_IS_FOLD,
        CONTEXT_FROM_LOG,
        Requests(),
        SameOutcomes(),
    ]
    return [*at_rest, *_conserved(), GIVEN_UP, RESUMES, DETACHES, Replays(replay_every)]


def _conserved() -> Sequence[SessionMonitor]:
    """Return the rules of sums, which share their work."""
    sums = Sums()
    return [
        SessionMonitor("reserved-is-open", RESERVED, lambda world: sums.reserved(world.supervisor)),
        Conserved("places-are-held", HELD, sums, RESERVED),
        BOTH_SIDES,
    ]


def breaches_of(world: SessionWorld) -> list[Breach]:
    """Return every breach of a session at rest, with its place and details."""
    return [breach for monitor in session_monitors(1) for breach in monitor.found(world)]
