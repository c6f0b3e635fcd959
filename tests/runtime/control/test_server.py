"""The control socket of a live runtime: its commands, hostile clients, and foreign files in its place."""

import asyncio
import json
import logging
import os
import socket
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from callboard import Runtime, ScriptedModel
from callboard.runtime.control import server
from callboard.runtime.log.sqlite.owner import read_lock
from callboard.runtime.sessions.session import Session
from tests.runtime.ports.test_approval_port import NAME, PAY, Till, plan
from tests.waiting import until


async def said(path: str, line: bytes) -> dict[str, Any]:
    """Send a line to a socket and read the answer; an empty one if the connection ends without."""
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        writer.write(line)
        answer = await reader.read()
    except ConnectionError:
        answer = b""
    finally:
        writer.close()
    return dict(json.loads(answer)) if answer else {}


def command(**fields: object) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def served(log: Path, talk: Callable[[Session, str], Awaitable[None]]) -> Till:
    """Let a session wait for an approval, and talk with its runtime's socket."""
    till = Till()

    async def scene() -> None:
        async with Runtime(log, model=ScriptedModel(plan(PAY))) as runtime:
            session = await runtime.open(till.host, session_id=NAME)
            asking = asyncio.create_task(session.ask("go"))
            await anext(session.approvals())
            await talk(session, read_lock(log)[1])
            for question in session.open_approvals:
                question.deny()
            await asking

    asyncio.run(scene())
    return till


def test_an_approval_is_listed_and_answered_once_over_the_socket(tmp_path: Path) -> None:
    async def talk(session: Session, path: str) -> None:
        (shown,) = (await said(path, command(command="approvals")))["value"]
        assert (shown["tool"], shown["arguments"], shown["session"]) == ("pay", {"euros": 5}, NAME)
        yes = command(command="answer", session=NAME, seq=shown["seq"], is_approved=True, by="ann")
        assert await said(path, yes) == {"value": True}
        assert await said(path, yes) == {"value": False}
        assert (await said(path, command(command="approvals")))["value"] == []

    assert served(tmp_path / "a.db", talk).paid == [5]


def test_an_ask_is_cancelled_over_the_socket(tmp_path: Path) -> None:
    async def talk(session: Session, path: str) -> None:
        assert await said(path, command(command="cancel", session=NAME)) == {"value": "cancelled"}
        assert await said(path, command(command="cancel", session=NAME)) == {"value": ""}

    assert served(tmp_path / "a.db", talk).paid == []


def test_a_session_or_question_that_is_not_there_is_named_with_the_next_step(tmp_path: Path) -> None:
    async def talk(session: Session, path: str) -> None:
        nowhere = await said(path, command(command="cancel", session="other"))
        assert nowhere["kind"] == "UnknownName"
        assert "does not run in the process that owns the log" in nowhere["error"]
        nothing = await said(path, command(command="answer", session=NAME, seq=1, is_approved=True))
        assert nothing["kind"] == "UnknownName"

    served(tmp_path / "a.db", talk)


# --- hostile clients --------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"nonsense\n",
        b"\x00\xff\xfe\n",
        b"[" * 50_000 + b"\n",
        b'{"command":"drop"}\n',
        b'{"command":"approvals","more":1}\n',
        b'{"command":"answer","session":7,"seq":"x"}\n',
        b'{"command":"answer","session":"one","seq":99999999999999999999999999,"is_approved":true}\n',
    ],
)
def test_garbage_is_refused_and_the_next_client_is_served(tmp_path: Path, line: bytes) -> None:
    async def talk(session: Session, path: str) -> None:
        answer = await said(path, line)
        assert "value" not in answer or answer["value"] is None
        assert len(answer["error"]) < 500
        assert len((await said(path, command(command="approvals")))["value"]) == 1

    assert served(tmp_path / "a.db", talk).paid == []


def test_an_endless_line_gets_no_answer(tmp_path: Path) -> None:
    async def talk(session: Session, path: str) -> None:
        assert await said(path, b"x" * 1_000_000) == {}
        assert len((await said(path, command(command="approvals")))["value"]) == 1

    served(tmp_path / "a.db", talk)


def test_a_client_that_sends_nothing_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_REQUEST_S", 0.02)

    async def talk(session: Session, path: str) -> None:
        reader, writer = await asyncio.open_unix_connection(path)
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()

    served(tmp_path / "a.db", talk)


