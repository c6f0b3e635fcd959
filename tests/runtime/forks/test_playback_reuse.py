"""The recorded answers of every port are reused in a fork, and only where the same is asked."""

import asyncio
from typing import Any

import pytest

from callboard.actors.protocol.client_messages import Forked
from callboard.actors.protocol.codec import decode, encode
from callboard.actors.protocol.errors import MissingProgram, MisuseError, UnknownName
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.port_messages import ApprovalGiven, SchemaChecked, ToolReturned
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.session.contexts import ContextRequest
from callboard.runtime.agent import Agent
from callboard.runtime.approvals import Approval
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.models.scripted import call, calls, say
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.program import program
from callboard.runtime.runtime import Runtime
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.tool import tool
from tests.runtime.forks.kit import Counted, events_of, forked, measure, recorded, said, send

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
ASKED: list[str] = []
RAN: list[str] = []


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    ASKED.clear()
    RAN.clear()


@tool(effect="write", approval="always")
def pay(amount: int) -> str:
    """Pay an amount."""
    RAN.append(f"pay {amount}")
    return f"paid {amount}"


@tool(effect="read")
def look(place: int) -> str:
    """Look at a place."""
    RAN.append(f"look {place}")
    return f"seen {place}"


def approver(question: Approval) -> bool:
    ASKED.append(question.tool)
    return True


async def record(log: Any, answer: Any, host: Agent) -> None:
    async with Runtime(log, model=Counted(answer), approve=approver) as runtime:
        await runtime.run(host, "Go.", session_id="origin", output_schema=None)


async def fork(log: Any, answer: Any, host: Agent, **wish: Any) -> tuple[str, list[tuple[str, int]]]:
    model = Counted(answer)
    async with Runtime(log, model=model, approve=approver) as runtime, asyncio.timeout(10):
        session = await runtime.fork("origin", host, fork_id="f", **wish)
        outcome = await session.outcome
        await session.close()
    return outcome.kind, model.asked


def paying(request: Any) -> Any:
    """Look, pay an amount that follows from the look, and pay 2."""
    amount = 9 if "other" in said(request) else 1
    steps = [call("look", place=1), call("pay", amount=amount), call("pay", amount=2), say("Done.")]
    return steps[request.turn - 1]


PAYER = Agent("host", tools=[look, pay])


def test_an_approval_is_given_again_with_the_recorded_result_of_its_call_only() -> None:
    log = MemoryLog()
    asyncio.run(record(log, paying, PAYER))
    assert ASKED == ["pay", "pay"]
    ASKED.clear()
    RAN.clear()
    assert asyncio.run(fork(log, paying, PAYER, at=3)) == ("answered", [])
    assert (ASKED, RAN) == ([], [])


def test_a_call_with_other_arguments_is_asked_about_again_and_not_run() -> None:
    log = MemoryLog()
    asyncio.run(record(log, paying, PAYER))
    ASKED.clear()
    RAN.clear()
    kind, _ = asyncio.run(fork(log, paying, PAYER, changes={("host", 1, 0): "other"}))
    assert (kind, ASKED, RAN) == ("needs_effect", ["pay"], [])
    given = [one.body for one in events_of(log, "f") if isinstance(one.body, ApprovalGiven)]
    assert [one.verdict for one in given] == ["approved"]


def test_another_answer_of_a_person_is_a_change_by_its_seq() -> None:
    log = MemoryLog()
    asyncio.run(record(log, paying, PAYER))
    ASKED.clear()
    RAN.clear()
    seq = next(one.seq for one in events_of(log, "origin") if isinstance(one.body, ApprovalGiven))
    kind, asked = asyncio.run(fork(log, paying, PAYER, changes={seq: "too much"}))
    assert (kind, ASKED, RAN) == ("answered", [], [])
    assert ("host", 3) in asked
    first = next(one.body for one in events_of(log, "f")[seq - 1 :] if isinstance(one.body, ApprovalGiven))
    assert (first.verdict, first.note) == ("denied", "too much")
    with pytest.raises(MisuseError, match="a person's answer"):
        asyncio.run(fork(log, paying, PAYER, changes={seq: [{"type": "text", "text": "x"}]}))


