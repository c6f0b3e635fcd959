"""Budgets above sessions in a live runtime: shared limits, waits, refusals, resumes, crashes, forks."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

import pytest

from callboard import Agent, Budget, Capacity, Limits, Outcome, Runtime, ScriptedModel, Session, Usage, say
from callboard.actors.protocol.client_messages import Resumed, SessionOpened
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import (
    BudgetGiven,
    CallModel,
    ModelReplied,
    RequestBudget,
    RequestCapacity,
)
from callboard.actors.protocol.profiles import Prices
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.session.budget_keys import BudgetKeys, Settlement
from callboard.errors import MissingBudgets, MisuseError, SessionDetached
from callboard.log import MemoryLog
from callboard.replay import Recording
from callboard.replay.testing.rules.invariants import check_log
from callboard.runtime import budgets as live
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.log.protocol import Append
from callboard.runtime.models.scripted import Step
from callboard.spending import BudgetState
from tests.tables import table
from tests.virtual_clock import run_virtually

DAY = 86_400_000


class Service:
    """A model service whose replies use 100 tokens of the thousand and some that each may need."""

    def __init__(self, *, waits: bool = False, used: int = 100, max_tokens: int = 1_000) -> None:
        self.in_flight = self.most = self.made = 0
        self._waits = waits
        self.gates: list[asyncio.Event] = []
        usage = Usage(output_tokens=used)
        self.model = ScriptedModel(self._policy, name="m", max_tokens=max_tokens, usage=usage)

    @property
    def host(self) -> Agent:
        return Agent("host", model=self.model)

    async def _policy(self, request: ModelRequest) -> Step:
        self.in_flight += 1
        self.made += 1
        self.most = max(self.most, self.in_flight)
        try:
            if self._waits:
                self.gates.append(gate := asyncio.Event())
                await gate.wait()
            else:
                await asyncio.sleep(0)
        finally:
            self.in_flight -= 1
        return say("done")

    def answer(self) -> None:
        for gate in self.gates:
            gate.set()


async def settled(is_so: Callable[[], object]) -> None:
    """Let the loop run until something is so. Raises TimeoutError if it never is."""
    async with asyncio.timeout(10):
        while not is_so():  # noqa: ASYNC110  # the condition has no event
            await asyncio.sleep(0.001)


ONE = {"*": Budget(tokens=10_000)}


def run(
    body: Callable[[Runtime], Awaitable[object]],
    budgets: Mapping[str, Budget] = ONE,
    log: MemoryLog | None = None,
    **more: object,
) -> MemoryLog:
    """Run a body in a runtime with budgets; then compare the spending with the logs."""
    log = log or MemoryLog()

    async def main() -> None:
        async with Runtime(log, model=ScriptedModel([]), budgets=budgets, **more) as runtime:  # type: ignore[arg-type]  # parameters of a runtime
            await body(runtime)

    run_virtually(main())
    balanced(log)
    return log


def balanced(log: MemoryLog) -> None:
    """Check that the amounts spent are the charges in the logs and those that no log holds."""
    reader = MemoryReader(log)
    charged: Counter[tuple[str, str]] = Counter()
    for row in reader.sessions():
        events = Recording.open(reader, row.session_id).events
        for change in BudgetKeys(row.session_id, 1).take(events):
            if isinstance(change, Settlement):
                charged.update(dict.fromkeys(change.reservation.spans, change.charge.tokens))
    for one in asyncio.run(log.spending.unlogged()):
        charged.update(dict.fromkeys(one.reservation.spans, one.reservation.need.tokens))
    spent = asyncio.run(log.spending.read()).spent
    assert {(one.scope, one.period): one.amount.tokens for one in spent} == dict(+charged)


def events_of(log: MemoryLog, name: str) -> list[Event]:
    """Verify the log of a session, and hold every rule against it."""
    recording = Recording.open(MemoryReader(log), name)
    recording.verify().check()
    events = list(recording.events)
    assert check_log(events) == []
    return events


async def scope(runtime: Runtime, name: str = "*") -> BudgetState:
    return next(one for one in (await runtime.budgets()).scopes if one.scope == name)


# --- the limit -----------------------------------------------------------------------


def test_eight_sessions_at_once_do_not_overshoot_a_budget_together() -> None:
    service = Service(used=1_000)

    async def body(runtime: Runtime) -> None:
        asks = (runtime.run(service.host, "go", session_id=f"s{n}") for n in range(8))
        kinds = Counter(outcome.kind for outcome in await asyncio.gather(*asks))
        assert kinds == {"answered": 3, "budget": 5}
        found = await scope(runtime)
        assert (found.spent_tokens, found.reserved_tokens, found.waiting) == (3_000, 0, 0)

    log = run(body, {"*": Budget(tokens=3_500)})
    assert (service.most, service.made) == (3, 3)
    bodies = [event.body for event in events_of(log, "s0")]
    assert sum(isinstance(one, RequestBudget) for one in bodies) == 1
    assert sum(isinstance(one, BudgetGiven) for one in bodies) == 1


def test_each_tag_of_a_prefix_has_its_own_budget_beside_that_of_all_sessions() -> None:
    service = Service()
    budgets = {"tenant:*": Budget(tokens=1_200), "*": Budget(tokens=100_000, per="month")}

    async def body(runtime: Runtime) -> None:
        for _ in range(3):
            for tenant in ("a", "b"):
                await runtime.run(service.host, "go", tags=[f"tenant:{tenant}"])
        found = {one.scope: one.spent_tokens for one in (await runtime.budgets()).scopes}
        assert found == {"*": 400, "tenant:*=tenant:a": 200, "tenant:*=tenant:b": 200}

    run(body, budgets)


def test_a_session_without_a_matching_tag_asks_for_nothing() -> None:
    service = Service()

    async def body(runtime: Runtime) -> None:
        assert (await runtime.run(service.host, "go", session_id="s")).is_ok
        assert (await runtime.budgets()).scopes == ()

    log = run(body, {"batch": Budget(tokens=1)})
    bodies = [event.body for event in events_of(log, "s")]
    assert not any(isinstance(one, RequestBudget) for one in bodies)
    opened = next(one for one in bodies if isinstance(one, SessionOpened))
    assert opened.scopes == ()


def test_a_star_in_a_tag_is_a_character_like_any_other() -> None:
    service = Service()
    tags = ["*", "tenant:*", "a*b"]

    async def body(runtime: Runtime) -> None:
        await runtime.run(service.host, "go", tags=tags)
        found = {one.scope: one.spent_tokens for one in (await runtime.budgets()).scopes}
        assert found == {"tenant:*=tenant:*": 100}

    run(body, {"tenant:*": Budget(tokens=10_000)})


def test_the_refusal_says_what_is_needed_and_what_is_left() -> None:
    service = Service(used=1_000)

    async def body(runtime: Runtime) -> None:
        await runtime.run(service.host, "go")
        refused = await runtime.run(service.host, "go")
        assert refused.kind == "budget"
        assert "500 of 1,500 tokens are left" in refused.detail

    run(body, SMALL)


def test_a_limit_below_the_amount_spent_refuses_and_one_above_goes_on() -> None:
    service = Service()

    async def body(runtime: Runtime) -> None:
        await runtime.run(service.host, "go")

    log = run(body)

    async def again(runtime: Runtime) -> None:
        assert (await runtime.run(service.host, "go")).kind == "budget"

    run(again, {"*": Budget(tokens=50)}, log)

    async def more(runtime: Runtime) -> None:
        assert (await runtime.run(service.host, "go")).is_ok
        assert (await scope(runtime)).spent_tokens == 200

    run(more, {"*": Budget(tokens=1_500)}, log)


def test_a_cost_budget_refuses_a_model_without_prices_when_a_session_opens() -> None:
    service = Service()
    priced = ScriptedModel([say("done")], name="p", max_tokens=10, prices=Prices(1, 1))

    async def body(runtime: Runtime) -> None:
        with pytest.raises(MisuseError, match=r"limits cost, and the prices of model 'm' are not known"):
            await runtime.run(service.host, "go")
        assert [row async for row in runtime.sessions()] == []
        assert (await runtime.run(Agent("host", model=priced), "go")).is_ok

    run(body, {"*": Budget(cost_usd=1)})


def test_a_model_that_does_not_answer_is_charged_its_need_in_the_scope() -> None:
    async def stuck(request: ModelRequest) -> Step:
        raise ValueError("no usage is known")

    host = Agent(
        "host", model=ScriptedModel(stuck, name="m", max_tokens=200), limits=Limits(max_model_attempts=1)
    )

    async def body(runtime: Runtime) -> None:
        outcome = await runtime.run(host, "go")
        assert (await scope(runtime)).spent_tokens == outcome.usage.tokens

    run(body)


# --- waiting ---------------------------------------------------------------------------


async def one_that_waits(
    runtime: Runtime, service: Service
) -> tuple[list[Session], list[asyncio.Task[Outcome]]]:
    """Open two sessions: the call of the first is in flight, that of the second waits for its budget."""
    sessions = [await runtime.open(service.host, session_id=name) for name in ("one", "two")]
    asks = [asyncio.create_task(sessions[0].ask("go"))]
    await settled(lambda: service.in_flight == 1)
    asks.append(asyncio.create_task(sessions[1].ask("go")))
    await settled(lambda: runtime._budgets._takers)
    return sessions, asks


SMALL = {"*": Budget(tokens=1_500)}


def test_a_call_waits_for_one_in_flight_and_holds_no_place_of_capacity() -> None:
    service = Service(waits=True)

    async def body(runtime: Runtime) -> None:
        _, asks = await one_that_waits(runtime, service)
        assert (await scope(runtime)).waiting == 1
        assert runtime.capacity().waiting == ()
        service.answer()
        await settled(lambda: service.made == 2)
        service.answer()
        assert [(await ask).kind for ask in asks] == ["answered", "answered"]

    log = run(body, SMALL, capacity={"m": Capacity(calls=5)})
    kinds = [type(event.body) for event in events_of(log, "two")]
    order = [kinds.index(kind) for kind in (RequestBudget, BudgetGiven, RequestCapacity, CallModel)]
    assert order == sorted(order)


def test_an_agent_that_is_stopped_while_it_waits_leaves_the_line() -> None:
    service = Service(waits=True)

    async def body(runtime: Runtime) -> None:
        (_, other), asks = await one_that_waits(runtime, service)
        assert await other.cancel("enough") is not None
        assert (await scope(runtime)).waiting == 0
        service.answer()
        assert [(await ask).kind for ask in asks] == ["answered", "cancelled"]
        await other.close()

    log = run(body, SMALL)
    given = [event.body.status for event in events_of(log, "two") if isinstance(event.body, BudgetGiven)]
    assert given == ["cancelled"]


def test_a_waiting_call_of_a_session_that_fails_leaves_the_line() -> None:
    service = Service(waits=True)

    async def body(runtime: Runtime) -> None:
        (_, other), asks = await one_that_waits(runtime, service)
        other._board.fail(RuntimeError("the disk is gone"))
        with pytest.raises(Exception, match="the disk is gone"):
            await asks[1]
        assert (await scope(runtime)).waiting == 0
        service.answer()
        assert (await asks[0]).is_ok
        await other.close()

    run(body, SMALL)


def test_the_reservation_of_a_session_that_fails_counts_as_spent_until_it_is_resumed() -> None:
    service = Service(waits=True)

    async def body(runtime: Runtime) -> None:
        (first, _), asks = await one_that_waits(runtime, service)
        first._board.fail(RuntimeError("the disk is gone"))
        with pytest.raises(Exception, match="the disk is gone"):
            await asks[0]
        refused = await asks[1]
        assert refused.kind == "budget"
        assert "hold" in refused.detail
        assert refused.detail.endswith("resume them: one")
        assert (await scope(runtime)).sessions == ("one",)
        await first.close()
        again = await runtime.resume("one", service.host)
        # The lost call is charged whole, so its second attempt no longer fits.
        assert (await again.outcome).kind == "budget"
        found = await scope(runtime)
        assert (found.elsewhere_tokens, found.reserved_tokens) == (0, 0)
        assert 1_000 < found.spent_tokens < 1_500

    run(body, SMALL)


# --- periods -----------------------------------------------------------------------------


class Clock:
    """The wall clock of a runtime's budgets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 20_000 * DAY + DAY - 40
        monkeypatch.setattr(live, "now_ms", lambda: self.now)


