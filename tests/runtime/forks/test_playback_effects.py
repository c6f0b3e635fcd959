"""Tools with an effect in forks: a person decides, and every process of a fork keeps to it."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.port_messages import CallTool, ModelReplied, ToolReturned, ToolStarted
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.recording import Recording
from callboard.runtime.agent import Agent
from callboard.runtime.approvals import Approval, ApprovalAnswer, Approver
from callboard.runtime.clock import now_ms
from callboard.runtime.control.offline import append_answer, open_questions
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.models.scripted import call, say
from callboard.runtime.runtime import Runtime
from callboard.runtime.sessions.session import Session
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.tool import tool
from tests.runtime.forks.kit import (
    SENT,
    Counted,
    events_of,
    forked,
    host_of,
    recorded,
    reporting,
    rows_of,
    said,
    send,
)
from tests.runtime.log.kit import child

CHANGE = {("host.1", 1, 0): "999 degrees"}


@pytest.fixture(autouse=True)
def nothing_sent() -> Iterator[None]:
    SENT.clear()
    yield
    SENT.clear()


async def asking(
    log: Any,
    answer: Any = reporting,
    host: Agent | None = None,
    approver: Approver | None = None,
    **wish: Any,
) -> tuple[Session, Runtime, Counted]:
    """Fork the origin with `effects="ask"`. The caller closes the runtime."""
    model = Counted(answer)
    runtime = Runtime(log, model=model, approve=approver)
    await runtime.__aenter__()
    wish = {"changes": CHANGE, "fork_id": "f", "effects": "ask", **wish}
    return await runtime.fork("origin", host or host_of(), **wish), runtime, model


async def question_of(session: Session) -> Approval:
    async with asyncio.timeout(10):
        async for one in session.approvals():
            return one
    raise AssertionError("no question")


@pytest.mark.parametrize("yes", [True, False])
def test_a_person_decides_about_a_call_without_a_recorded_result(yes: bool) -> None:
    async def work() -> None:
        session, runtime, _ = await asking(log)
        question = await question_of(session)
        assert (question.tool, question.is_fork, question.same, question.is_repeat) == (
            "send",
            True,
            0,
            False,
        )
        assert (question.address, question.profile, question.effect) == ("host", "host", "write")
        assert len(SENT) == 1
        assert question in session.open_approvals
        assert question.approve() if yes else question.deny("not today")
        assert not question.approve()
        outcome = await session.outcome
        assert outcome.kind == "answered"
        await session.close()
        await runtime.aclose()

    log = MemoryLog()
    asyncio.run(recorded(log, reporting))
    asyncio.run(work())
    events = events_of(log, "f")
    assert len(SENT) == (2 if yes else 1)
    begin = next(one.seq for one in events if one.kind == "Forked")
    started = [one for one in events[begin:] if isinstance(one.body, ToolStarted)]
    returned = [one.body for one in events[begin:] if isinstance(one.body, ToolReturned)][-1]
    assert isinstance(returned, ToolReturned)
    assert len(started) == (1 if yes else 0)  # nothing is announced before a person has said yes
    assert (returned.status, returned.reused) == ("ok" if yes else "error", 0)
    assert yes or b"not today" in bytes(returned.output)


def test_an_approver_in_the_process_decides() -> None:
    asked: list[Approval] = []

    def approver(question: Approval) -> bool:
        asked.append(question)
        return True

    async def work() -> None:
        session, runtime, _ = await asking(log, approver=approver)
        assert (await session.outcome).kind == "answered"
        await runtime.aclose()

    log = MemoryLog()
    asyncio.run(recorded(log, reporting))
    asyncio.run(work())
    assert [one.tool for one in asked] == ["send"]
    assert len(SENT) == 2


def test_a_question_survives_the_end_of_its_process_and_so_do_the_recorded_answers(tmp_path: Path) -> None:
    """Child 2 is slow in the recording, so that its answers come after the question."""
    log = MemoryLog()

    async def first() -> None:
        session, runtime, model = await asking(log, twice_reporting)
        await question_of(session)
        assert len(SENT) == 1
        await runtime.aclose()
        assert ("host", 3) not in model.asked

    async def second() -> None:
        rows = rows_of(log, "f")
        (open_question,) = open_questions("f", rows, now_ms())
        async with Runtime(log, model=(model := Counted(twice_reporting))) as runtime:
            session = await runtime.resume("f", host_of())
            question = await question_of(session)
            assert question.seq == open_question.request.seq
            question.approve()
            assert (await session.outcome).kind == "answered"
            await session.close()
        assert set(model.asked) == {("host", 3), ("host", 4)}

    asyncio.run(recorded(log, twice_reporting))
    asyncio.run(first())
    asyncio.run(second())
    assert SENT == ["measured 10 degrees", "measured 999 degrees"]
    statuses = [one.body.status for one in events_of(log, "f") if isinstance(one.body, ToolReturned)]
    assert "interrupted" not in statuses
    assert not [one for one in events_of(log, "f") if getattr(one.body, "status", "") == "lost"]


KILLED = """
import asyncio, sys
from pathlib import Path
from callboard.runtime.runtime import Runtime
from tests.runtime.forks import test_playback_effects as kit
from tests.runtime.forks.kit import Counted

