"""The context of a program: the requests of its methods, and their refusals."""

import datetime
from collections.abc import Awaitable, Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import Json
from callboard.runtime.agent import Agent
from callboard.runtime.models.fallback import ModelChoice
from callboard.runtime.models.scripted import ScriptedModel, say
from callboard.runtime.programs.asks import Answer, Ask, ProgramFailed, Step, run_name
from callboard.runtime.programs.context import ProgramContext, _input_or_prompt
from callboard.runtime.programs.history import EarlierRun
from callboard.runtime.programs.run import ProgramCrashed, ProgramRun
from callboard.runtime.tools.tool import tool
from tests.runtime.programs.kit import T0, WORKER, Roster, answer, work
from tests.tables import table

Body = Callable[[ProgramContext], Awaitable[object]]
OTHER = Agent("other", description="Is not listed.")
MODEL = ScriptedModel([say("x")])


@tool(effect="read", name="later")
def later_tool() -> str:
    """Be set later."""
    return ""


class Team(Roster):
    """The roster of the program under test, with two agents, a later tool and a model."""

    agents: tuple[Agent, ...] = (WORKER, Agent("second", description="Works too."))
    later_tools = {"later": later_tool}  # noqa: RUF012  # never changed
    models: tuple[ModelChoice, ...] = (MODEL,)


class WithSource(Team):
    """A roster with a source of tools, whose list this object does not know."""

    sources: Any = ("a source",)


def run_of(body: Body, roster: Any = None, prompt: bytes = b'"go"') -> ProgramRun:
    def main(run: ProgramRun) -> Any:
        return body(ProgramContext(run, roster or Team(), Json(prompt)))

    return ProgramRun(main, run_name(1, "s", "host"))


def first(body: Body, roster: Any = None) -> Step:
    return run_of(body, roster).step((), T0)


def asked(body: Body, roster: Any = None) -> tuple[str, Any]:
    """Return the name and the input of the one ask that a program makes first."""
    (one,) = first(body, roster).asks
    return one.name, msgspec.json.decode(one.input)


def returned(body: Body, *answers: str | Answer, roster: Any = None) -> Any:
    """Let a program run to its end, with these answers one after the other. Return its value."""
    run = run_of(body, roster)
    step = run.step((), T0)
    for one in answers:
        (ask,) = step.asks
        given = one if isinstance(one, Answer) else answer(ask, one)
        step = run.step((msgspec.structs.replace(given, tool_use_id=ask.id),), T0 + 1)
    assert step.ending is not None
    return step.ending.text if step.ending.value is None else msgspec.json.decode(step.ending.value)


def refused(body: Body, roster: Any = None) -> str:
    """Return the words of the MisuseError that a program raises at once."""

    async def caught(ctx: ProgramContext) -> object:
        try:
            return await body(ctx)
        except MisuseError as error:
            return f"refused: {error}"

    found = returned(caught, roster=roster)
    assert found.startswith("refused: ")
    return str(found)


# --- delegate --------------------------------------------------------------------------------------


def test_a_delegation_names_its_agent_and_the_prompt_and_nothing_that_was_not_given() -> None:
    assert asked(lambda ctx: ctx.delegate(WORKER, "do")) == ("task", {"agent": "worker", "prompt": "do"})


def test_a_race_names_its_agents_and_copies() -> None:
    team = list(Team.agents)
    name, wish = asked(lambda ctx: ctx.delegate(team, "do", copies=2))
    assert (name, wish) == ("task", {"agents": ["worker", "second"], "prompt": "do", "copies": 2})
    assert asked(lambda ctx: ctx.delegate([WORKER], "do"))[1] == {"agent": "worker", "prompt": "do"}


def test_a_delegation_with_a_schema_states_it_and_returns_a_value_of_its_type() -> None:
    _, wish = asked(lambda ctx: ctx.delegate(WORKER, "do", schema=list[int]))
    assert wish["output_schema"]["type"] == "array"
    report = Answer("", Json(b'"[1,2]"'), False, "reported")
    assert returned(lambda ctx: ctx.delegate(WORKER, "do", schema=list[int]), report) == [1, 2]
    assert (
        returned(lambda ctx: ctx.delegate(WORKER, "do"), Answer("", Json(b'"did"'), False, "answered"))
        == "did"
    )


@pytest.mark.parametrize("agent", [OTHER, "worker", [WORKER, OTHER], 5])
def test_an_agent_that_is_not_listed_is_refused(agent: Any) -> None:
    told = refused(lambda ctx: ctx.delegate(agent, "do"))
    assert "may not delegate to" in told
    assert "list it in @program(agents=[...])" in told


