"""`@program`, and programs in live sessions."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import pytest

from callboard import (
    Agent,
    Limits,
    Outcome,
    ProgramContext,
    Runtime,
    ScriptedModel,
    Session,
    call,
    program,
    tool,
)
from callboard.actors.protocol.port_messages import CallTool
from callboard.errors import CallFailed, DelegationFailed, InvalidAgent, MisuseError, SessionDetached
from callboard.log import MemoryLog
from callboard.replay import Recording
from callboard.runtime.compaction import Compact
from callboard.runtime.log.memory import MemoryReader
from tests.waiting import until


@dataclass
class Verdict:
    """A typed result."""

    is_good: bool
    score: int


@tool(effect="read")
async def double(n: int) -> int:
    """Return twice the number."""
    return 2 * n


@tool(effect="read")
async def hang(n: int = 0) -> str:
    """Wait for longer than a test may."""
    await asyncio.sleep(3_600)
    return "late"


@tool(effect="read")
def judge(name: str) -> Verdict | None:
    """Judge."""
    return Verdict(is_good=name == "ann", score=len(name)) if name else None


def live(body: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run an async test."""

    @functools.wraps(body)
    def test() -> None:
        asyncio.run(body())

    return test


def called(log: MemoryLog, session: Session) -> list[str]:
    """Return the tools that were called."""
    events = Recording.open(MemoryReader(log), session.session_id).events
    return [event.body.tool for event in events if isinstance(event.body, CallTool)]


worker = Agent("worker", description="Works.", instructions="Work.")
MODEL = ScriptedModel(lambda request: f"{request.profile} says hello")


def test_a_program_is_an_agent_named_and_described_by_its_function() -> None:
    @program(tools=[double], agents=[worker])
    async def triage(ctx: ProgramContext, prompt: str) -> str:
        """Sort the mail.

        Slowly.
        """
        return prompt

    profile = triage.profile()
    assert (triage.name, triage.description) == ("triage", "Sort the mail.")
    assert (profile.turns, profile.agents, profile.model) == ("any", ("worker",), triage.model.spec)
    assert triage.model.spec.kind == "program"


@dataclass
class Letter:
    """The input of a program."""

    sender: str
    pages: int = 1


@live
async def test_a_program_with_a_contract_gets_its_value_under_each_of_its_names() -> None:
    @program(input=Letter)
    async def sort(ctx: ProgramContext, letter: Letter) -> str:
        """Sort a letter."""
        return f"{letter.sender} {letter.pages}"

    async with Runtime(MemoryLog()) as runtime:
        for host, given in ((sort, Letter("ann", 3)), (sort.preset("from_ann", sender="ann"), {"pages": 3})):
            outcome = await runtime.run(host, given)
            assert outcome.text == "ann 3"
            assert (host.model.spec.name, repr(host)) == (f"program:{host.name}", f"Program({host.name!r})")


@live
async def test_a_program_is_called_as_a_part_of_another() -> None:
    @program(tools=[double])
    async def part(ctx: ProgramContext, prompt: str) -> int:
        """Double a number."""
        return await ctx.call(double, n=int(prompt))

    @program(tools=[double])
    async def whole(ctx: ProgramContext, prompt: str) -> int:
        """Double a number twice."""
        return await part(ctx, str(await part(ctx, prompt)))

    async with Runtime(MemoryLog()) as runtime:
        outcome = await runtime.run(whole, "3")
    assert (outcome.text, whole.text_of(outcome)) == ("12", "12")


def test_a_function_that_cannot_be_a_program_is_refused() -> None:
    def plain(ctx: ProgramContext, prompt: str) -> str:
        return prompt

    async def lonely(ctx: ProgramContext) -> str:
        return ""

    with pytest.raises(InvalidAgent, match="is not an async function"):
        program(plain)  # type: ignore[arg-type]  # a wrong value, on purpose
    with pytest.raises(InvalidAgent, match="takes a context and a prompt"):
        program(lonely)  # type: ignore[arg-type]  # a wrong value, on purpose
    with pytest.raises(TypeError, match="'agnets'"):

        @program(agnets=[])  # type: ignore[call-overload, untyped-decorator]  # a wrong name, on purpose
        async def misled(ctx: ProgramContext, prompt: str) -> str:
            return prompt