def test_idle_clients_give_way_to_commands(tmp_path: Path) -> None:
    async def talk(session: Session, path: str) -> None:
        silent = [await asyncio.open_unix_connection(path) for _ in range(331)]
        assert len((await said(path, command(command="approvals")))["value"]) == 1
        assert await silent[0][0].read() == b"", "the oldest one was ended"
        for _, writer in silent:
            writer.close()

    served(tmp_path / "a.db", talk)


def test_a_command_beyond_those_that_run_hears_when_to_try_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_CLIENTS_MAX", 2)
    free = asyncio.Event()
    running: list[object] = []

    async def carry_out(runtime: object, asked: object) -> object:
        running.append(asked)
        await free.wait()
        return 0

    async def talk(session: Session, path: str) -> None:
        monkeypatch.setattr(server, "carry_out", carry_out)
        slow = [asyncio.create_task(said(path, command(command="vacuum"))) for _ in range(2)]
        await until(lambda: len(running) == 2)
        answer = await said(path, command(command="approvals"))
        assert "busy with 2 commands; try again in 5 s" in answer["error"]
        free.set()
        assert [one["value"] for one in await asyncio.gather(*slow)] == [0, 0]
        monkeypatch.undo()

    served(tmp_path / "a.db", talk)


def test_a_silent_client_does_not_hold_up_the_end_of_the_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_REQUEST_S", 3_600)  # longer than a test may take
    silent = socket.socket(socket.AF_UNIX)

    async def talk(session: Session, path: str) -> None:
        silent.connect(path)
        assert "value" in await said(path, command(command="approvals"))  # the silent one is served, too

    served(tmp_path / "a.db", talk)
    assert silent.recv(1) == b""
    silent.close()


def test_another_user_is_not_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def talk(session: Session, path: str) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 12_345)
        assert await said(path, command(command="approvals")) == {}
        monkeypatch.undo()

    served(tmp_path / "a.db", talk)


# --- the file ---------------------------------------------------------------------


def mode_of(path: str) -> int:
    return Path(path).stat().st_mode


def test_the_socket_is_private_and_is_gone_with_its_owner(tmp_path: Path) -> None:
    log, found = tmp_path / "a.db", list[Path]()

    async def talk(session: Session, path: str) -> None:
        found.append(Path(path))
        assert mode_of(path) == stat.S_IFSOCK | 0o600

    served(log, talk)
    assert found == [tmp_path / "a.db.sock"]
    assert not found[0].exists()
    assert read_lock(log) == ("", "")


def left_over(path: Path) -> None:
    """Leave a socket behind as a process does that was killed, in place of any other file."""
    path.unlink(missing_ok=True)
    one = socket.socket(socket.AF_UNIX)
    one.bind(os.fspath(path))
    one.close()


def test_the_socket_of_a_dead_owner_is_replaced(tmp_path: Path) -> None:
    left_over(tmp_path / "a.db.sock")

    async def talk(session: Session, path: str) -> None:
        assert path == os.fspath(tmp_path / "a.db.sock")
        assert len((await said(path, command(command="approvals")))["value"]) == 1

    served(tmp_path / "a.db", talk)


def test_a_file_that_is_no_socket_is_left_alone_and_the_runtime_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "callboard").write_text("no folder")
    monkeypatch.setenv("XDG_RUNTIME_DIR", os.fspath(tmp_path / "run"))
    mine = tmp_path / "a.db.sock"
    mine.write_text("precious")

    async def talk(session: Session, path: str) -> None:
        assert path == ""

    with caplog.at_level(logging.ERROR, "callboard.control"):
        served(tmp_path / "a.db", talk)
    assert mine.read_text() == "precious"
    assert "a.db.sock is not a socket; it is left alone: move it away" in caplog.text
    assert "cannot reach this process" in caplog.text


def test_a_socket_of_another_user_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nowhere")
    monkeypatch.setattr("tempfile.tempdir", os.fspath(tmp_path))
    left_over(tmp_path / "a.db.sock")
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)

    async def talk(session: Session, path: str) -> None:
        assert path == ""

    served(tmp_path / "a.db", talk)
    assert (tmp_path / "a.db.sock").exists()
    assert f"belongs to user {own}; it is left alone" in caplog.text


def test_an_owner_that_lost_its_log_by_force_does_not_remove_the_socket_of_the_next(tmp_path: Path) -> None:
    log = tmp_path / "a.db"

    async def talk(session: Session, path: str) -> None:
        left_over(Path(path))

    served(log, talk)
    assert (tmp_path / "a.db.sock").exists()


def test_a_log_in_memory_listens_nowhere() -> None:
    async def scene() -> None:
        async with Runtime(":memory:") as runtime:
            assert runtime._control._server is None

    asyncio.run(scene())