# --- call ----------------------------------------------------------------------------------------------


def test_a_tool_is_called_by_its_object_or_its_name() -> None:
    assert asked(lambda ctx: ctx.call(work, n=3)) == ("work", {"n": 3})
    assert asked(lambda ctx: ctx.call("work", n=3)) == ("work", {"n": 3})
    assert asked(lambda ctx: ctx.call(later_tool)) == ("later", {})
    assert asked(lambda ctx: ctx.call("later")) == ("later", {})
    assert returned(lambda ctx: ctx.call(work, n=3), "3") == 3


def test_a_tool_that_is_not_listed_is_refused() -> None:
    @tool(name="work")
    def namesake() -> str:
        """Have the name of another tool."""
        return ""

    for odd in (namesake, "unknown", 5):
        assert "has no tool" in refused(lambda ctx, odd=odd: ctx.call(odd))  # type: ignore[misc]  # on purpose


def test_a_name_that_a_source_may_have_is_left_to_the_gate() -> None:
    assert asked(lambda ctx: ctx.call("unknown", a=1), WithSource()) == ("unknown", {"a": 1})
    assert returned(lambda ctx: ctx.call("unknown"), "text", roster=WithSource()) == "text"

    @tool
    def stray() -> str:
        """Be listed nowhere."""
        return ""

    assert "has no tool" in refused(lambda ctx: ctx.call(stray), WithSource())


# --- ask_model ---------------------------------------------------------------------------------------------


def test_a_question_has_only_what_was_given() -> None:
    assert asked(lambda ctx: ctx.ask_model("why?")) == ("ask_model", {"prompt": "why?"})
    name = MODEL.spec.name
    _, wish = asked(lambda ctx: ctx.ask_model("why?", system="Be brief.", model=MODEL, schema=int))
    assert wish.pop("schema")["type"] == "integer"
    assert wish == {"prompt": "why?", "system": "Be brief.", "model": name}
    assert asked(lambda ctx: ctx.ask_model("why?", model=name))[1]["model"] == name


def test_a_model_that_is_not_listed_is_refused() -> None:
    assert "may not ask model 'big': list it in @program(models=[...])" in refused(
        lambda ctx: ctx.ask_model("why?", model="big")
    )


# --- time, chance, state -------------------------------------------------------


def test_the_time_is_that_of_the_step_to_the_millisecond() -> None:
    async def body(ctx: ProgramContext) -> object:
        before = ctx.now()
        await ctx.call(work)
        return [before.isoformat(), ctx.now().isoformat()]

    run = run_of(body)
    (ask,) = run.step((), T0 + 7).asks
    ending = run.step((answer(ask),), T0 + 1_234).ending
    assert ending is not None
    assert ending.value is not None
    assert msgspec.json.decode(ending.value) == [
        "2023-11-14T22:13:20.007000+00:00",
        "2023-11-14T22:13:21.234000+00:00",
    ]


def test_a_program_sleeps_until_a_time_with_a_zone() -> None:
    when = datetime.datetime.fromtimestamp((T0 + 5_000) / 1_000, datetime.UTC)
    assert first(lambda ctx: ctx.sleep_until(when)).head.wake == T0 + 5_000
    assert first(lambda ctx: ctx.sleep(2)).head.wake == T0 + 2_000
    naive = when.replace(tzinfo=None)
    assert "give the time a zone" in refused(lambda ctx: ctx.sleep_until(naive))


def test_chance_is_the_same_in_each_execution() -> None:
    async def body(ctx: ProgramContext) -> object:
        assert isinstance(ctx.random(), Random)
        return [ctx.random().random(), ctx.random().random()]

    one, two = returned(body), returned(body)
    assert one == two
    assert one[0] != one[1]


def test_state_is_read_by_key_and_is_no_mapping() -> None:
    async def body(ctx: ProgramContext) -> object:
        with pytest.raises(KeyError, match="is not a name of a state key"):
            ctx.state[""]
        for odd in (lambda: list(ctx.state), lambda: "a" in ctx.state):  # type: ignore[call-overload,misc]  # on purpose
            with pytest.raises(TypeError):
                odd()
        return "read"

    assert returned(body) == "read"


def test_a_place_in_the_code_is_asked_about_once() -> None:
    async def body(ctx: ProgramContext) -> object:
        return [ctx.since("fee"), ctx.since("fee")]

    step = first(body)
    assert step.head.marks == {"fee": True}
    assert step.ending is not None