@live
async def test_a_host_calls_delegates_asks_and_sleeps() -> None:
    @program(tools=[double, judge], agents=[worker])
    async def host(ctx: ProgramContext, prompt: str) -> dict[str, object]:
        numbers = await asyncio.gather(*(ctx.call(double, n=n) for n in range(3)))
        ann, none = await ctx.call(judge, name="ann"), await ctx.call(judge, name="")
        await ctx.sleep(0.02)
        assert ann is not None
        return {
            "numbers": numbers,
            "score": ann.score,
            "none": none,
            "worker": await ctx.delegate(worker, "work"),
            "model": await ctx.ask_model("what?", system="Be brief."),
        }

    log = MemoryLog()
    async with Runtime(log, model=MODEL) as runtime:
        outcome = await runtime.run(host, "go")
        assert outcome.kind == "answered"
        assert outcome.text == (
            '{"numbers":[0,2,4],"score":3,"none":null,"worker":"worker says hello",'
            '"model":"ask_model says hello"}'
        )
        assert host.model.parked == 0
        assert Recording.open(MemoryReader(log), outcome.session_id).verify().is_ok


@live
async def test_a_program_as_a_sub_agent_returns_a_typed_report() -> None:
    @program(description="Judges.", tools=[judge])
    async def judging(ctx: ProgramContext, prompt: str) -> Verdict | None:
        return await ctx.call(judge, name=prompt)

    @program(agents=[judging])
    async def host(ctx: ProgramContext, prompt: str) -> int:
        verdict = await ctx.delegate(judging, prompt, schema=Verdict)
        return verdict.score

    async with Runtime(MemoryLog(), model=MODEL) as runtime:
        assert (await runtime.run(host, "ann")).text == "3"


@live
async def test_a_value_is_the_structured_output_and_a_report_where_one_is_owed() -> None:
    @program
    async def counting(ctx: ProgramContext, prompt: str) -> dict[str, int]:
        return {"words": len(prompt.split())}

    async with Runtime(MemoryLog(), model=MODEL) as runtime:
        plain = await runtime.run(counting, "two words")
        assert (plain.kind, plain.text) == ("answered", '{"words":2}')
        assert plain.structured_output == plain.unwrap() == {"words": 2}
        owed = await runtime.run(counting, "two words", output_schema=dict[str, int])
        assert (owed.kind, owed.unwrap()) == ("reported", {"words": 2})
        refused = await runtime.run(counting, "two words", output_schema=dict[str, str])
        assert refused.kind == "invalid_report"
        assert "/words: must be string, got 2" in refused.detail


@live
async def test_a_program_serves_a_model_that_delegates_to_it() -> None:
    @program(description="Doubles.", tools=[double])
    async def doubling(ctx: ProgramContext, prompt: str) -> int:
        return await ctx.call(double, n=int(prompt))

    script = ScriptedModel([call("task", agent="doubling", prompt="21"), "It is 42."])
    host = Agent("host", agents=[doubling])
    async with Runtime(MemoryLog(), model=script) as runtime:
        outcome = await runtime.run(host, "go")
        assert (outcome.text, outcome.delegations[0].text) == ("It is 42.", "42")


@live
async def test_a_timeout_gives_up_one_call_and_the_program_goes_on() -> None:
    @program(tools=[hang, double])
    async def host(ctx: ProgramContext, prompt: str) -> str:
        try:
            async with asyncio.timeout(0.05):
                return await ctx.call(hang)
        except TimeoutError:
            return f"gave up, {await ctx.call(double, n=1)}"

    async with Runtime(MemoryLog(), model=MODEL) as runtime:
        assert (await runtime.run(host, "go")).text == "gave up, 2"


@live
async def test_a_failed_delegation_is_a_typed_error() -> None:
    @program(agents=[worker])
    async def host(ctx: ProgramContext, prompt: str) -> str:
        try:
            return await ctx.delegate(worker, "work")
        except DelegationFailed as error:
            return f"{error.kind}: {error.text}"

    async with Runtime(MemoryLog(), model=ScriptedModel({})) as runtime:
        assert (await runtime.run(host, "go")).text.startswith("model_error: ")


@live
async def test_a_crash_names_the_line_of_the_program() -> None:
    @program
    async def host(ctx: ProgramContext, prompt: str) -> str:
        raise LookupError("no such order")

    async with Runtime(MemoryLog(), model=MODEL) as runtime:
        outcome = await runtime.run(host, "go")
        assert outcome.kind == "crashed"
        assert "LookupError: no such order (test_program.py:" in outcome.detail


