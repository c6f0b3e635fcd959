"""Files of MCP servers as people have them."""

import asyncio
import json
import logging
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from callboard import Agent, MCPServer, Runtime
from callboard.errors import InvalidAgent
from callboard.log import MemoryLog
from callboard.runtime.mcp import config_file
from callboard.runtime.mcp.config_file import plain_json
from tests.runtime.mcp.kit import NAME, RAW, asking, calls_of, events_of, returned

ENVIRON = {"TOKEN": "tok-0123456789", "EMPTY": "", "HOME": "/home/somebody"}


def read(
    folder: Path, text: str | dict[str, Any], name: str = ".mcp.json", **options: Any
) -> list[MCPServer]:
    """Return the servers of a file with this text."""
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text if isinstance(text, str) else json.dumps(text))
    return MCPServer.from_file(file, environ=ENVIRON, **options)


def one(folder: Path, fields: dict[str, Any], **options: Any) -> MCPServer:
    (server,) = read(folder, {"mcpServers": {"my docs": fields}}, **options)
    return server


def refused(folder: Path, fields: Any) -> str:
    with pytest.raises(InvalidAgent) as caught:
        read(folder, {"mcpServers": {"docs": fields}})
    text = str(caught.value)
    assert text.startswith(f"{folder / '.mcp.json'}: server 'docs'")
    return text


def test_a_command_and_an_address_are_servers_named_as_in_the_file(tmp_path: Path) -> None:
    servers = {
        "git": {"command": "uvx", "args": ["mcp-server-git", "--depth", 3], "env": {"A": 1, "B": None}},
        "GSD-2 Code": {"url": "https://gitmcp.io/gsd-build/gsd-2", "description": "docs"},
    }
    git, docs = read(tmp_path, {"mcpServers": servers})
    assert (git.server, git.env, git.cwd) == (
        ("uvx", "mcp-server-git", "--depth", "3"),
        {"A": "1"},
        str(tmp_path),
    )
    assert (git.label, git.prefix) == ("git", "git_")
    assert (docs.server, docs.label, docs.prefix) == (
        "https://gitmcp.io/gsd-build/gsd-2",
        "GSD-2 Code",
        "GSD-2_Code_",
    )
    assert git.effects == docs.effects == {}  # so each tool is a write
    assert git.labels == ("untrusted",)


@pytest.mark.parametrize("key", ["url", "serverUrl", "httpUrl"])
@pytest.mark.parametrize(
    "kind",
    [
        {},
        {"type": "http"},
        {"type": "streamable-http"},
        {"transport": "streamableHttp"},
        {"transportType": "HTTP"},
    ],
)
def test_an_address_is_read_under_each_of_its_names(tmp_path: Path, key: str, kind: dict[str, str]) -> None:
    server = one(tmp_path, {key: "https://a.example/mcp", "headers": {"X-Key": "${TOKEN}"}, **kind})
    assert server.server == "https://a.example/mcp"
    assert server.headers == {"X-Key": "tok-0123456789"}


@pytest.mark.parametrize(
    "text",
    [
        '{"servers": {"a": {"type": "stdio", "command": "a"}}, "inputs": []}',
        '{"mcp": {"servers": {"a": {"command": "a"}}}, "editor.tabSize": 2}',
        '{"mcp_servers": {"a": {"command": "a"}}}',
        '{"a": {"command": "a"}}',
        '\ufeff{// comment\n"mcpServers": {"a": {"command": "a", /* "x": {, */ "args": [],},},}',
    ],
)
def test_the_forms_of_editors_are_read(tmp_path: Path, text: str) -> None:
    (server,) = read(tmp_path, text)
    assert server.server == ("a",)


def test_what_looks_like_a_comment_or_a_last_comma_in_a_text_stays() -> None:
    text = '{"a": "http://b/*c*/", "d": ",]", "e": "\\"//,}"}'
    assert plain_json(text) == text
    assert json.loads(plain_json("[1, // one\n2, /* two,\n */ ]")) == [1, 2]
    assert plain_json('["a"\n/* b\n */]').count("\n") == 2


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("${TOKEN}", "tok-0123456789"),
        ("${env:TOKEN}", "tok-0123456789"),
        ("a ${TOKEN:-none} b", "a tok-0123456789 b"),
        ("${MISSING:-a:-b}", "a:-b"),
        ("${EMPTY:-none}", "none"),
        ("${EMPTY}", ""),
        ("${MISSING:-}", ""),
        ("$TOKEN ${", "$TOKEN ${"),
    ],
)
def test_variables_are_filled_in(tmp_path: Path, given: str, expected: str) -> None:
    assert one(tmp_path, {"command": "a", "args": [given]}).server == ("a", expected)