def test_a_call_that_waits_is_given_the_budget_of_the_next_day_and_charged_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, service = Clock(monkeypatch), Service(waits=True)

    async def body(runtime: Runtime) -> None:
        _, asks = await one_that_waits(runtime, service)
        clock.now += 40
        await settled(lambda: service.in_flight == 2)
        service.answer()
        await asyncio.gather(*asks)
        assert (await scope(runtime)).spent_tokens == 100

    log = run(body, {"*": Budget(tokens=1_500, per="day")})
    spent = {one.period: one.amount.tokens for one in asyncio.run(log.spending.read()).spent}
    assert spent == {"2024-10-04": 100, "2024-10-05": 100}


def test_a_clock_that_goes_back_over_the_end_of_a_day_opens_no_day_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, service = Clock(monkeypatch), Service(used=1_000)
    budgets = {"*": Budget(tokens=1_500, per="day")}

    async def body(runtime: Runtime) -> None:
        clock.now += DAY
        assert (await runtime.run(service.host, "go")).is_ok
        clock.now -= DAY
        assert (await runtime.run(service.host, "go")).kind == "budget"

    log = run(body, budgets)

    async def after_a_restart(runtime: Runtime) -> None:
        assert (await runtime.run(service.host, "go")).kind == "budget"
        clock.now += 2 * DAY
        assert (await runtime.run(service.host, "go")).is_ok

    run(after_a_restart, budgets, log)