@live
async def test_a_stop_in_a_gather_runs_finally_at_once_and_leaves_nothing_parked() -> None:
    seen: list[str] = []

    @program(tools=[hang, double])
    async def host(ctx: ProgramContext, prompt: str) -> str:
        try:
            await asyncio.gather(*(ctx.call(hang, n=n) for n in range(5)))
        finally:
            seen.append("finally")
            await ctx.call(double, n=1)  # never posted
        return "done"

    log = MemoryLog()
    async with Runtime(log, model=MODEL) as runtime:
        session = await runtime.open(host)
        asking = asyncio.create_task(session.ask("go"))
        await until(lambda: host.model.parked)
        outcome = await session.cancel()
        assert outcome is not None
        assert (outcome.kind, seen, host.model.parked) == ("cancelled", ["finally"], 0)
        await asking
        await session.close()
        assert called(log, session) == ["hang"] * 5


@pytest.mark.usefixtures("short_grace")
@live
async def test_a_resumed_program_goes_on_where_it_was() -> None:
    begun: list[int] = []
    gate = asyncio.Event()

    @tool(effect="read")
    async def wait_for_gate(n: int) -> int:
        """Wait."""
        await gate.wait()
        return n

    @program(tools=[double, wait_for_gate])
    async def host(ctx: ProgramContext, prompt: str) -> list[int]:
        begun.append(1)
        first = await ctx.call(double, n=ctx.random().randrange(1_000))
        return [first, await ctx.call(wait_for_gate, n=first), await ctx.call(double, n=first)]

    log = MemoryLog()
    async with Runtime(log, model=MODEL) as runtime:
        session = await runtime.open(host)
        asking = asyncio.create_task(session.ask("go"))
        await until(lambda: "wait_for_gate" in called(log, session))
        name = session.session_id
    with pytest.raises(SessionDetached):
        await asking
    assert host.model.parked == 0
    gate.set()
    async with Runtime(log, model=MODEL) as runtime:
        again = await runtime.resume(name, host)
        assert again.outcome is not None
        outcome = await again.outcome
        first, second, third = map(int, outcome.text.strip("[]").split(","))
        # Executed three times: at first, for the check before the session is taken over, and to go on.
        assert (first == second, third == 2 * first, len(begun)) == (True, True, 3)
        await again.close()
        assert Recording.open(MemoryReader(log), name).verify().is_ok


@live
async def test_an_answer_of_the_grace_is_received_after_its_timeout() -> None:
    leaving = asyncio.Event()

    @tool(effect="read")
    async def quick() -> str:
        """Return in the grace."""
        await leaving.wait()
        return "in time"

    @program(tools=[quick])
    async def host(ctx: ProgramContext, prompt: str) -> str:
        if prompt == "timeout":
            async with asyncio.timeout(0.3):
                return await ctx.call(quick)
        return await asyncio.wait_for(ctx.call(quick), 0.3)

    async def resumed(form: str) -> Outcome:
        log = MemoryLog()
        async with Runtime(log, model=MODEL) as runtime:
            session = await runtime.open(host)
            asking = asyncio.create_task(session.ask(form))
            await until(lambda: called(log, session))
            detaching = asyncio.create_task(session.detach(grace_s=5))
            await asyncio.sleep(0)
            leaving.set()
            await detaching
        with pytest.raises(SessionDetached):
            await asking
        await asyncio.sleep(0.3)
        async with Runtime(log, model=MODEL) as runtime:
            return await (await runtime.resume(session.session_id, host)).outcome

    for form in ("timeout", "wait_for"):
        leaving.clear()
        outcome = await resumed(form)
        assert (outcome.kind, outcome.text) == ("answered", "in time")


@live
async def test_copies_of_a_program_race_and_the_losers_are_stopped() -> None:
    ended: list[str] = []

    @program(description="Races.", tools=[double, hang])
    async def racer(ctx: ProgramContext, prompt: str) -> int:
        try:
            if ctx.random().random() < 0:
                await ctx.call(hang)
            return await ctx.call(double, n=4)
        finally:
            ended.append("ended")

    @program(agents=[racer])
    async def host(ctx: ProgramContext, prompt: str) -> str:
        return await ctx.delegate(racer, "go", copies=3)

    async with Runtime(MemoryLog(), model=MODEL) as runtime:
        assert (await runtime.run(host, "go")).text == "8"
    assert len(ended) == 3
    assert racer.model.parked == 0


@live
async def test_a_model_that_is_listed_can_be_asked_by_name_and_no_other() -> None:
    other = ScriptedModel(lambda request: "the other", name="other")

    @program(models=[other])
    async def host(ctx: ProgramContext, prompt: str) -> list[str]:
        first = await ctx.ask_model("a", model=other)
        try:
            await ctx.ask_model("a", model="unknown")
        except MisuseError as error:
            return [first, str(error)]
        return []

    async with Runtime(MemoryLog(), model=MODEL) as runtime:
        text = (await runtime.run(host, "go")).text
        assert text.startswith("[\"the other\",\"program 'host' may not ask model 'unknown': list it")