def test_the_old_transport_is_that_of_its_type_only(tmp_path: Path) -> None:
    assert one(tmp_path, {"url": "https://a.example/sse", "type": "sse"}).transport == "sse"
    assert one(tmp_path, {"url": "https://a.example/sse", "transportType": "sse"}).transport == "sse"
    assert one(tmp_path, {"url": "https://a.example/sse"}).transport == "http"


def test_a_value_of_the_environment_is_a_secret_wherever_it_stands(tmp_path: Path) -> None:
    command = one(tmp_path, {"command": "a", "args": ["--key=${TOKEN}", "${HOME}/b"]})
    assert command.secrets() == {"TOKEN": "tok-0123456789"}
    address = one(tmp_path, {"url": "https://a.example/${input:key}"}, inputs={"key": "swordfish-42"})
    assert address.secrets() == {"key": "swordfish-42"}
    assert "swordfish" not in f"{address!r} {address.label}"


def test_paths_are_those_of_the_project(tmp_path: Path) -> None:
    fields = {"command": "./bin/serve", "cwd": "sub", "args": ["${workspaceFolder}/a"]}
    server = one(tmp_path, fields, name=".vscode/mcp.json")
    assert server.server == (str(tmp_path / "sub/bin/serve"), f"{tmp_path}/a")
    assert server.cwd == str(tmp_path / "sub")


@pytest.mark.parametrize("fields", [{"disabled": True}, {"enabled": False}])
def test_a_disabled_server_is_left_out_unread(tmp_path: Path, fields: dict[str, Any]) -> None:
    servers = {
        "off": {"command": "${MISSING}", "type": "sse", **fields},
        "on": {"command": "a", "enabled": True},
    }
    assert [server.label for server in read(tmp_path, {"mcpServers": servers})] == ["on"]


@pytest.mark.parametrize("key", ["allowedTools", "includeTools", "enabledTools"])
def test_a_list_of_allowed_tools_is_what_the_agent_gets(tmp_path: Path, key: str) -> None:
    server = one(tmp_path, {"command": "a", key: ["read_*", "list"], "excludeTools": ["read_all"]})
    assert [name for name in ("read_one", "read_all", "list", "drop") if server.takes(name)] == [
        "read_one",
        "list",
    ]


@pytest.mark.parametrize("key", ["autoApprove", "alwaysAllow"])
def test_tools_that_another_client_approves_by_itself_leave_the_others_to_a_person(
    tmp_path: Path, key: str
) -> None:
    assert one(tmp_path, {"command": "a", key: ["search"]}).approval == {"*": "before", "search": "never"}
    assert one(tmp_path, {"command": "a", key: []}).approval == {"*": "before"}
    assert one(tmp_path, {"command": "a", key: ["*"]}).approval == {"*": "never"}
    assert one(tmp_path, {"command": "a", "trust": True}).approval == {}