# --- another process ----------------------------------------------------------------------


async def cut(events: list[Event], end: int) -> MemoryLog:
    """Return the log of a process that was killed after an event, with the spending of that moment."""
    log = MemoryLog()
    await log.open()
    epoch = await log.create("s", 0, "go")
    kept = events[:end]
    changes = BudgetKeys("s", epoch).take(kept)
    (answer,) = await log.append([Append("s", 0, epoch, kept, changes)])
    assert not isinstance(answer, Exception)
    await log.close()
    return log


def recorded(service: Service, budgets: Mapping[str, Budget] = ONE) -> list[Event]:
    async def body(runtime: Runtime) -> None:
        await runtime.run(service.host, "go", session_id="s", tags=["tenant:a"])

    return events_of(run(body, budgets), "s")


@table("end", range(2, 11))
def test_a_session_killed_at_any_event_spends_what_its_log_charges_once_it_is_resumed(end: int) -> None:
    log = asyncio.run(cut(recorded(Service()), end))
    service = Service()

    async def body(runtime: Runtime) -> None:
        session = await runtime.resume("s", service.host)
        if session._running:
            assert (await session.outcome).is_ok
        found = await scope(runtime)
        assert (found.reserved_tokens, found.elsewhere_tokens) == (0, 0)
        await session.close()

    run(body, ONE, log)
    assert asyncio.run(log.spending.unlogged()) == []