def test_the_prompt_and_earlier_runs_are_as_given() -> None:
    async def body(ctx: ProgramContext) -> object:
        return [bytes(ctx.prompt_json).decode(), [*ctx.earlier(3), *ctx.earlier()]]

    def main(run: ProgramRun) -> Any:
        wanted: list[int] = []

        def before(most: int) -> tuple[EarlierRun, ...]:
            wanted.append(most)
            return ()

        context = ProgramContext(run, Team(), Json(b'["a"]'), before)

        async def work() -> object:
            return [await body(context), wanted]

        return work()

    ending = ProgramRun(main, run_name(1, "s", "host")).step((), T0).ending
    assert ending is not None
    assert ending.value is not None
    assert msgspec.json.decode(ending.value) == [['["a"]', []], [3, 1]]


# --- the end ---------------------------------------------------------------------


def test_a_program_may_end_itself_with_a_reason_and_a_kind() -> None:
    async def body(ctx: ProgramContext) -> object:
        raise ctx.fail("no source is left", kind="budget")

    ending = first(body).ending
    assert ending is not None
    assert (ending.failure, ending.text) == ("budget", "no source is left")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"text": ""}, "give the reason"),
        ({"text": " \n"}, "give the reason"),
        ({"text": 5}, "give the reason"),
        ({"text": "x", "kind": "answered"}, "a program ends itself as one of failed"),
    ],
)
def test_an_end_without_a_reason_or_of_another_kind_is_refused(given: dict[str, Any], said: str) -> None:
    async def body(ctx: ProgramContext) -> object:
        raise ctx.fail(**given)

    assert said in refused(body)


def test_an_error_that_a_program_makes_and_does_not_raise_changes_nothing() -> None:
    async def body(ctx: ProgramContext) -> object:
        return type(ctx.fail("why")).__name__

    assert returned(body) == ProgramFailed.__name__
    assert issubclass(ProgramFailed, Exception)
    assert not issubclass(ProgramFailed, ProgramCrashed)
    assert Ask.__name__ == "Ask"


def test_a_value_of_the_state_is_read_as_a_python_value() -> None:
    async def body(ctx: ProgramContext) -> object:
        return ctx.state["place"]["town"]

    step = run_of(body).step((), T0, None, lambda key: Json(b'{"town":"%b"}' % key.encode()))
    assert step.ending is not None
    assert step.ending.text == "place"


def test_the_default_model_of_a_program_needs_no_name() -> None:
    other = ScriptedModel([], name="other")
    ctx = ProgramContext.__new__(ProgramContext)
    agent: Any = SimpleNamespace(name="host", default_model=MODEL, models=[other])
    ctx._agent = agent
    assert [ctx._known_model(one) for one in (MODEL, MODEL.spec.name)] == ["", ""]
    assert [ctx._known_model(one) for one in (other, "other")] == ["other", "other"]
    agent.default_model = None
    with pytest.raises(MisuseError, match="may not ask model"):
        ctx._known_model(MODEL)


@table(
    ("wrong", "words"),
    [
        (lambda ctx: ctx.call(work, 3), "give the arguments of"),
        (lambda ctx: ctx.ask_model("what?", tools=[{}]), "messages= in place of a prompt to set tools"),
        (lambda ctx: ctx.ask_model("what?", settings={"a": 1}), "to set settings"),
        (lambda ctx: ctx.ask_model("what?", max_tokens=5), "to set max_tokens"),
        (lambda ctx: ctx.ask_model("what?", force_tool="look"), "to set force_tool"),
        (lambda ctx: ctx.ask_model("what?", messages=[{"role": "user", "content": "a"}]), "not both"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(wrong: Any, words: str) -> None:
    assert words in refused(wrong)


@table(
    ("contracts", "argument"),
    [
        ([None], {"prompt": text_json("go")}),
        ([None, "wants"], {"input": "wants go"}),
        (["wants", "takes"], {"input": "wants go"}),
    ],
)
def test_agents_with_a_contract_are_given_a_value_and_others_a_prompt(
    contracts: list[str | None], argument: dict[str, object]
) -> None:
    def racer(name: str | None) -> Any:
        contract = None if name is None else SimpleNamespace(given=lambda prompt: f"{name} {prompt}")
        return SimpleNamespace(contract=contract)

    assert _input_or_prompt([racer(name) for name in contracts], "go") == argument
