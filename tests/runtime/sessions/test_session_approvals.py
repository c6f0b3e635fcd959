"""People control the tools of a session: by the id of a question, by permissions, and by other tools."""

import asyncio
from typing import Any

import pytest

from callboard.actors.protocol.client_messages import RevokePermission, ToolsChanged
from callboard.actors.protocol.errors import MisuseError, SessionEnded, UnknownName
from callboard.actors.protocol.port_messages import ApprovalGiven
from callboard.runtime.agent import Agent
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import event_of
from callboard.runtime.models.scripted import ScriptedModel, call, say
from callboard.runtime.runtime import Runtime
from callboard.runtime.sessions.session import Session
from callboard.runtime.tools.tool import tool
from tests.runtime.log.slow_log import SlowLog, passes

PAID: list[int] = []


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    PAID.clear()


@tool(approval="before")
def pay(amount: int) -> str:
    """Pay an amount."""
    PAID.append(amount)
    return "paid"


@tool(effect="read")
def look() -> str:
    """Look."""
    return "seen"


KID = Agent("kid", description="Pays.", tools=[pay])
HOST = Agent("host", tools=[pay, look], agents=[KID])


def bodies(log: MemoryLog, kind: type) -> list[Any]:
    rows = MemoryReader(log).events("s", 1, 1_000)
    return [one.body for one in (event_of("s", row) for row in rows) if isinstance(one.body, kind)]


def with_session(work: Any, *steps: Any, log: MemoryLog | None = None, host: Agent = HOST) -> MemoryLog:
    """Run a test on a session whose model takes these steps."""
    made = MemoryLog() if log is None else log

    async def inside() -> None:
        async with Runtime(made, model=ScriptedModel([*steps, say("Done.")])) as runtime, asyncio.timeout(20):
            session = await runtime.open(host, session_id="s")
            await work(session)

    asyncio.run(inside())
    return made


async def asked(session: Session) -> int:
    """Return the seq of the next question."""
    async for one in session.approvals():
        return one.seq
    raise AssertionError("no question")


def test_a_question_is_answered_by_its_seq_with_all_that_a_person_says() -> None:
    async def work(session: Session) -> None:
        asking = asyncio.ensure_future(session.ask("go"))
        seq = await asked(session)
        assert [one.seq for one in session.open_approvals] == [seq]
        assert await session.approve(seq, "fine", by="ann", arguments={"amount": 7}, labels=["mail"])
        assert not await session.approve(seq)
        assert not await session.deny(seq)
        assert (await asking).kind == "answered"
        assert session.open_approvals == ()

    (given,) = bodies(with_session(work, call("pay", amount=3)), ApprovalGiven)
    assert PAID == [7]
    assert (given.verdict, given.note, given.by, given.labels) == ("approved", "fine", "ann", ("mail",))


def test_a_refusal_has_its_note_and_its_person() -> None:
    async def work(session: Session) -> None:
        asking = asyncio.ensure_future(session.ask("go"))
        assert await session.deny(await asked(session), "too much", by="ann")
        await asking

    (given,) = bodies(with_session(work, call("pay", amount=3)), ApprovalGiven)
    assert (given.verdict, given.note, given.by, PAID) == ("denied", "too much", "ann", [])


def test_an_event_that_asks_nothing_is_named() -> None:
    async def work(session: Session) -> None:
        await session.ask("go")
        for answer in (session.approve, session.deny, session._reuse):
            with pytest.raises(UnknownName, match="asks for no approval"):
                await answer(1)

    with_session(work)


def test_a_call_of_no_fork_has_nothing_to_reuse() -> None:
    async def work(session: Session) -> None:
        asking = asyncio.ensure_future(session.ask("go"))
        seq = await asked(session)
        with pytest.raises(MisuseError, match="no recorded result to reuse"):
            await session._reuse(seq)
        await session.approve(seq)
        await asking

    with_session(work, call("pay", amount=3))


def test_a_permission_holds_until_it_is_revoked() -> None:
    async def work(session: Session) -> None:
        asking = asyncio.ensure_future(session.ask("go"))
        await session.approve(await asked(session), always=True)
        await asking
        (permission,) = session.permissions()
        assert (permission.profile, permission.tool) == ("host", "pay")
        assert not await session.revoke(permission.seq + 1)
        assert await session.revoke(permission.seq, by="ann " + "x" * 500)
        assert session.permissions() == ()
        assert not await session.revoke(permission.seq)

    log = with_session(work, call("pay", amount=1), call("pay", amount=2))
    assert PAID == [1, 2]
    (revoked,) = bodies(log, RevokePermission)
    assert revoked.by.startswith("ann ")
    assert len(revoked.by) <= 200


def test_a_session_that_has_ended_revokes_nothing() -> None:
    async def work(session: Session) -> None:
        asking = asyncio.ensure_future(session.ask("go"))
        await session.approve(await asked(session), always=True)
        await asking
        (permission,) = session.permissions()
        await session.close()
        if permission in session.permissions():
            with pytest.raises(SessionEnded):
                await session.revoke(permission.seq)
        else:
            assert not await session.revoke(permission.seq)
        with pytest.raises(SessionEnded):
            await session.set_tools([look])

    with_session(work, call("pay", amount=1))


# --- other tools ---------------------------------------------------------------------------------------


def test_other_tools_are_posted_for_a_profile_or_an_address() -> None:
    async def work(session: Session) -> None:
        await session.set_tools(["look"], agent=HOST)
        await session.set_tools([], agent="kid")
        await session.set_tools(["pay"], address="host")

    changes = [one.change for one in bodies(with_session(work), ToolsChanged)]
    assert [(one.profile, one.address, [spec.name for spec in one.tools]) for one in changes] == [
        ("host", "", ["look"]),
        ("kid", "", []),
        ("", "host", ["pay"]),
    ]


def test_tools_and_agents_that_are_not_there_are_refused() -> None:
    async def work(session: Session) -> None:
        with pytest.raises(
            UnknownName, match=r"no agent runs at 'host\.1'; to set the tools of later agents"
        ):
            await session.set_tools([look], address="host.1")
        with pytest.raises(UnknownName):
            await session.set_tools(["fly"], agent="host")
        with pytest.raises(UnknownName):
            await session.set_tools([look], agent="nobody")
        with pytest.raises(MisuseError):
            await session.set_tools([look, look], agent="host")

    assert bodies(with_session(work), ToolsChanged) == []


def test_a_change_of_tools_returns_once_it_is_durable() -> None:
    log = SlowLog()

    async def work(session: Session) -> None:
        await session._board.durable()
        log.gate.clear()
        changing = asyncio.ensure_future(session.set_tools(["look"], agent="host"))
        await passes(5)
        assert not changing.done()
        log.gate.set()
        await changing
        assert len(bodies(log, ToolsChanged)) == 1

    with_session(work, log=log)