def test_a_call_that_a_crash_cut_off_holds_its_budget_until_its_session_is_resumed() -> None:
    events = recorded(Service())
    log = asyncio.run(cut(events, next(one.seq for one in events if isinstance(one.body, CallModel))))
    service = Service()

    async def body(runtime: Runtime) -> None:
        refused = await runtime.run(service.host, "go")
        assert refused.kind == "budget"
        assert refused.detail.endswith("resume them: s")
        session = await runtime.resume("s", service.host)
        assert (await session.outcome).kind == "budget"  # charged whole, so that no second attempt fits

    run(body, SMALL, log)


def test_an_open_reservation_that_no_log_holds_is_charged_whole_once_and_listed() -> None:
    events = recorded(Service())
    given = next(one for one in events if isinstance(one.body, BudgetGiven))
    log = asyncio.run(cut(events, given.seq))
    # The store has the reservation, and the log has lost its event: another process had written it.
    (before,) = asyncio.run(log.spending.read()).reserved
    broken = asyncio.run(cut(events, given.seq - 1))
    broken.spending.apply([before])
    service = Service()

    async def body(runtime: Runtime) -> None:
        for _ in range(2):
            session = await runtime.resume("s", service.host)
            await session.detach(1)
        (charge,) = (await runtime.budgets()).unlogged
        assert (charge.session_id, charge.agent, charge.tokens) == ("s", "host", before.need.tokens)
        assert charge.scopes == ("*",)

    run(body, ONE, broken)


