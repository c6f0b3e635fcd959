"""Whole sessions, of random plans under random schedules: what must hold of each, and of all together.

Every failure names its plan and schedule. `python -m tests.actors.session.test_sessions PLAN` prints that
session.
"""

import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from callboard.actors.agent.phases import AGENT
from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.client_messages import AskEnded, Cancel, Close, Resumed, SessionOpened
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import ReportBack, Stopped
from callboard.actors.protocol.port_messages import TimerFired
from callboard.actors.session.step import ActorState, step
from callboard.actors.supervisor.state import Delegation, Record, SupervisorState
from callboard.replay.testing.sessions.faults import KINDS, faults, kind_of
from callboard.replay.testing.sessions.monitors import breaches_of
from callboard.replay.testing.sessions.scenario import Scenario
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from tests.actors.harness import SessionHarness
from tests.effort import effort
from tests.mutants.scenarios_state import changing_tools, contexts, other_tools, shared_states
from tests.session_plans import Plan, play
from tests.tables import table
from tools.supervisor_phases import (
    AGENT_MOVES,
    DELEGATION_MOVES,
    SESSION_MOVES,
    Moves,
    agent_status,
    delegation_status,
    session_status,
)

WILD = effort(suite=500, campaign=3_500)
CALM = 60
RARE = ("denied", "ignored")
"""Faults of approvals: less than one of a thousand plans meets them by chance."""

Statistics = set[tuple[str, str, type]]


class Watched(SessionWorld):
    """A world that remembers every change of status it has seen."""

    def __init__(self, scenario: Scenario) -> None:
        self.session: Statistics = set()
        self.records: Statistics = set()
        self.delegations: Statistics = set()
        self.phases: Statistics = set()
        super().__init__(scenario)

    def deliver(self, address: str, error: str = "") -> None:
        before, kind = self.core.state_of(address), type(self.inboxes[address][0].body)
        super().deliver(address, error)
        if self.failure is None:
            self._note_change(before, kind, self.states[address])

    def resume(self, log: Sequence[Event], *, reopens: bool = False) -> None:
        before = self.supervisor
        super().resume(log, reopens=reopens)
        if reopens:  # the recovery decides on it, together with what else the log had left
            resumed = next(event for event in reversed(self.log) if isinstance(event.body, Resumed))
            self._note_change(before, Resumed, step(before, resumed)[0])

    def _note_change(self, before: ActorState, kind: type, after: ActorState) -> None:
        if isinstance(before, AgentState) and isinstance(after, AgentState):
            self.phases.add((before.phase, after.phase, kind))
        if not isinstance(before, SupervisorState) or not isinstance(after, SupervisorState):
            return
        self.session.add((session_status(before), session_status(after), kind))
        one, two = dict(records(before.host)), dict(records(after.host))
        for who in one.keys() | two.keys():
            self.records.add((agent_status(one.get(who)), agent_status(two.get(who)), kind))
        old, new = delegations(one), delegations(two)
        for key in old.keys() | new.keys():
            then = delegation_status(old[key]) if key in old else "new"
            self.delegations.add((then, delegation_status(new.get(key)), kind))


def records(host: Record | None) -> Iterator[tuple[str, Record]]:
    rest = [host] if host else []
    while rest:
        record = rest.pop()
        yield record.address, record
        rest += list(record.children.values())


def delegations(tree: dict[str, Record]) -> dict[tuple[str, int], Delegation]:
    return {(who, key): open_ for who, record in tree.items() for key, open_ in record.delegations.items()}


@dataclass
class Explored:
    """What all the wild sessions together have shown."""

    broken: list[str] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    struck: set[str] = field(default_factory=set)
    session: Statistics = field(default_factory=set)
    records: Statistics = field(default_factory=set)
    delegations: Statistics = field(default_factory=set)
    phases: Statistics = field(default_factory=set)


