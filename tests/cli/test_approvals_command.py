"""`callboard approvals` and `callboard cancel`, beside a live owner and without one."""

import asyncio
import json
import os
import socket
import subprocess
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from callboard import Agent, ModelRequest, Reply, Runtime, ScriptedModel, Tool, ToolContext, call, say
from callboard.actors.protocol.value_types import InputAsked
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.owner import read_lock
from callboard.runtime.sessions.session import Session
from callboard.runtime.tools.input_forms import InputNeeded, checked_forms
from tests.cli.agents import SURVEY, Terminal, command, environment
from tests.cli.conftest import Callboard
from tests.cli.test_run_command import needs_terminals
from tests.runtime.control.test_offline import resumed, waiting
from tests.runtime.ports.test_approval_port import NAME, PAY, Till, plan

Run = Callable[..., Awaitable[Result]]


def beside(callboard: Callboard, log: Path, talk: Callable[[Session, Run], Awaitable[None]]) -> Till:
    """Let a session wait for an approval in this process, and run commands beside it."""
    till = Till()

    async def run(*arguments: str) -> Result:
        return await asyncio.to_thread(partial(callboard, *arguments, "--log", str(log)))

    async def scene() -> None:
        async with Runtime(log, model=ScriptedModel(plan(PAY))) as runtime:
            session = await runtime.open(till.host, session_id=NAME)
            asking = asyncio.create_task(session.ask("go"))
            await anext(session.approvals())
            await talk(session, run)
            for question in session.open_approvals:
                question.deny()
            await asking

    asyncio.run(scene())
    return till


# --- beside the owner -------------------------------------------------------------


def test_a_call_is_listed_and_answered_once_beside_its_owner(callboard: Callboard, tmp_path: Path) -> None:
    async def talk(session: Session, run: Run) -> None:
        (question,) = session.open_approvals
        listed = await run("approvals")
        assert listed.stdout.startswith(f"{question.id}: host (host) wants to call pay, effect write\n")
        assert '{"euros":5}' in listed.stdout
        (item,) = json.loads((await run("approvals", "--json")).stdout)
        assert (item["id"], item["arguments"]) == (question.id, {"euros": 5})
        assert (await run("approvals", "--yes", question.id)).exit_code == 0
        late = await run("approvals", "--no", question.id)
        assert late.exit_code == 1
        assert "has already been answered" in late.stderr
        assert "no call waits" in (await run("approvals")).stderr

    assert beside(callboard, tmp_path / "a.db", talk).paid == [5]


def test_an_answer_has_the_name_of_its_person_and_a_note(callboard: Callboard, tmp_path: Path) -> None:
    async def talk(session: Session, run: Run) -> None:
        (question,) = session.open_approvals
        assert (
            await run("approvals", "--no", question.id, "--note", "at most 3", "--by", "ann")
        ).exit_code == 0

    beside(callboard, tmp_path / "a.db", talk)
    events = callboard("events", "--log", str(tmp_path / "a.db"), "--kind", "ApprovalGiven").stdout
    assert "denied by ann: at most 3" in events


def test_always_permits_later_calls(callboard: Callboard, tmp_path: Path) -> None:
    async def talk(session: Session, run: Run) -> None:
        (question,) = session.open_approvals
        assert (await run("approvals", "--yes", question.id, "--always")).exit_code == 0
        assert [one.tool for one in session.permissions()] == ["pay"]

    beside(callboard, tmp_path / "a.db", talk)


def test_an_ask_is_cancelled_in_its_own_process(callboard: Callboard, tmp_path: Path) -> None:
    async def talk(session: Session, run: Run) -> None:
        done = await run("cancel", NAME, "--reason", "wrong prompt")
        assert (done.exit_code, done.stderr) == (0, f"session {NAME}: cancelled\n")
        assert (await run("cancel", NAME)).stderr == f"session {NAME}: no ask runs\n"
        assert (await run("cancel", "other")).exit_code == 3

    assert beside(callboard, tmp_path / "a.db", talk).paid == []


# --- without an owner -------------------------------------------------------------