def reporting(request: Any) -> Any:
    """Report a wrong value first, in a child with a context."""
    if request.address == "host":
        task = call("task", agent="child", prompt="Count.", output_schema=SCHEMA)
        return (
            calls(call("look", place=1)) if request.turn == 1 else task if request.turn == 2 else say("Done.")
        )
    return call("report_back", m=1) if request.turn == 1 else call("report_back", n=2)


MADE: list[str] = []


def context(parent: ContextRequest) -> str:
    MADE.append(parent.parent)
    return "what the parent knows"


REPORTER = Agent(
    "host",
    tools=[look],
    agents=[Agent("child", description="Counts.", instructions="Count.", context=context)],
)


def test_schema_checks_and_contexts_are_reused() -> None:
    log = MemoryLog()
    asyncio.run(record(log, reporting, REPORTER))
    assert MADE == ["host"]
    MADE.clear()
    assert asyncio.run(fork(log, reporting, REPORTER, at=4)) == ("answered", [])
    assert MADE == []
    was, now = (
        [one.body for one in events_of(log, name) if isinstance(one.body, SchemaChecked)]
        for name in ("origin", "f")
    )
    assert [one.status for one in now] == [one.status for one in was]
    assert "invalid" in [one.status for one in now]


def test_a_context_is_made_again_for_a_parent_that_knows_something_else() -> None:
    log = MemoryLog()
    asyncio.run(record(log, reporting, REPORTER))
    MADE.clear()
    kind, asked = asyncio.run(fork(log, reporting, REPORTER, changes={("host", 1, 0): "other"}))
    assert (kind, MADE) == ("answered", ["host"])
    assert {agent for agent, _ in asked} == {"host"}  # the same context: the child is asked the same


# --- programs, checkpoints, bad input -----------------------------------------------------------

CHILD = Agent("child", description="Looks.", tools=[look])


@program(agents=[CHILD], tools=[send])
async def lead(ctx: ProgramContext, prompt: str) -> str:
    """Ask two children, one after the other."""
    one = await ctx.delegate(CHILD, "First.")
    return f"{one} and {await ctx.delegate(CHILD, 'Second.')}"


def looking(request: Any) -> Any:
    return call("look", place=1) if request.turn == 1 else say("Seen.")


def test_a_program_at_work_must_be_there() -> None:
    log = MemoryLog()
    asyncio.run(recorded(log, looking, lead))
    other = Agent("lead", description="No program.", agents=[CHILD])
    with pytest.raises(MissingProgram, match=r"in these programs: lead; pass a host"):
        asyncio.run(forked(log, looking, other, at=8, fork_id="f"))
    outcome, asked = asyncio.run(forked(log, looking, lead, at=8, fork_id="f"))
    assert (outcome.kind, asked) == ("answered", [])


@tool(effect="read")
def load(ctx: ToolContext, place: int) -> str:
    """Load data."""
    ctx.checkpoint("loaded")
    ctx.checkpoint(f"loaded-{place}")
    return f"data {place}"


def loading(request: Any) -> Any:
    return call("load", place=request.turn) if request.turn <= 2 else say("Done.")


LOADER = Agent("host", tools=[load])


def test_a_session_is_forked_from_a_checkpoint_by_its_name() -> None:
    log = MemoryLog()
    asyncio.run(recorded(log, loading, LOADER))
    seqs = [one.seq for one in events_of(log, "origin") if isinstance(one.body, ToolReturned)]
    for name, seq in (("loaded", seqs[1]), ("loaded-1", seqs[0]), ("loaded-2", seqs[1])):
        outcome, asked = asyncio.run(forked(log, loading, LOADER, at=name, fork_id=name))
        assert (outcome.kind, asked) == ("answered", [])
        begin = next(one.body for one in events_of(log, name) if isinstance(one.body, Forked))
        assert begin.at == seq
    with pytest.raises(UnknownName, match="no checkpoint 'other'; there are: loaded, loaded-1, loaded-2"):
        asyncio.run(forked(log, loading, LOADER, at="other", fork_id="x"))