def test_a_detached_call_keeps_its_reservation_and_is_charged_what_was_streamed() -> None:
    service = Service(waits=True)

    async def body(runtime: Runtime) -> None:
        session = await runtime.open(service.host, session_id="s")
        ask = asyncio.create_task(session.ask("go"))
        await settled(lambda: service.in_flight)
        await session.detach(0)
        with pytest.raises(SessionDetached):
            await ask
        assert (await scope(runtime)).elsewhere_tokens > 1_000

    log = run(body)
    quick = Service()

    async def again(runtime: Runtime) -> None:
        session = await runtime.resume("s", quick.host)
        assert (await session.outcome).is_ok
        assert (await scope(runtime)).spent_tokens == 100
        await session.close()

    run(again, ONE, log)
    replies = [one.body.status for one in events_of(log, "s") if isinstance(one.body, ModelReplied)]
    assert replies == ["detached", "ok"]


def test_a_session_that_sleeps_and_wakes_stays_bound() -> None:
    service = Service()

    async def body(runtime: Runtime) -> None:
        session = await runtime.open(service.host, session_id="s")
        await session.ask("go")
        await settled(lambda: session._is_asleep)
        assert (await session.ask("go")).is_ok
        assert (await scope(runtime)).spent_tokens == 200
        await session.close()

    run(body, idle_s=0.01)


def test_a_runtime_without_the_budgets_of_a_session_refuses_it_unless_told() -> None:
    events = recorded(Service(), {"tenant:*": Budget(tokens=10_000)})
    log = asyncio.run(cut(events, 3))
    service = Service()

    async def body(runtime: Runtime) -> None:
        with pytest.raises(MissingBudgets, match=r"begun under the budgets 'tenant:\*'.*accept_changes=True"):
            await runtime.resume("s", service.host)
        session = await runtime.resume("s", service.host, accept_changes=True)
        assert (await session.outcome).is_ok
        await session.close()

    run(body, {}, log)
    resumed = [one.body for one in events_of(log, "s") if isinstance(one.body, Resumed)]
    assert [one.scopes for one in resumed] == [()]


def test_budgets_that_are_new_bind_a_session_from_its_resume_on() -> None:
    log = asyncio.run(cut(recorded(Service(), {}), 3))
    service = Service()

    async def body(runtime: Runtime) -> None:
        session = await runtime.resume("s", service.host)
        assert (await session.outcome).kind == "budget"
        await session.close()

    run(body, {"*": Budget(tokens=5)}, log)
    resumed = [one.body for one in events_of(log, "s") if isinstance(one.body, Resumed)]
    assert [one.scopes for one in resumed] == [("*",)]