@pytest.mark.parametrize(("given", "seconds"), [(60, 60.0), (3600, 3600.0), (30_000, 30.0), (0.5, 0.5)])
def test_a_timeout_is_that_of_a_call_in_seconds_or_milliseconds(
    tmp_path: Path, given: float, seconds: float
) -> None:
    assert one(tmp_path, {"command": "a", "timeout": given}).timeout_s == seconds


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "it needs a command or a url, and not both"),
        ({"command": "a", "url": "https://a.example"}, "it needs a command or a url, and not both"),
        ([], "is not an object with a command or a url"),
        ({"command": ["a", {}]}, "command is a text, not {}"),
        ({"command": "a", "args": "b"}, "args is a list of texts, not 'b'"),
        ({"command": "a", "env": ["B=1"]}, "env is an object of texts, not ['B=1']"),
        ({"command": "a", "env": {"B": [1]}}, "env.B is a text, not [1]"),
        (
            {"command": "a", "args": ["${MISSING}"]},
            "args: the environment has no variable MISSING; set it, or",
        ),
        ({"command": "a", "args": ["${a b}"]}, "args: ${a b} is not a variable"),
        (
            {"command": "a", "args": ["${input:key}"]},
            "args asks for the input 'key', which callboard does not ask for",
        ),
        ({"command": "a", "headers": {"b": "c"}}, "headers cannot be combined with a command"),
        ({"url": "https://a.example", "env": {"b": "c"}}, "env cannot be combined with a url"),
        ({"url": "ftp://a.example"}, "an MCP server is a URL, or a command"),
        ({"url": "https://a.example", "type": "stdio"}, "its type is one of http, "),
        ({"url": "https://a.example", "type": "ws"}, "its type is one of http, sse, "),
        ({"command": "a", "type": "http"}, "its type is one of local, stdio, not 'http'"),
        ({"command": "a", "type": 3}, "type is a text, not 3"),
        ({"command": "a", "disabled": "no"}, "disabled is true or false, not 'no'"),
        ({"command": "a", "timeout": "60"}, "timeout is a positive number, not '60'"),
        ({"command": "a", "timeout": 0}, "timeout is a positive number, not 0"),
        ({"command": "a", "includeTools": []}, "it allows no tool; drop the list, or disable the server"),
        ({"command": "a", "allowedTools": ["a"], "includeTools": ["b"]}, "mean the same; give one of them"),
        ({"command": "a", "envFile": ".env"}, "envFile is not supported; write the variables into env"),
    ],
)
def test_a_server_that_cannot_work_is_refused_with_file_name_and_key(
    tmp_path: Path, fields: Any, why: str
) -> None:
    assert why in refused(tmp_path, fields)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is not JSON: "),
        ("[" * 100_000, "is not JSON: "),
        ("[]", "is not a JSON object"),
        ("{}", "has none of mcpServers, servers, mcp_servers and mcp.servers"),
        ('{"servers": {}, "mcpServers": {}}', "has more than one of"),
        ('{"mcpServers": []}', "its servers are not an object"),
        ('{"mcpServers": {"a": {"command": "a"}, "a": {"command": "b"}}}', "it has 'a' twice"),
        (
            '{"mcpServers": {"a b": {"command": "a"}, "a.b": {"command": "b"}}}',
            "another server's tools would",
        ),
    ],
)
def test_a_file_that_cannot_work_is_refused(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(InvalidAgent, match=re.escape(why)):
        read(tmp_path, text)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidAgent, match=r"no\.json cannot be read: No such file"):
        MCPServer.from_file(tmp_path / "no.json")


def test_unknown_keys_are_named_in_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        one(tmp_path, {"command": "a", "icon": "b", "gallery": True, "description": "c"})
    assert caplog.records[0].message.endswith("server 'my docs': callboard does not know gallery, icon")


def test_options_stand_before_the_words_of_the_file(tmp_path: Path) -> None:
    server = one(tmp_path, {"command": "a", "alwaysAllow": []}, approval={}, optional=True, prefix="x_")
    assert (server.approval, server.is_optional, server.prefix) == ({}, True, "x_")


def test_a_session_calls_the_tools_of_a_file_and_its_log_has_no_secret(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    fields = {
        "command": sys.executable,
        "args": [str(RAW), str(notes), "quick", "${TOKEN}"],
        "allowedTools": ["echo"],
    }
    server = one(tmp_path, fields)

    async def main() -> None:
        log = MemoryLog()
        model = asking(("my_docs_echo", {"text": "the key is tok-0123456789"}))
        async with Runtime(log, model=model) as runtime:
            await runtime.run(Agent("host", tools=[server]), "go", session_id=NAME)
            assert await returned(log) == [("ok", '{"text": "the key is [secret:TOKEN]"}')]
            assert "tok-0123456789" not in str(await events_of(log))

    asyncio.run(main())
    assert calls_of(notes) == ["echo"]


KEYS = sorted(config_file._KNOWN | config_file._UNSUPPORTED.keys())
VALUES: list[object] = [None, True, 7, -1.5, "", "a", [], ["a"], [{}], [None], {}, {"a": []}, {"type": "sse"}]


@pytest.mark.parametrize("base", [{"command": "a"}, {"url": "https://a.example"}, {}])
def test_a_key_with_a_value_of_any_type_is_read_or_refused_by_its_name(
    tmp_path: Path, base: dict[str, Any]
) -> None:
    for key in KEYS:
        for value in VALUES:
            try:
                read(tmp_path, {"mcpServers": {"docs": {**base, key: value}}})
            except InvalidAgent as error:
                assert "server 'docs'" in str(error)  # noqa: PT017  # most of them are read


@pytest.mark.parametrize(
    "key",
    [
        "toolFilter",
        "tool_filter",
        "allow_list",
        "allowed_tools",
        "denied",
        "blockedTools",
        "permissions",
        "readOnly",
        "excluded",
    ],
)
def test_an_unknown_key_that_may_keep_tools_away_is_not_passed_over(tmp_path: Path, key: str) -> None:
    assert f"{key} is not supported" in refused(tmp_path, {"command": "a", key: ["b"]})


def test_the_lists_of_copilot_and_claude_choose_tools(tmp_path: Path) -> None:
    server = one(tmp_path, {"command": "a", "tools": ["read", "list_*"], "disallowedTools": ["list_all"]})
    assert (server.tools, server.exclude) == (("read", "list_*"), ("list_all",))