@pytest.mark.parametrize("name", ["", "two words", "a#b", "a@b", "x" * 81])
def test_a_checkpoint_with_a_name_that_no_command_can_write_is_refused(name: str) -> None:
    with pytest.raises(MisuseError, match="a checkpoint has"):
        ToolContext().checkpoint(name)


def test_a_session_that_runs_is_forked_as_far_as_it_has_come() -> None:
    async def work() -> None:
        gate, waits = asyncio.Event(), asyncio.Event()

        @tool(effect="read")
        async def wait() -> str:
            """Wait."""
            waits.set()
            await gate.wait()
            return "waited"

        def answer(request: Any) -> Any:
            return calls(call("look", place=1), call("wait")) if request.turn == 1 else say("Done.")

        host = Agent("host", tools=[look, wait])
        async with Runtime(log, model=Counted(answer)) as runtime, asyncio.timeout(10):
            origin = await runtime.open(host, session_id="origin")
            asking = asyncio.create_task(origin.ask("Go."))
            await waits.wait()
            await asyncio.sleep(0.01)
            session = await runtime.fork("origin", host, fork_id="f")
            gate.set()
            assert (await session.outcome).text == (await asking).text == "Done."
            await session.close()

    log = MemoryLog()
    asyncio.run(work())
    assert RAN.count("look 1") == 1
    for name in ("origin", "f"):
        events_of(log, name)


def test_an_event_of_a_decider_names_the_input_to_change() -> None:
    log = MemoryLog()
    asyncio.run(recorded(log, loading, LOADER))
    turn = next(one.seq for one in events_of(log, "origin") if one.kind == "TurnRequested")
    with pytest.raises(MisuseError, match="was decided by host and cannot be changed; change the input"):
        asyncio.run(forked(log, loading, LOADER, changes={turn: "x"}, fork_id="f"))
    with pytest.raises(MisuseError, match="event 1, SessionOpened, cannot be changed"):
        asyncio.run(forked(log, loading, LOADER, changes={1: "x"}, fork_id="f"))


def test_another_prompt_begins_a_fork_before_its_ask() -> None:
    log = MemoryLog()
    asyncio.run(recorded(log, loading, LOADER))
    outcome, asked = asyncio.run(forked(log, loading, LOADER, changes={2: "Another prompt."}, fork_id="f"))
    assert outcome.kind == "answered"
    assert asked[0] == ("host", 1)
    begin = next(one.body for one in events_of(log, "f") if isinstance(one.body, Forked))
    assert begin.at == 1
    assert decode(encode(begin)) == begin
    assert bytes(begin.changes[0].value) == b'"Another prompt."'


MEASURER = Agent("child", description="Measures.", tools=[measure])


@program(agents=[MEASURER], tools=[measure])
async def shifting(ctx: ProgramContext, prompt: str) -> str:
    """Measure a place, ask one child more if it is warm there, then ask three at once."""
    found = str(await ctx.call("measure", place=1))
    more = [await ctx.delegate(MEASURER, "Why is it so warm?")] if "999" in found else []
    more += await asyncio.gather(*(ctx.delegate(MEASURER, f"Place {at}.") for at in range(1, 4)))
    return ", ".join(str(one) for one in more)


def measuring(request: ModelRequest) -> Any:
    """Let a child measure a place twice."""
    return call("measure", place=2) if request.turn <= 2 else say(said(request)[:60])


def test_children_of_a_program_keep_their_recorded_answers_when_their_ordinals_shift() -> None:
    log = MemoryLog()
    asyncio.run(recorded(log, measuring, shifting))
    outcome, asked = asyncio.run(
        forked(log, measuring, shifting, changes={("host", 1, 0): "999 degrees"}, fork_id="f")
    )
    assert outcome.kind == "answered"
    assert asked == [("host.1", turn) for turn in (1, 2, 3)]
    fork = events_of(log, "f")
    begun = [one.recipient for one in fork if isinstance(one.body, Begin)]
    assert begun == ["host", "host.1", "host.2", "host.3", "host.4"]
