"""Budgets whose amounts several runtimes write at once, on a PostgreSQL server."""

import asyncio
from collections.abc import Iterator

import pytest

from callboard import Budget, Runtime, ScriptedModel, Usage, call, say
from callboard.actors.protocol.usage import Need
from callboard.actors.session.budget_keys import CallKey
from callboard.actors.session.budget_scope import Refused
from callboard.actors.session.budgets import Given
from callboard.runtime import server_budgets
from callboard.runtime.log.reading import open_reader
from callboard.runtime.models.scripted import Step
from callboard.runtime.server_budgets import ServerBudgets
from tests.runtime.log.postgres.places import OnServer, on_server
from tests.runtime.test_on_server import HOST

SCOPES = ("team:*=team:red",)


@pytest.fixture
def place() -> Iterator[OnServer]:
    with on_server() as place:
        yield place


def test_a_budget_holds_over_runtimes_that_spend_at_once(place: OnServer) -> None:
    most = 6_000
    each = Usage(input_tokens=50, output_tokens=500)

    async def spend() -> list[bool]:
        steps: list[Step] = [call("note", text="a"), say("done")] * 6
        model = ScriptedModel(steps, usage=each, max_tokens=500)
        async with Runtime(place.url, model=model, budgets={"team:*": Budget(tokens=most)}) as runtime:
            outcomes = [await runtime.run(HOST, "go", tags=["team:red"]) for _ in range(6)]
        return [one.is_ok for one in outcomes]

    async def work() -> tuple[list[bool], list[bool]]:
        return await asyncio.gather(spend(), spend())

    done = asyncio.run(work())
    assert any(one[0] for one in done)
    assert not any(one[-1] for one in done)
    with open_reader(place.url) as reader:
        spending, unlogged = reader.spending()
    (spent,) = spending.spent
    assert sum(map(sum, done)) * 2 * 550 <= spent.amount.tokens <= most
    assert (spending.reserved, unlogged) == ((), [])


async def asked(budgets: ServerBudgets, turn: int, tokens: int) -> asyncio.Future[Given | Refused]:
    answer: asyncio.Future[Given | Refused] = asyncio.get_running_loop().create_future()
    key = CallKey("s", 1, "host", turn, 1)
    assert budgets.request(key, SCOPES, Need(tokens)) is None
    budgets.wait(key, answer.set_result)
    await asyncio.wait({answer}, timeout=0.3)
    return answer


def test_a_call_waits_for_the_reservation_of_another_runtime_and_for_nothing_spent(
    place: OnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_budgets, "_LOOK_S", 0.02)

    async def work() -> None:
        limits = {"team:*": Budget(tokens=1_000)}
        async with Runtime(place.url, budgets=limits) as one, Runtime(place.url, budgets=limits) as two:
            ours, theirs = one._budgets, two._budgets
            assert isinstance(ours, ServerBudgets)
            assert isinstance(theirs, ServerBudgets)
            given = (await asked(theirs, 1, 800)).result()
            assert given == Given((("team:*=team:red", ""),))
            waiting = await asked(ours, 2, 500)
            assert not waiting.done()
            refused = (await asked(theirs, 3, 1_001)).result()
            assert isinstance(refused, Refused)
            assert (refused.limit, refused.spent) == (1_000, 0)
            await theirs._server.release(CallKey("s", 1, "host", 1, 1))
            assert isinstance(await asyncio.wait_for(waiting, 5), Given)
            assert (await two.budgets()).scopes[0].elsewhere_tokens == 500

    asyncio.run(work())


def test_a_call_that_gives_up_while_it_asks_reserves_nothing(place: OnServer) -> None:
    async def work() -> None:
        async with Runtime(place.url, budgets={"team:*": Budget(tokens=1_000)}) as runtime:
            budgets = runtime._budgets
            assert isinstance(budgets, ServerBudgets)
            reserve, may_answer = budgets._server.reserve, asyncio.Event()

            async def slow(*args: object) -> bool:
                found = await reserve(*args)  # type: ignore[arg-type]  # as they were given
                await may_answer.wait()
                return found

            budgets._server.reserve = slow  # type: ignore[method-assign, assignment]  # it answers late
            await asked(budgets, 1, 800)
            assert (await runtime.budgets()).scopes[0].elsewhere_tokens == 800
            budgets.leave("s")
            may_answer.set()
            for _ in range(200):
                if not (await budgets._server.read(SCOPES)).reserved:
                    return
                await asyncio.sleep(0.01)
            raise AssertionError("the reservation stays")

    asyncio.run(work())
