"""Several models for one agent: which are refused, and sessions in which they fail."""

import asyncio
from typing import Any

import pytest

from callboard import (
    Agent,
    Capacity,
    Fallback,
    Limits,
    Outcome,
    Runtime,
    ScriptedModel,
    Usage,
    call,
    fail,
    program,
)
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.port_messages import ModelReplied, RequestCapacity
from callboard.errors import MisuseError, SessionDetached, UnknownName
from callboard.log import MemoryLog
from callboard.models import Prices
from callboard.replay import Recording
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.models.fallback import models_of
from callboard.runtime.programs.context import ProgramContext
from tests.tables import table

PRICES = Prices(input_usd=1, output_usd=2)


def model(
    name: str, *steps: Any, prices: Prices | None = PRICES, usage: Usage | None = None
) -> ScriptedModel:
    return ScriptedModel(list(steps), name=name, prices=prices, usage=usage)


def run(
    host: Agent, log: MemoryLog | None = None, limits: Limits | None = None, **settings: Any
) -> Outcome[Any]:
    return Runtime(log or MemoryLog(), **settings).run_sync(host, "go", limits=limits)


def bodies(log: MemoryLog, outcome: Outcome[Any], kind: type) -> list[Any]:
    recording = Recording.open(MemoryReader(log), outcome.session_id)
    assert recording.verify().is_ok
    events = recording.events
    return [event.body for event in events if isinstance(event.body, kind)]


# --- what is refused --------------------------------------------------------------


@table(
    ("models", "why"),
    [
        ([], "2 to 16 models, not 0"),
        ([model("a")], "2 to 16 models, not 1"),
        ([model(f"m{n}") for n in range(17)], "not 17"),
        ([model("a"), model("a")], "share one"),
        ([model("a"), 7], "is not a model"),
        ([model("a"), None], "not another Fallback"),
        ([model("a"), Fallback([model("b"), model("c")])], "not another Fallback"),
        ("scripted:a", "a list of models"),
        (7, "a list of models"),
    ],
)
def test_models_that_cannot_stand_in_a_fallback_are_refused(models: Any, why: str) -> None:
    with pytest.raises(MisuseError, match=why):
        Fallback(models)


def test_an_unknown_provider_is_refused() -> None:
    with pytest.raises(UnknownName, match="no model provider"):
        Fallback([model("a"), "nowhere:large"])


@pytest.mark.parametrize(
    ("on", "why"),
    [
        (["overlod"], "did you mean 'overload'"),
        ("everything", "has no kind"),
        ([], "names kinds"),
        (7, "no kind 7"),
    ],
)
def test_unknown_kinds_are_refused(on: Any, why: str) -> None:
    with pytest.raises(MisuseError, match=why):
        Fallback([model("a"), model("b")], on=on)


def test_a_program_cannot_stand_in_a_fallback() -> None:
    @program
    async def triage(ctx: ProgramContext, prompt: str) -> str:
        return prompt

    assert triage.model is not None
    with pytest.raises(MisuseError, match="cannot be part of a Fallback"):
        Fallback([model("a"), *models_of(triage.model)])


def test_a_cost_limit_with_one_price_missing_is_refused_before_the_session_opens() -> None:
    log = MemoryLog()
    both = Fallback([model("a"), model("b", prices=None)])
    with pytest.raises(MisuseError, match="prices of model 'b' are not known"):
        run(Agent("host", model=both), log, limits=Limits(cost_usd=1))
    with pytest.raises(MisuseError, match="prices of model 'b' are not known"):
        run(Agent("host", limits=Limits(cost_usd=1)), log, model=both)


def test_a_kind_is_kept_in_one_order() -> None:
    spec = Fallback([model("a"), model("b")], on=["refusal", "timeout"]).spec
    assert spec.fallback_on == ("timeout", "refusal")
    assert [one.name for one in spec.all_specs] == ["a", "b"]


