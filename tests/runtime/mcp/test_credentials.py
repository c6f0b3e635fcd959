"""Headers and variables that are made of the deps of a session, and the proof of a client's identity."""

import base64
from pathlib import Path
from typing import Any

import pytest

from callboard import Agent, MCPServer, Runtime
from callboard.errors import InvalidAgent
from callboard.log import MemoryLog
from callboard.runtime.mcp.credentials import Credentials
from tests.runtime.mcp.kit import NAME, asking, calls_of, is_alive, played, raw, returned
from tests.runtime.mcp.test_http import Gate, serving
from tests.waiting import until


def bearer(user: Any) -> dict[str, str]:
    return {"authorization": f"Bearer token-of-{user}"}


def test_headers_follow_the_deps_of_each_ask_and_their_values_are_secrets() -> None:
    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        gate = Gate()
        async with serving(gate) as port:
            server = MCPServer(f"http://127.0.0.1:{port}/mcp", headers=bearer)
            session = await runtime.open(Agent("host", tools=[server]), session_id=NAME)
            for user in ("alice", "bob", None):
                gate.headers.clear()
                await session.ask("go", deps=user)
                sent = {headers.get("authorization") for headers in gate.headers}
                assert sent == {f"Bearer token-of-{user or 'owner'}"}
            assert await returned(log) == [
                ("ok", "A"),
                ("ok", "SAY [SECRET:AUTHORIZATION]"),
                ("ok", "B"),
            ]
            body = b"".join(bytes(row.body) for row in await log.read(NAME, 1, 1_000))
            assert b"token-of-alice" not in body
            await runtime.aclose()

    notes: list[Any] = [("note", {"text": text}) for text in ("a", "say token-of-alice", "b")]
    asked = [notes[0], None, notes[1], None, notes[2]]
    played(scene, asking(*asked), deps="owner")


def test_the_values_are_known_as_secrets_from_the_first_connection_on(tmp_path: Path) -> None:
    notes = tmp_path / "notes"

    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        server = raw(notes, env=lambda deps: {"TOKEN": f"token-of-{deps}"})
        session = await runtime.open(Agent("host", tools=[server]), session_id=NAME)
        await session.ask("go")
        assert await returned(log) == [("ok", '{"text": "[secret:TOKEN]"}')]

    played(scene, asking(("echo", {"text": "token-of-owner"})), deps="owner")


def test_other_variables_start_another_process(tmp_path: Path) -> None:
    notes = tmp_path / "notes"

    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        server = raw(notes, env=lambda deps: {"USER_NAME": str(deps)})
        session = await runtime.open(Agent("host", tools=[server]), session_id=NAME)
        first = int(notes.with_suffix(".pid").read_text())
        await session.ask("go", deps="alice")
        second = int(notes.with_suffix(".pid").read_text())
        await session.ask("go", deps="alice")
        assert int(notes.with_suffix(".pid").read_text()) == second != first
        await until(lambda: not is_alive(first))
        assert calls_of(notes) == ["echo", "echo"]

    played(scene, asking("echo", None, "echo"))


def test_a_function_that_fails_is_named_at_open_and_in_a_call(tmp_path: Path) -> None:
    def of(user: Any) -> Any:
        if user is None:
            raise KeyError("no user")
        return {"TOKEN": user}

    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        host = Agent("host", tools=[raw(tmp_path / "notes", env=of)])
        with pytest.raises(InvalidAgent, match="headers or env cannot be made: KeyError: 'no user'"):
            await runtime.open(host)

    played(scene, asking())

    async def later(runtime: Runtime, log: MemoryLog) -> None:
        host = Agent("host", tools=[raw(tmp_path / "notes", env=of)])
        session = await runtime.open(host, session_id=NAME)
        await session.ask("go", deps=5)
        ((status, text),) = await returned(log)
        assert status == "error"
        assert text.startswith("unavailable: ")
        assert "a dict of texts, not of int" in text

    played(later, asking("echo"), deps="owner")


def test_a_user_name_and_a_password_go_with_each_request() -> None:
    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        gate = Gate()
        async with serving(gate) as port:
            server = MCPServer(f"http://127.0.0.1:{port}/mcp", auth=("alice", "swordfish-42"))
            await runtime.run(Agent("host", tools=[server]), "go", session_id=NAME)
            word = base64.b64encode(b"alice:swordfish-42").decode()
            assert {headers["authorization"] for headers in gate.headers} == {f"Basic {word}"}
            assert await returned(log) == [("ok", "[SECRET:PASSWORD]")]
            await runtime.aclose()

    played(scene, asking(("note", {"text": "swordfish-42"})))


def test_short_values_are_no_secrets() -> None:
    assert Credentials({"a": "Bearer x"}, {"B": "1", "C": "swordfish-42"}).secrets() == {"C": "swordfish-42"}