@pytest.fixture(scope="module")
def explored() -> Explored:
    found = Explored()
    of_its_own = (contexts, changing_tools, other_tools, shared_states)
    scenarios = [Plan(seed).scenario() for seed in range(WILD)]
    scenarios += [of_its_own[seed % len(of_its_own)]() for seed in range(WILD // 5)]
    scenarios += [
        replace(Plan(seed).scenario(), faults=faults(*RARE, fault_mixes=0)) for seed in range(WILD // 5)
    ]
    for seed, scenario in enumerate(scenarios):
        world = Watched(scenario)
        try:
            world.run(in_random_order(seed))
        except Exception:
            found.broken.append(f"plan {seed}: {traceback.format_exc(limit=-2)}")
            continue
        found.broken += [f"plan {seed}: {breach}" for breach in breaches_of(world)]
        found.kinds |= {ended.kind for ended in world.of(AskEnded)}
        found.struck |= {kind_of(chain) for chain in world.injected}
        for name in ("session", "records", "delegations", "phases"):
            getattr(found, name).update(getattr(world, name))
    return found


@pytest.mark.slow
def test_every_session_comes_to_rest_and_breaks_no_rule(explored: Explored) -> None:
    assert not explored.broken, f"{len(explored.broken)} of {WILD}, the first: {explored.broken[0]}"


def test_the_sessions_have_met_every_end_an_ask_can_have(explored: Explored) -> None:
    assert explored.kinds == {
        "reported",
        "answered",
        "iteration_cap",
        "budget",
        "deadline",
        "empty",
        "no_report",
        "invalid_report",
        "model_error",
        "model_refused",
        "context_full",
        "crashed",
        "denied",
        "cancelled",
    }


def test_the_sessions_have_met_every_fault(explored: Explored) -> None:
    assert explored.struck == KINDS


@pytest.mark.parametrize(
    ("name", "table"),
    [("session", SESSION_MOVES), ("records", AGENT_MOVES), ("delegations", DELEGATION_MOVES)],
)
def test_statuses_change_as_the_tables_say_and_in_every_way_they_say(
    explored: Explored, name: str, table: Moves
) -> None:
    seen: Statistics = getattr(explored, name) | (closings() if name == "session" else set())
    moved = {(then, now) for then, now, _ in seen if then != now}
    assert moved == set(table)
    for then, now, kind in seen:
        assert then == now or kind in table[then, now], f"{kind.__name__}: {then} -> {now}"


def closings() -> Statistics:
    """Cover the rest: open; close among stragglers, before and after the host's work, and idle; reopen."""
    straggling, checking, judging, idle = (SessionHarness().opens() for _ in range(4))
    opened = straggling.session
    straggling.asks()
    straggling.hears("client", Cancel())
    straggling.hears("clock", TimerFired(1))
    checking.asks({})
    judging.asks({}, Limits(deadline_s=1))
    judging.accepts()
    judging.hears("host", ReportBack(1, 0, Json(b"1")))
    judging.hears("clock", TimerFired(1))
    judging.hears("host", Stopped())
    seen: Statistics = {("new", opened, SessionOpened)}
    for head in (straggling, checking, judging, idle):
        for body in (Close(), Resumed(1, reopens=True)):
            before = head.session
            head.hears("client", body)
            seen.add((before, head.session, type(body)))
    return seen


def test_agents_change_their_phase_as_their_table_says(explored: Explored) -> None:
    for then, now, kind in explored.phases:
        if then != now and now != "failed":
            is_forced = then in ("failed", "stopping") and now == "idle"
            assert is_forced or now in AGENT[then].get(kind, ()), f"{kind.__name__}: {then} -> {now}"  # type: ignore[index]  # a phase


# --- the same under every schedule ------------------------------------------------


def told(world: SessionWorld) -> dict[object, object]:
    """Return the outcome and the requests to every model, without event numbers."""
    asked: dict[object, object] = {
        (one.address, one.turn, one.attempt): (bytes(one.system), one.tools, one.messages, one.force_tool)
        for one in world.asked.values()
    }
    outcomes = [(e.request_id, e.kind, bytes(e.value), e.text, e.detail, e.usage) for e in world.of(AskEnded)]
    return asked | {"outcomes": outcomes}


@table("seed", range(CALM))
def test_where_there_is_nothing_to_fight_over_every_schedule_tells_the_same(seed: int) -> None:
    plan = Plan(seed, is_calm=True)
    first = play(plan, 0)
    for schedule in range(1, 4):
        other = play(plan, schedule)
        assert told(other) == told(first)
        assert other.digest() == first.digest()


def show(seed: int) -> None:
    """Print one wild session, an event a line."""
    for event in Watched(Plan(seed).scenario()).run(in_random_order(seed)).log:
        body = encode(event.body).decode()
        print(f"{event.seq:4} <- {event.cause:4}  {event.sender} > {event.recipient}: {body[:300]}")


if __name__ == "__main__":
    show(int(sys.argv[1]))