# --- sessions ---------------------------------------------------------------------


def test_the_next_model_answers_after_a_failure_of_the_first() -> None:
    log = MemoryLog()
    host = Agent("host", model=Fallback([model("a", fail()), model("b", "from b")]))
    outcome = run(host, log)
    assert (outcome.text, outcome.usage.calls) == ("from b", 2)
    wishes = bodies(log, outcome, TurnRequested)
    assert [(wish.attempt, wish.model, wish.after_ms) for wish in wishes] == [(1, "", 0), (2, "b", 0)]


def test_each_answer_is_charged_at_the_prices_of_its_model() -> None:
    used = Usage(input_tokens=1_000_000, output_tokens=1_000_000)
    dear = Prices(input_usd=10, output_usd=20)
    both = Fallback([model("a", fail()), model("b", "x", prices=dear, usage=used)])
    outcome = run(Agent("host", model=both))
    # The failed call did not tell its usage, so it is charged its reservation.
    assert (outcome.usage.calls, outcome.usage.unknown_calls) == (2, 1)
    reserved = (outcome.usage.charged_tokens - 1_024) * 1 + 1_024 * 2
    assert outcome.usage.micro_usd == 30_000_000 + reserved


def test_a_child_inherits_the_fallback_of_the_runtime() -> None:
    a = ScriptedModel({"host": [call("task", agent="kid", prompt="x"), "done"], "kid": [fail()]}, name="a")
    b = ScriptedModel({"kid": ["from b"]}, name="b")
    log = MemoryLog()
    outcome = run(Agent("host", agents=[Agent("kid")]), log, model=Fallback([a, b]))
    assert outcome.text == "done"
    assert [wish.model for wish in bodies(log, outcome, TurnRequested)] == ["", "", "b", ""]


def test_each_model_has_its_own_line_for_capacity() -> None:
    log = MemoryLog()
    host = Agent("host", model=Fallback([model("a", fail()), model("b", "from b")]))
    capacity = {"a": Capacity(calls=1), "b": Capacity(calls=1)}
    outcome = run(host, log, capacity=capacity)
    assert outcome.text == "from b"
    assert [place.model for place in bodies(log, outcome, RequestCapacity)] == ["a", "b"]


def test_a_resumed_session_asks_the_model_that_was_cut_off() -> None:
    log = MemoryLog()

    async def interrupted() -> str:
        began = asyncio.Event()

        async def slow(request: object) -> str:
            began.set()
            return await asyncio.Future[str]()

        second = ScriptedModel(slow, name="b", prices=PRICES)
        host = Agent("host", model=Fallback([model("a", fail()), second]))
        async with Runtime(log) as runtime:
            session = await runtime.open(host)
            asking = asyncio.ensure_future(session.ask("go"))
            await began.wait()
            await runtime.aclose(grace_s=0)
        with pytest.raises(SessionDetached):
            await asking
        return session.session_id

    async def resumed(name: str) -> Outcome[Any]:
        host = Agent("host", model=Fallback([model("a"), model("b", "from b")]))
        async with Runtime(log) as runtime:
            return await (await runtime.resume(name, host)).outcome

    outcome = asyncio.run(resumed(asyncio.run(interrupted())))
    assert outcome.text == "from b"
    wishes = bodies(log, outcome, TurnRequested)
    assert [(wish.attempt, wish.model) for wish in wishes] == [(1, ""), (2, "b"), (3, "b")]
    assert [reply.status for reply in bodies(log, outcome, ModelReplied)] == ["error", "detached", "ok"]


def test_a_program_may_list_a_fallback() -> None:
    second = Fallback([model("a", fail()), model("b", "from b")])

    @program(models=[second])
    async def triage(ctx: ProgramContext, prompt: str) -> str:
        return str(await ctx.ask_model("which?", model=second))

    outcome = run(triage, model=model("c"))
    assert outcome.text == "from b"