def test_a_call_is_listed_and_answered_once_without_an_owner(callboard: Callboard, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    seq = waiting(path)
    run = partial(callboard, "approvals", "--log", str(path))
    assert run().stdout.startswith(f"{NAME}#{seq}: host (host) wants to call pay")
    assert json.loads(run("--json").stdout)[0]["seq"] == seq
    done = run("--yes", f"{NAME}#{seq}", "--json")
    assert json.loads(done.stdout) == {"id": f"{NAME}#{seq}", "counted": True}
    assert "callboard resume one MODULE:AGENT" in done.stderr
    assert run("--no", f"{NAME}#{seq}").exit_code == 1
    assert json.loads(run("--json").stdout) == []
    assert callboard("verify", "--log", str(path)).exit_code == 0
    assert resumed(path)[1].paid == [5]


def test_the_socket_of_a_dead_owner_counts_as_no_owner(callboard: Callboard, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    seq = waiting(path)
    left = socket.socket(socket.AF_UNIX)
    left.bind(os.fspath(tmp_path / "a.db.sock"))
    left.close()
    (tmp_path / "a.db.lock").write_text(f"99999\n{tmp_path}/a.db.sock\n")
    assert callboard("approvals", "--log", str(path), "--no", f"{NAME}#{seq}").exit_code == 0
    assert callboard("cancel", NAME, "--log", str(path)).exit_code == 3


def test_a_socket_that_is_not_ours_is_not_talked_to(callboard: Callboard, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    waiting(path)
    (tmp_path / "bait").write_text("no socket")
    (tmp_path / "a.db.lock").write_text(f"99999\n{tmp_path}/bait\n")
    done = callboard("approvals", "--log", str(path))
    assert done.exit_code == 1
    assert "is not a socket; it is left alone" in done.stderr


def test_an_owner_that_does_not_listen_is_named(callboard: Callboard, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    seq = waiting(path)

    async def scene() -> Result:
        log = SQLiteLog(path)
        await log.open()
        try:
            return await asyncio.to_thread(
                partial(callboard, "approvals", "--log", str(path), "--yes", f"{NAME}#{seq}")
            )
        finally:
            await log.close()

    done = asyncio.run(scene())
    assert done.exit_code == 1
    assert "is owned by" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--yes", "one"), 2, "write SESSION#SEQ"),
        (("--yes", "#4"), 2, "write SESSION#SEQ"),
        (("--yes", "one#-4"), 2, "write SESSION#SEQ"),
        (("--yes", "one#4", "--no", "one#4"), 2, "answer one call"),
        (("--always",), 2, "goes with --yes"),
        (("--yes", "other#4"), 3, "there is no session"),
        (("--yes", "one#1"), 3, "asks for no approval"),
        (("--yes", "one#" + "9" * 400), 2, "write SESSION#SEQ"),
    ],
)
def test_an_answer_that_cannot_be_given_says_why(
    callboard: Callboard, tmp_path: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    waiting(tmp_path / "a.db")
    done = callboard("approvals", "--log", str(tmp_path / "a.db"), *arguments)
    assert (done.exit_code, said in done.stderr) == (code, True), done.stderr


def test_a_missing_log_is_named(callboard: Callboard, tmp_path: Path) -> None:
    assert callboard("approvals", "--log", str(tmp_path / "none.db")).exit_code == 3


# --- processes --------------------------------------------------------------------


@pytest.mark.slow
@needs_terminals
def test_the_question_of_a_terminal_is_answered_from_another_process(tmp_path: Path) -> None:
    (tmp_path / "survey.py").write_text(SURVEY)
    with Terminal(tmp_path, "run", "survey:paying", "Pay.", "--log", "a.db") as terminal:
        terminal.until("why not]")
        assert read_lock(tmp_path / "a.db")[0] == str(terminal.process.pid)
        ask = partial(
            subprocess.run, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
        )
        (item,) = json.loads(ask(command("approvals", "--json", "--log", "a.db")).stdout)
        ask(command("approvals", "--yes", item["id"], "--log", "a.db"))
        terminal.until("paid 5")
        assert terminal.end() == 0


@pytest.mark.slow
@needs_terminals
def test_after_a_kill_the_answer_is_recorded_and_the_resume_goes_on_with_it(tmp_path: Path) -> None:
    (tmp_path / "survey.py").write_text(SURVEY)
    with Terminal(tmp_path, "run", "survey:paying", "Pay.", "--log", "a.db") as terminal:
        terminal.until("why not]")
        terminal.process.kill()
        terminal.process.wait()
    assert (tmp_path / "a.db.sock").exists(), "a killed process leaves its socket"
    run = partial(subprocess.run, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True)
    (item,) = json.loads(run(command("approvals", "--json", "--log", "a.db")).stdout)
    run(command("approvals", "--yes", item["id"], "--log", "a.db"))
    done = run(command("resume", item["session"], "survey:paying", "--log", "a.db"))
    assert "paid 5" in done.stdout
    assert not (tmp_path / "a.db.sock").exists()


# --- calls that ask for input -----------------------------------------------------


def journey() -> Tool:
    """Return a tool that asks where to, and then books."""

    async def book(arguments: dict[str, Any], ctx: ToolContext) -> str:
        if ctx.given is None:
            fields = {"city": {"type": "string", "description": "A city."}, "pin": {"writeOnly": True}}
            schema = {"type": "object", "properties": fields, "required": ["city"]}
            pay = {"message": "Pay there.", "url": "https://pay.example/\x1b[31m1"}
            forms = checked_forms({"go": {"message": "Where to?", "schema": schema}, "pay": pay})
            raise InputNeeded("it asks", InputAsked(forms))
        return f"booked {bytes(ctx.given.values).decode()}"

    return Tool("book", "Books.", {"type": "object"}, book)


def asked_for_input(callboard: Callboard, log: Path, talk: Callable[[Session, Run], Awaitable[None]]) -> str:
    """Let a call wait for input in this process, and run commands beside it. Return the last text."""

    async def run(*arguments: str) -> Result:
        return await asyncio.to_thread(partial(callboard, *arguments, "--log", str(log)))

    def policy(request: ModelRequest) -> Reply:
        last: Any = request.conversation[-1]["content"]
        is_result = isinstance(last, list) and last[0]["type"] == "tool_result"
        return say(str(last[0]["content"])) if is_result else Reply(calls=[call("book")])

    async def scene() -> str:
        async with Runtime(log, model=ScriptedModel(policy)) as runtime:
            session = await runtime.open(Agent("host", tools=[journey()]), session_id=NAME)
            asking = asyncio.create_task(session.ask("go"))
            await anext(session.approvals())
            await talk(session, run)
            return (await asking).text

    return asyncio.run(scene())


def test_a_form_is_shown_and_filled_in_beside_the_owner(callboard: Callboard, tmp_path: Path) -> None:
    async def talk(session: Session, run: Run) -> None:
        (question,) = session.open_approvals
        listed = (await run("approvals")).stdout
        assert "    It asks for input: Where to?\n" in listed
        assert "      city (string, required): A city.\n" in listed
        assert "      pin (any, secret)\n" in listed
        assert "Visit this address yourself, if you trust it: https://pay.example/" in listed
        assert "\x1b" not in listed
        (item,) = json.loads((await run("approvals", "--json")).stdout)
        assert item["forms"]["go"]["message"] == "Where to?"
        wrong = await run("approvals", "--yes", question.id, "--values", '{"town": 1}')
        assert wrong.exit_code == 2
        assert "the values do not fit the form" in wrong.stderr
        assert (await run("approvals", "--yes", question.id, "--values", "[1]")).exit_code == 2
        assert (await run("approvals", "--values", "{}")).exit_code == 2
        done = await run("approvals", "--yes", question.id, "--values", '{"city": "Oslo", "pin": "1234"}')
        assert done.exit_code == 0, done.stderr

    log = tmp_path / "a.db"
    assert asked_for_input(callboard, log, talk).startswith('booked {"go":{"city":"Oslo","pin":"1234"}')
    events = callboard("events", "--log", str(log), "--json").stdout
    assert "[secret:pin]" in events
    given = callboard("events", "--log", str(log), "--kind", "ApprovalGiven", "--json").stdout
    assert "1234" not in given


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