@live
async def test_a_program_with_a_model_of_its_own_hands_it_down_and_asks_it() -> None:
    own, listed = (ScriptedModel(lambda request: request.model.name, name=name) for name in ("own", "listed"))
    kid, odd = Agent("kid"), Agent("odd", model=listed)

    @program(model=own, models=[listed], agents=[kid, odd])
    async def inner(ctx: ProgramContext, prompt: str) -> list[str]:
        asked = [await ctx.ask_model("a"), await ctx.ask_model("a", model=own)]
        named = await ctx.ask_model("a", model="listed")
        return [*asked, named, await ctx.delegate(kid, "a"), await ctx.delegate(odd, "a")]

    @program(agents=[inner, kid])
    async def host(ctx: ProgramContext, prompt: str) -> list[str]:
        return [await ctx.delegate(inner, "go"), await ctx.delegate(kid, "go")]

    expected = '["own","own","listed","own","listed"]'
    async with Runtime(MemoryLog()) as runtime:  # needs no model of the runtime
        assert (await runtime.run(inner, "go")).text == expected
    default = ScriptedModel(lambda request: request.model.name, name="default")
    async with Runtime(MemoryLog(), model=default) as runtime:
        outcome = await runtime.run(host, "go")
        assert outcome.report == [expected, "default"]


def test_the_model_of_a_program_can_be_replaced_and_is_checked() -> None:
    own, other = ScriptedModel([], name="own"), ScriptedModel([], name="other")

    @program(model=own)
    async def host(ctx: ProgramContext, prompt: str) -> str:
        return ""

    changed = host.with_model(other)
    assert (host.model_below, changed.model_below) == (own, other)
    assert changed.profile().default_model == other.spec
    assert changed.all_models == (changed.model, other)
    with pytest.raises(InvalidAgent, match="is not a model"):
        program(model=3)(host.function)  # type: ignore[call-overload]  # what is refused


def test_a_program_has_no_conversation_that_could_be_shortened() -> None:
    @program
    async def host(ctx: ProgramContext, prompt: str) -> str:
        return ""

    with pytest.raises(InvalidAgent, match="program 'host' has no conversation that could be shortened"):
        host.with_compact(Compact())


@live
async def test_a_program_without_a_model_below_it_needs_none() -> None:
    @program(tools=[double])
    async def host(ctx: ProgramContext, prompt: str) -> object:
        found = await ctx.call(double, n=1)
        try:
            return await ctx.ask_model("what?")
        except DelegationFailed as error:
            return [found, error.text]

    async with Runtime(MemoryLog()) as runtime:
        assert "pass Runtime(model=...)" in (await runtime.run(host, "go")).text


@live
async def test_a_session_has_a_run_for_each_prompt() -> None:
    @program(tools=[double])
    async def host(ctx: ProgramContext, prompt: str) -> int:
        return await ctx.call(double, n=int(prompt))

    async with Runtime(MemoryLog(), model=MODEL) as runtime, await runtime.open(host) as session:
        for n in range(1, 4):
            assert (await session.ask(str(n))).text == str(2 * n)


@live
async def test_a_result_that_would_be_cut_is_an_error_for_a_program() -> None:
    @tool(effect="read")
    async def long(n: int) -> str:
        """Return much."""
        return "x" * n

    @program(tools=[long])
    async def host(ctx: ProgramContext, prompt: str) -> str:
        try:
            return await ctx.call(long, n=301)
        except CallFailed as error:
            return f"{len(await ctx.call(long, n=300))}, {error.text}"

    async with Runtime(MemoryLog(), model=MODEL, limits=Limits(max_tool_output_chars=300)) as runtime:
        text = (await runtime.run(host, "go")).text
        assert text.startswith(
            "300, The tool ran, but what it returned cannot be used: it has 301 characters"
        )


@live
async def test_steps_use_no_tokens() -> None:
    @program(tools=[double])
    async def host(ctx: ProgramContext, prompt: str) -> int:
        return sum([await ctx.call(double, n=n) for n in range(100)])

    async with Runtime(MemoryLog(), model=MODEL) as runtime:
        outcome = await runtime.run(host, "go", limits=Limits(tokens=1))
        assert (outcome.kind, outcome.text, outcome.usage.tokens) == ("answered", "9900", 0)
