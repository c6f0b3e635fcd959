"""`callboard tell`, beside the process that runs the session and without one."""

import asyncio
from pathlib import Path

from callboard import Runtime, ScriptedModel
from callboard.runtime.sessions.session import Session
from tests.cli.conftest import Callboard
from tests.cli.test_approvals_command import Run, beside
from tests.runtime.ports.test_approval_port import NAME, PAY, Till, plan


def test_words_are_read_by_the_agent_beside_its_owner(callboard: Callboard, tmp_path: Path) -> None:
    async def talk(session: Session, run: Run) -> None:
        telling = asyncio.ensure_future(run("tell", NAME, "host", "only cash"))
        (question,) = session.open_approvals
        async for event in session.events():
            if event.kind == "Told":
                break
        question.approve()
        told = await telling
        assert (told.exit_code, told.stdout) == (0, "")
        assert "host reads it in turn 2" in told.stderr

    beside(callboard, tmp_path / "log.db", talk)


def test_words_for_no_running_agent_fail_and_say_why(callboard: Callboard, tmp_path: Path) -> None:
    async def talk(session: Session, run: Run) -> None:
        nobody = await run("tell", NAME, "host.7", "hurry")
        assert nobody.exit_code == 2
        assert "there is no running agent 'host.7'" in nobody.stderr
        assert (await run("tell", NAME, "host", "x" * 20_000)).exit_code == 2
        other = await run("tell", "no-such-session", "host", "hurry")
        assert other.exit_code == 3

    beside(callboard, tmp_path / "log.db", talk)


def test_without_an_owner_no_agent_is_told_anything(callboard: Callboard, tmp_path: Path) -> None:
    log = tmp_path / "log.db"

    async def scene() -> None:
        async with Runtime(log, model=ScriptedModel(plan(PAY))) as runtime:
            await runtime.open(Till().host, session_id=NAME)

    asyncio.run(scene())
    done = callboard("tell", NAME, "host", "hurry", "--log", str(log))
    assert done.exit_code == 3
    assert "no process that owns" in done.stderr
