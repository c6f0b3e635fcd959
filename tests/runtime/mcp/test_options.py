"""The parameters of a server: checked when it is described, and never a secret in its name."""

import base64
import sys
from pathlib import Path
from typing import Any

import pytest

from callboard import Agent, MCPServer, Runtime
from callboard.errors import InvalidAgent, MissingExtra
from callboard.log import MemoryLog
from callboard.runtime.mcp.options import Credentials
from tests.runtime.mcp.kit import NAME, asking, calls_of, is_alive, played, raw, returned
from tests.runtime.mcp.test_http import Gate, serving
from tests.tables import table
from tests.waiting import until


@table(
    ("server", "label"),
    [
        ("https://tools.example/s/tok3n/mcp?key=abc", "https://tools.example"),
        ("http://user:word@localhost:8080/mcp", "http://localhost:8080"),
        (["uvx", "mcp-server-git", "--token", "abc"], "uvx mcp-server-git"),
        (["/usr/bin/python", "/srv/files.py"], "python files.py"),
        (["server", "--token=abc"], "server"),
    ],
)
def test_a_server_is_named_without_what_may_be_secret(server: Any, label: str) -> None:
    assert MCPServer(server).label == label
    assert repr(MCPServer(server, prefix="mine_")) == "MCPServer('mine_')"


def test_a_name_stands_before_a_prefix_in_the_log() -> None:
    server = MCPServer(["server"], name="My docs", prefix="docs_")
    assert (server.label, server.prefix) == ("My docs", "docs_")


def test_other_secrets_are_secrets_beside_those_of_headers_and_variables() -> None:
    server = MCPServer(["server", "--key=swordfish"], env={"A": "0123456789"}, secrets={"KEY": "swordfish"})
    assert server.secrets() == {"A": "0123456789", "KEY": "swordfish"}


def test_excluded_tools_are_not_taken() -> None:
    server = MCPServer(["server"], tools=["read_*", "list"], exclude=["read_all", "l*"])
    assert [name for name in ("read_one", "read_all", "list", "drop") if server.takes(name)] == ["read_one"]


def test_a_connection_is_shared_only_where_nothing_tells_its_users_apart() -> None:
    assert MCPServer("https://tools.example/mcp").share == "runtime"
    assert MCPServer("https://tools.example/mcp", headers={"x": "y"}).share == "session"
    assert MCPServer("https://tools.example/mcp", headers=dict).share == "session"
    assert MCPServer("https://tools.example/mcp", auth=("user", "word")).share == "session"
    assert MCPServer(["server"]).share == "session"
    assert MCPServer(["server"], share="agent").share == "agent"


@table(
    ("server", "options", "words"),
    [
        ("uvx mcp-server-git", {}, "as a list of words"),
        ("ftp://host/x", {}, "is a URL"),
        ([], {}, "list of words"),
        ([1], {}, "list of texts"),
        (object(), {}, "is not an MCP server"),
        (["server"], {"headers": {"a": "b"}}, "headers and auth are for a URL"),
        ("https://a.example", {"env": {"a": "b"}}, "are for a command"),
        (["server"], {"effects": {"a": "reed"}}, "effects\\['a'\\] is one of read, idempotent, write"),
        (["server"], {"approval": {"a": "yes"}}, "approval\\['a'\\] is one of never"),
        (["server"], {"tools": "a"}, "tools is a list of texts"),
        (["server"], {"prefix": "a.b"}, "letters, digits"),
        (["server"], {"share": "all"}, "share is one of"),
        (["server"], {"auth": ("user", "word")}, "auth are for a URL"),
        ("https://a.example", {"auth": ("user",)}, "auth is an httpx2.Auth"),
        ("https://a.example", {"headers": ["a"]}, "headers is a dict of texts"),
        ("https://a.example", {"headers": {"a": 1}}, "not of int"),
        ("https://a.example", {"headers": dict, "share": "runtime"}, 'not for share="runtime"'),
        (["server"], {"capabilities": "network"}, "list of texts"),
        (["server"], {"capabilities": {"a": [1]}}, "capabilities\\['a'\\] is a list of texts"),
        (["server"], {"start_timeout_s": 0}, "start_timeout_s is a positive number"),
        (["server"], {"timeout_s": 0}, "timeout_s is a positive number"),
        (["server"], {"exclude": "a"}, "exclude is a list of texts"),
        (["server"], {"secrets": ["a"]}, "secrets is a dict of texts"),
        (["server"], {"transport": "sse"}, "transport is for a URL"),
        ("https://a.example", {"transport": "ws"}, "transport is one of http, sse"),
        ("ftp://host/x", {"prefix": "a_"}, "is a URL"),
    ],
)
def test_what_cannot_work_is_refused_at_once(server: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidAgent, match=words):
        MCPServer(server, **options)


def test_a_name_is_taken_as_it_is_before_it_is_a_glob() -> None:
    server = MCPServer(["server"], tools=["a[b]", "read_*"])
    assert [name for name in ("a[b]", "ab", "read_x", "write_x") if server.takes(name)] == [
        "a[b]",
        "ab",
        "read_x",
    ]


def test_values_of_eight_characters_are_secrets_and_short_ones_are_words() -> None:
    server = MCPServer("https://a.example", headers={"authorization": "Bearer swordfish-42", "x": "1"})
    assert server.secrets() == {"authorization": "swordfish-42"}
    assert MCPServer("https://a.example", auth=("user", "swordfish-42")).secrets() == {
        "password": "swordfish-42"
    }
    assert MCPServer("https://a.example", auth=("user", "word"), headers=dict).secrets() == {}


def test_without_the_sdk_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("callboard.runtime.mcp.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    server = MCPServer(["server"])
    Agent("host", tools=[server])  # describing one needs no SDK
    with pytest.raises(MissingExtra, match=r"pip install 'callboard\[mcp\]'"):
        server.live()


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