async def main(path):
    kit.PUTS = f"{path}.puts"
    async with Runtime(path, model=Counted(kit.putting), approve=lambda question: True) as runtime:
        session = await runtime.fork("origin", kit.PUTTER, changes=kit.PUT_CHANGE, fork_id="f", effects="ask")
        await session.outcome

asyncio.run(main(sys.argv[1]))
"""
PUTS = ""
PUT_CHANGE = {("host", 1, 0): "other"}


@tool(effect="idempotent")
def put(ctx: ToolContext, text: str) -> str:
    """Put a text. The first process to do so outside of the recording is killed before it has the result."""
    path = Path(PUTS)
    is_first = PUTS and not path.exists()
    if PUTS:
        path.write_text((path.read_text() if path.exists() else "") + ctx.idempotency_key + "\n")
    if is_first:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"put {text}"


def putting(request: ModelRequest) -> Any:
    """Look, and put a text: in the second turn, or in the third if the look says so."""
    other = [call("measure", place=2)] if "other" in said(request) else []
    return [call("measure", place=1), *other, call("put", text="report"), say("Done.")][request.turn - 1]


PUTTER = Agent("host", tools=[*host_of().agents[0].tools.values(), put])


@pytest.mark.slow
def test_a_call_that_a_person_allowed_runs_again_after_a_kill_and_is_not_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, asked = tmp_path / "log.db", list[Approval]()
    asyncio.run(recorded(path, putting, PUTTER))
    done = child(KILLED, path)
    assert done.returncode == -signal.SIGKILL, done.stderr
    monkeypatch.setattr(f"{__name__}.PUTS", f"{path}.puts")
    assert open_questions("f", Recording.open(path, "f").rows, now_ms()) == []

    async def resume() -> None:
        async with (
            Runtime(path, model=Counted(putting), approve=asked.append) as runtime,
            asyncio.timeout(10),
        ):
            session = await runtime.resume("f", PUTTER)
            assert (await session.outcome).kind == "answered"

    asyncio.run(resume())
    assert asked == []
    first, second = Path(f"{path}.puts").read_text().split()
    assert first == second
    assert Recording.open(path, "f").verify().is_ok


def twice_reporting(request: ModelRequest) -> Any:
    """Let the host send the first measurement of its child."""
    if request.address != "host":
        return call("measure", place=1) if request.turn == 1 else say(said(request)[-40:])
    if request.turn == 1:
        return call("task", agent="child", prompt="Place 1.")
    where = "999 degrees" if "999" in said(request) else "10 degrees"
    if request.turn == 2:
        return call("send", text=f"measured {where}")
    return call("measure", place=2) if request.turn == 3 else say("Done.")


def test_without_a_process_a_call_of_a_fork_is_listed_and_answered_by_its_process_only() -> None:
    log = MemoryLog()

    async def leave() -> None:
        session, runtime, _ = await asking(log)
        await question_of(session)
        await runtime.aclose()

    async def answer(seq: int) -> None:
        await log.open()
        await append_answer(log, "f", seq, ApprovalAnswer(True))

    asyncio.run(recorded(log, reporting))
    asyncio.run(leave())
    (found,) = open_questions("f", rows_of(log, "f"), now_ms())
    with pytest.raises(MisuseError, match="only the process that runs the fork"):
        asyncio.run(answer(found.request.seq))


# --- the same call in another turn -------------------------------------------------------


def wandering(request: ModelRequest) -> Any:
    """Send a mail in the second turn, or in the third if the first result says so."""
    told = said(request)
    if request.turn == 1:
        return call("measure", place=1)
    if "wait" in told and request.turn == 2:
        return call("measure", place=2)
    return call("send", text="report") if "sent" not in told else say("Done.")


ALONE = Agent("host", tools=[*host_of().agents[0].tools.values(), send])
LATER = {("host", 1, 0): "wait"}


def test_the_same_call_in_another_turn_is_offered_and_never_made_silently() -> None:
    log = MemoryLog()
    asyncio.run(recorded(log, wandering, ALONE))
    sent = next(
        one.seq
        for one in events_of(log, "origin")
        if isinstance(one.body, ToolReturned) and bytes(one.body.output) == b'"sent"'
    )
    outcome, _ = asyncio.run(forked(log, wandering, ALONE, changes=LATER, fork_id="r"))
    assert outcome.kind == "needs_effect"
    assert f"event {sent} of the recording is the result of the same call" in outcome.detail

    async def work() -> None:
        session, runtime, _ = await asking(log, wandering, ALONE, changes=LATER)
        question = await question_of(session)
        assert question.same == sent
        with pytest.raises(MisuseError, match="approve it alone"):
            question.approve(always=True)
        assert await session._reuse(question.seq)
        assert (await session.outcome).kind == "answered"
        await runtime.aclose()

    asyncio.run(work())
    assert SENT == ["report"]
    (given,) = [
        one.body for one in events_of(log, "f") if isinstance(one.body, ToolReturned) and one.body.turn == 3
    ]
    assert (given.reused, given.status) == (sent, "ok")


def test_a_result_that_is_not_there_cannot_be_chosen() -> None:
    async def work() -> None:
        session, runtime, _ = await asking(log)
        question = await question_of(session)
        with pytest.raises(MisuseError, match="no recorded result in another turn"):
            question.reuse()
        await runtime.aclose()

    log = MemoryLog()
    asyncio.run(recorded(log, reporting))
    asyncio.run(work())


# --- a live effect ends the reuse of reads ------------------------------------------------

READ: list[int] = []


@tool(effect="read")
def peek(place: int) -> str:
    """Look at a place."""
    READ.append(place)
    return f"peeked {place}"


def peeking(request: ModelRequest) -> Any:
    """Look, send, look again; the sent text depends on the first look."""
    words = ["one", "two"]["other" in said(request)]
    steps = [call("peek", place=1), call("send", text=words), call("peek", place=2), say("Done.")]
    return steps[request.turn - 1]


PEEKER = Agent("host", tools=[peek, send])


@pytest.mark.parametrize(
    ("effects", "reads", "kind"), [("live", [2], "answered"), ("recorded", [], "needs_effect")]
)
def test_a_live_effect_ends_the_reuse_of_reads(effects: str, reads: list[int], kind: str) -> None:
    log = MemoryLog()
    asyncio.run(recorded(log, peeking, PEEKER))
    READ.clear()
    change = {("host", 1, 0): "other"}
    outcome, _ = asyncio.run(forked(log, peeking, PEEKER, changes=change, effects=effects, fork_id="f"))
    assert (outcome.kind, READ) == (kind, reads)
    events_of(log, "f")


def test_the_result_of_a_read_tool_that_ran_in_a_fork_is_marked() -> None:
    log = MemoryLog()
    asyncio.run(recorded(log, peeking, PEEKER))
    change = {("host", 1, 0): "other"}
    asyncio.run(forked(log, peeking, PEEKER, changes=change, effects="live", fork_id="f"))
    fork = events_of(log, "f")
    base = MemoryReader(log).segments("f")[-1].before.seq
    results = [(one.cause, one.body) for one in fork[base:] if isinstance(one.body, ToolReturned)]
    tools = {one.seq: one.body.tool for one in fork if isinstance(one.body, CallTool)}
    found = {(tools[call], bool(body.reused), body.after_origin) for call, body in results}
    assert found == {("peek", True, False), ("send", False, False), ("peek", False, True)}


def test_a_call_that_a_person_refused_ends_no_reuse() -> None:
    async def work() -> None:
        session, runtime, _ = await asking(log, peeking, PEEKER, changes={("host", 1, 0): "other"})
        (await question_of(session)).deny()
        assert (await session.outcome).kind == "answered"
        await runtime.aclose()

    log = MemoryLog()
    asyncio.run(recorded(log, peeking, PEEKER))
    READ.clear()
    asyncio.run(work())
    assert READ == []


def test_a_call_that_a_fork_did_not_run_can_run_in_a_fork_of_it() -> None:
    log = MemoryLog()
    asyncio.run(recorded(log, reporting))
    outcome, _ = asyncio.run(forked(log, reporting, changes=CHANGE, fork_id="f"))
    assert outcome.kind == "needs_effect"
    need = next(
        one.seq
        for one in events_of(log, "f")
        if isinstance(one.body, ToolReturned) and one.body.status == "needs_effect"
    )
    live, _ = asyncio.run(
        forked(log, reporting, session_id="f", at=need - 1, effects="live", fork_id="g", until=need - 1)
    )
    assert live.kind == "answered"
    assert len(SENT) == 2
    assert "999 degrees" in SENT[-1]


# --- over the end of a process --------------------------------------------------------------


def test_a_recorded_fork_runs_no_effect_in_later_processes_either() -> None:
    log = MemoryLog()
    asyncio.run(recorded(log, reporting))

    async def fork() -> None:
        async with Runtime(log, model=Counted(reporting)) as runtime:
            session = await runtime.fork("origin", host_of(), at=3, until=2, fork_id="f")
            assert (await session.outcome).kind == "answered"

    async def resume() -> str:
        async with Runtime(log, model=Counted(lambda _: call("send", text="news"))) as runtime:
            session = await runtime.resume("f", host_of())
            return (await session.ask("Send news.")).kind

    asyncio.run(fork())
    assert asyncio.run(resume()) == "needs_effect"
    assert len(SENT) == 1
    events_of(log, "f")


def test_a_fork_without_a_change_costs_nothing_wherever_its_process_ends() -> None:
    log = MemoryLog()
    whole = asyncio.run(recorded(log, reporting))
    last = len(events_of(log, "origin"))

    async def cut(name: str, passes: int) -> None:
        async with Runtime(log, model=Counted(reporting)) as runtime:
            await runtime.fork("origin", host_of(), at=3, fork_id=name)
            for _ in range(passes):
                await asyncio.sleep(0)

    async def resume(name: str) -> None:
        async with Runtime(log, model=(model := Counted(reporting))) as runtime, asyncio.timeout(10):
            session = await runtime.resume(name, host_of())
            outcome = await session.outcome
            assert (outcome.kind, outcome.text) == (whole.kind, whole.text)
            await session.close()
        assert model.asked == []

    for passes in (0, 2, 5, 9, 14, 20):
        name = f"f{passes}"
        asyncio.run(cut(name, passes))
        if len(rows_of(log, name)) <= last and not is_closed(log, name):
            asyncio.run(resume(name))
        replies = [one.body for one in events_of(log, name)[3:] if isinstance(one.body, ModelReplied)]
        assert all(reply.reused for reply in replies)
    assert len(SENT) == 1


def is_closed(log: MemoryLog, name: str) -> bool:
    return events_of(log, name)[-1].kind == "SessionClosed"


def test_a_fork_goes_on_after_its_origin_was_deleted() -> None:
    log = MemoryLog()

    async def leave() -> None:
        session, runtime, _ = await asking(log)
        await question_of(session)
        await runtime.aclose()

    async def go_on() -> None:
        async with Runtime(log, model=Counted(reporting)) as runtime, asyncio.timeout(10):
            await runtime.delete("origin", forks="keep")
            session = await runtime.resume("f", host_of())
            (await question_of(session)).approve()
            assert (await session.outcome).kind == "answered"
            await session.close()

    asyncio.run(recorded(log, reporting))
    asyncio.run(leave())
    asyncio.run(go_on())
    assert len(SENT) == 2
    events_of(log, "f")