# --- forks --------------------------------------------------------------------------------


def test_a_fork_spends_only_on_the_calls_that_it_makes() -> None:
    service = Service()

    async def body(runtime: Runtime) -> None:
        session = await runtime.open(service.host, session_id="s")
        await session.ask("one")
        await session.ask("two")
        await session.detach()
        assert (await scope(runtime)).spent_tokens == 200
        fork = await runtime.fork("s", service.host, at=2, fork_id="f")
        await fork.outcome
        await settled(lambda: not fork._running)
        assert (await scope(runtime)).spent_tokens == 200
        assert service.made == 2
        assert (await fork.ask("three")).is_ok
        assert (await scope(runtime)).spent_tokens == 300
        await fork.close()

    log = run(body)
    given = [one.body.spans for one in events_of(log, "f") if isinstance(one.body, BudgetGiven)]
    assert [len(spans) for spans in given] == [0, 0, 1]


@pytest.mark.parametrize("at", [2, 5])  # the ask, and the request for budgets
def test_the_first_call_of_a_fork_is_reserved_and_charged_like_any_other(at: int) -> None:
    service = Service(waits=True)
    host = service.host

    async def body(runtime: Runtime) -> None:
        first = await runtime.open(host, session_id="a")
        busy = asyncio.ensure_future(first.ask("one"))
        await settled(lambda: service.made)
        session = await runtime.open(host, session_id="s")
        waiting = asyncio.ensure_future(session.ask("two"))
        await settled(lambda: len(session._bound.keys._needs))  # type: ignore[union-attr]  # it is bound
        await session.detach()
        service.answer()
        assert (await busy).is_ok
        fork = await runtime.fork("s", host, at=at, fork_id="f")
        await settled(lambda: service.made == 2)
        spending = await runtime.log.spending.read()  # type: ignore[union-attr]  # it keeps spending
        assert [one.need.tokens for one in spending.reserved] == [(await scope(runtime)).reserved_tokens]
        service.answer()
        assert (await fork.outcome).is_ok
        await fork.close()
        usage = {row.session_id: row.usage.tokens async for row in runtime.sessions()}
        assert usage == {"a": 100, "s": 0, "f": 100}
        with pytest.raises(SessionDetached):
            await waiting

    run(body, {"*": Budget(tokens=1_500)})


def test_a_call_in_flight_at_the_base_of_a_fork_is_charged_to_the_fork_and_to_no_budget() -> None:
    service = Service(waits=True)

    async def body(runtime: Runtime) -> None:
        session = await runtime.open(service.host, session_id="s")
        asking = asyncio.ensure_future(session.ask("one"))
        await settled(lambda: service.made)
        reserved = (await scope(runtime)).reserved_tokens
        fork = await runtime.fork("s", service.host, fork_id="f")
        await settled(lambda: service.made == 2)
        assert (await scope(runtime)).reserved_tokens == reserved > 1_000
        service.answer()
        assert [(await asking).is_ok, (await fork.outcome).is_ok] == [True, True]
        await fork.close()
        await session.close()
        usage = {row.session_id: row.usage.tokens async for row in runtime.sessions()}
        assert usage == {"s": 100, "f": 100}
        state = await scope(runtime)
        assert (state.spent_tokens, state.reserved_tokens) == (100, 0)

    run(body)


# --- refused arguments ------------------------------------------------------------------------


class WithoutSpending(MemoryLog):
    """A foreign store, which keeps no spending."""

    @property
    def spending(self) -> None:  # type: ignore[override]  # as in `EventLog`
        """Return nothing."""


def test_a_store_without_spending_is_refused() -> None:
    with pytest.raises(MisuseError, match="WithoutSpending has no `spending`"):
        Runtime(WithoutSpending(), budgets=ONE)
    Runtime(WithoutSpending(), budgets={})
