"""The pace of the model calls after a resume in the middle of an ask."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, cast

from hypothesis import given
from hypothesis import strategies as st

from callboard import Agent, Limits, ModelRequest, ProgramContext, Runtime, ScriptedModel, program, say
from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import CallModel
from callboard.actors.protocol.profiles import ModelSpec
from callboard.log import MemoryLog
from callboard.runtime.models.scripted import Step, fail
from callboard.runtime.ports.paced_models import AT_ONCE, DOUBLES_S, PacedModelPort, earliest_s
from callboard.runtime.sessions.board import Board
from tests.virtual_clock import run_virtually

COUNT: Final = 40


def test_the_first_calls_begin_at_once_and_their_number_then_doubles() -> None:
    assert [earliest_s(place) for place in range(1, AT_ONCE + 1)] == [0] * AT_ONCE
    assert [earliest_s(place) for place in (16, 32, 8_192)] == [DOUBLES_S, 2 * DOUBLES_S, 10 * DOUBLES_S]


@given(st.integers(1, 10**6))
def test_a_later_call_never_begins_before_an_earlier_one(place: int) -> None:
    assert earliest_s(place) <= earliest_s(place + 1) <= earliest_s(place) + 0.2 * DOUBLES_S


class Overloaded:
    """A service that refuses every call until it is well again. began: the times of its calls."""

    def __init__(self, is_well: bool) -> None:
        self._is_well = is_well
        self.began: list[float] = []
        self.model = ScriptedModel(self._answer)

    def _answer(self, request: ModelRequest) -> Step:
        self.began.append(asyncio.get_running_loop().time())
        return say("known") if self._is_well else fail(retry_after_s=60)


worker = Agent("worker", description="Works.")


@program(agents=[worker])
async def host(ctx: ProgramContext, prompt: str) -> str:
    found = await asyncio.gather(*(ctx.delegate(worker, "look") for _ in range(COUNT)))
    return f"{len(found)} known"


def began_after(*, asks_again: bool) -> list[float]:
    """Return when the calls of a second process began, in seconds. asks_again: it puts a new ask."""

    async def live() -> list[float]:
        log, limits = MemoryLog(), Limits(max_children=COUNT, max_parallel_calls=COUNT)
        async with Runtime(log, model=Overloaded(is_well=asks_again).model, limits=limits) as runtime:
            session = await runtime.open(host, session_id="s")
            await session.submit("go")
            await asyncio.sleep(10)
        await asyncio.sleep(3_600)
        service = Overloaded(is_well=True)
        async with Runtime(log, model=service.model, limits=limits) as runtime:
            resumed_at = asyncio.get_running_loop().time()
            session = await runtime.resume("s", host)
            outcome = await (session.ask("again") if asks_again else session.outcome)
            assert outcome.text == f"{COUNT} known"
            await session.close()
        return [round(at - resumed_at, 3) for at in service.began]

    return run_virtually(live())[0]


def test_back_offs_that_ended_without_a_process_make_no_burst() -> None:
    assert began_after(asks_again=False) == [round(earliest_s(place + 1), 3) for place in range(COUNT)]


class Calls:
    """A model port that notes its calls. As a board, it lets all of them start."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.core = SimpleNamespace(states={"host": AgentState("host")})
        self.gate = SimpleNamespace(may_start=lambda request: True)
        self.running: set[asyncio.Task[Any]] = set()
        self.on_start: Callable[[Event], object] = lambda request: None

    def start(self, request: Event) -> None:
        self.seen.append(f"start {request.seq}")
        self.on_start(request)

    def abort(self, request: Event) -> bool:
        self.seen.append(f"abort {request.seq}")
        return True

    def detach(self) -> None:
        self.seen.append("detach")

    async def aclose(self) -> None:
        self.seen.append("close")
        await asyncio.sleep(60)  # for the calls under way


def test_a_call_that_waits_is_dropped_by_a_stop_and_by_the_end() -> None:
    async def live() -> list[str]:
        errors: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
        calls = Calls()
        port = PacedModelPort(cast(Board, calls), calls)
        asked = [
            Event(seq, 0, "supervisor", "model", 0, CallModel("host", 1)) for seq in range(1, AT_ONCE + 4)
        ]
        for request in asked:
            port.start(request)
        assert calls.seen == [f"start {request.seq}" for request in asked[:AT_ONCE]]
        calls.seen.clear()
        assert port.abort(asked[0])
        assert not port.abort(asked[AT_ONCE])
        await asyncio.sleep(earliest_s(AT_ONCE + 2))
        port.detach()
        await asyncio.sleep(1)
        await port.aclose()
        assert port._waiting == {}
        assert errors == []
        return calls.seen

    assert run_virtually(live())[0] == ["abort 1", f"start {AT_ONCE + 2}", "detach", "close"]


def test_a_call_that_is_given_up_while_it_starts_is_under_way() -> None:
    async def live() -> list[str]:
        calls = Calls()
        port = PacedModelPort(cast(Board, calls), calls)
        requests = [
            Event(seq, 0, "supervisor", "model", 0, CallModel("host", 1)) for seq in range(AT_ONCE + 1)
        ]
        for request in requests:
            port.start(request)
        calls.seen.clear()
        calls.on_start = port.abort
        await asyncio.sleep(60)
        return calls.seen

    assert run_virtually(live())[0] == [f"start {AT_ONCE}", f"abort {AT_ONCE}"]


def test_a_session_that_is_resumed_between_its_asks_is_not_held_up() -> None:
    assert began_after(asks_again=True) == [0] * COUNT


def test_steps_of_programs_begin_at_once_and_a_call_that_began_late_can_be_cancelled() -> None:
    def request(seq: int, agent: str) -> Event:
        return Event(seq, 0, "supervisor", "model", 0, CallModel(agent, 1))

    async def live() -> list[str]:
        calls = Calls()
        step = AgentState("step", model=ModelSpec("steps", kind="program"))
        calls.core.states["step"] = step
        port = PacedModelPort(cast(Board, calls), calls)
        calls.running.add(cast("asyncio.Task[Any]", asyncio.current_task()))
        assert port.running == calls.running
        for seq in range(99, 99 + AT_ONCE):
            port.start(request(seq, "step"))
        for seq in range(AT_ONCE + 2):
            port.start(request(seq, "host"))
        port.start(request(98, "step"))
        asked = [*range(99, 99 + AT_ONCE), *range(AT_ONCE), 98]
        assert calls.seen == [f"start {seq}" for seq in asked]
        assert [*port._waiting] == [AT_ONCE, AT_ONCE + 1], "steps do not count"
        calls.seen.clear()
        await asyncio.sleep(earliest_s(AT_ONCE + 1) + 0.001)
        assert calls.seen == [f"start {AT_ONCE}"]
        assert port.abort(request(AT_ONCE, "host"))
        await port.aclose()
        return calls.seen

    assert run_virtually(live())[0] == [f"start {AT_ONCE}", f"abort {AT_ONCE}", "close"]
