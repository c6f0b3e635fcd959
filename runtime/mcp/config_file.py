"""The MCP servers of a file that other clients read: `.mcp.json`, `.vscode/mcp.json`, `mcp.json` of editors.

{"mcpServers": {NAME: server}}, or `servers` (VS Code), `mcp.servers` (its settings), `mcp_servers`, or the
servers alone

a command     command, args, env, cwd
an address    url, serverUrl or httpUrl, with headers
either        type, transport or transportType; disabled or enabled; timeout

The same word means two things to two clients in places, so each is decided here:

allowedTools, includeTools, enabledTools,  the agent gets these tools only
  tools (Copilot)
excludeTools, disabledTools,               it does not get these
  disallowedTools
any other word for tools or permission     refused: passed over, it would give the agent more
autoApprove, alwaysAllow                   these run without a question; a person is asked before all others
trust: true                                nothing: no tool asks by itself here
timeout                                    of a call: seconds up to 3,600, as Cline and Roo write it, else
                                           milliseconds, as Gemini and Claude Code do
`//` and `/* */`, commas before } and ]    allowed, as editors allow them

${NAME}, ${NAME:-default}, ${env:NAME}     a variable of the environment; its value is a secret
${input:ID}                                a value of `inputs`, which is a secret; no person is asked
${workspaceFolder}, ${userHome}            the folder of the project, and that of the user

Paths are relative to the folder of the project: the file's own, or the one above a folder such as `.vscode`.
"""

import json
import logging
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from callboard.actors.protocol.errors import InvalidAgent
from callboard.actors.protocol.immutable import JsonObject
from callboard.runtime.sanitize import clean_text

FILE_BYTES_MAX: Final = 2**20
_TIMEOUT_S_MAX: Final = 3_600.0  # above it, a number is of milliseconds
_NAME_CHARS: Final = 80

# A string stays, a comment becomes a blank, and so does a comma with no value after it.
_COMMENT: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*[\s\S]*?\*/')
_COMMA: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|,(?=[ \t\r\n]*[}\]])')
_VARIABLE: Final = re.compile(r"\$\{([^{}]*)\}")
_NAME: Final = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)

_PLACES: Final = ("mcpServers", "servers", "mcp_servers")
_HTTP: Final = frozenset({"http", "sse", "streamable-http", "streamable_http", "streamablehttp"})
_STDIO: Final = frozenset({"stdio", "local"})
_COMMAND_KEYS: Final = ("command", "args", "env", "cwd")
_URL_KEYS: Final = ("url", "serverUrl", "httpUrl")
_TYPE_KEYS: Final = ("type", "transport", "transportType")
_ONLY_KEYS: Final = ("allowedTools", "includeTools", "enabledTools", "tools")
_WITHOUT_KEYS: Final = ("excludeTools", "disabledTools", "disallowedTools")
_APPROVED_KEYS: Final = ("autoApprove", "alwaysAllow")
# They change the variables and headers of a server, so they are not passed over.
_UNSUPPORTED: Final = {
    "envFile": "write the variables into env, as ${NAME}",
    "bearerTokenEnvVar": 'write "headers": {"Authorization": "Bearer ${NAME}"}',
    "headersHelper": 'write "headers", with ${NAME} for a secret',
}
_KNOWN: Final = frozenset(
    (
        *(*_COMMAND_KEYS, *_URL_KEYS, *_ONLY_KEYS, *_WITHOUT_KEYS, *_APPROVED_KEYS),
        *_TYPE_KEYS,
        *("headers", "disabled", "enabled", "timeout", "trust", "name", "description"),
    )
)
# Any other key that may keep tools from an agent: passed over, it would give them to it.
_LIMITS_TOOLS: Final = re.compile("(?i)tool|allow|den[iy]|block|exclude|include|filter|permission|read_?only")
# Their values stand in many texts, and are not secrets.
_PLAIN: Final = frozenset(
    (
        *("HOME", "USER", "LOGNAME", "USERNAME", "USERPROFILE", "PATH", "PWD", "SHELL", "LANG", "TERM"),
        *("TMPDIR", "TEMP", "TMP", "HOSTNAME"),
    )
)
logger = logging.getLogger("callboard.mcp")


class Entry(NamedTuple):
    """A server of a file. server: its address, or the words of its command. options: of `MCPServer`."""

    name: str
    server: str | list[str]
    options: dict[str, Any]


def read_servers(path: str | Path, environ: Mapping[str, str], inputs: Mapping[str, str]) -> list[Entry]:
    """Return the servers of a file that are not disabled. Raises InvalidAgent with file, server and key."""
    file = Path(path)
    found = _servers(file)
    values = _Values(environ, inputs, _project(file))
    entries = [
        _Server(f"{file}: server {name!r:.100}", fields, values).entry(name)
        for name, fields in found.items()
        if not _is_disabled(f"{file}: server {name!r:.100}", fields)
    ]
    prefixes = [entry.options["prefix"] for entry in entries]
    for entry in entries:
        if prefixes.count(entry.options["prefix"]) > 1:
            raise InvalidAgent(
                f"{file}: server {entry.name!r}: another server's tools would begin with "
                f"{entry.options['prefix']!r} too; rename one of them"
            )
    return entries


# --- the file ---------------------------------------------------------------------


def _servers(file: Path) -> JsonObject:
    data = _document(file)
    nested = data.get("mcp")
    held = nested.get("servers") if isinstance(nested, dict) else None
    given = [one for one in (*map(data.get, _PLACES), held) if one is not None]
    if not given and data and all(_is_server(one) for one in data.values()):
        return data
    if len(given) != 1:
        what = "more than one" if given else "none"
        raise InvalidAgent(f"{file} has {what} of {', '.join(_PLACES)} and mcp.servers; write one of them")
    if not isinstance(given[0], dict):
        raise InvalidAgent(f"{file}: its servers are not an object of servers by name")
    return given[0]


def _is_server(fields: object) -> bool:
    return isinstance(fields, dict) and any(key in fields for key in ("command", *_URL_KEYS))


def _document(file: Path) -> JsonObject:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise InvalidAgent(f"{file} cannot be read: {error.strerror or error}") from None
    if len(data) > FILE_BYTES_MAX:
        raise InvalidAgent(
            f"{file} has {len(data):,} bytes; a file of servers has at most {FILE_BYTES_MAX:,}"
        )
    try:
        found = json.loads(plain_json(data.decode("utf-8-sig")), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise InvalidAgent(f"{file} is not JSON: {clean_text(str(error))[:200]}") from None
    if not isinstance(found, dict):
        raise InvalidAgent(f"{file} is not a JSON object")
    return found


def plain_json(text: str) -> str:
    """Return JSON without the comments and last commas that editors allow. Lines and columns stay.

    >>> plain_json('{"a": "//", /* b */ "c": [1,],} // d')
    '{"a": "//",         "c": [1 ] }     '
    """
    return _COMMA.sub(_blank, _COMMENT.sub(_blank, text))


def _blank(found: re.Match[str]) -> str:
    text = found[0]
    return text if text.startswith('"') else re.sub(r"[^\n]", " ", text)


def _once(pairs: list[tuple[str, object]]) -> JsonObject:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"it has {next(name for name in names if names.count(name) > 1)!r:.100} twice")
    return found


def _project(file: Path) -> Path:
    folder = file.absolute().parent
    return folder.parent if folder.name.startswith(".") else folder


def _is_disabled(where: str, fields: object) -> bool:
    if not isinstance(fields, dict):
        raise InvalidAgent(f"{where} is not an object with a command or a url")
    for key in ("disabled", "enabled"):
        if not isinstance(fields.get(key, False), bool):
            raise InvalidAgent(f"{where}: {key} is true or false, not {fields[key]!r:.100}")
    return fields.get("disabled", False) is True or fields.get("enabled", True) is False


# --- variables --------------------------------------------------------------------


class _Values:
    """The values of variables. environ: of the environment. inputs: by id."""

    def __init__(self, environ: Mapping[str, str], inputs: Mapping[str, str], project: Path) -> None:
        self._environ = environ
        self._inputs = inputs
        self.project = project
        self._known = {
            "workspaceFolder": str(project),
            "workspaceFolderBasename": project.name,
            "workspaceRoot": str(project),
            "cwd": str(project),
            "userHome": str(Path.home()),
            "pathSeparator": os.sep,
            "/": os.sep,
        }

    def filled(self, where: str, text: str, secrets: dict[str, str]) -> str:
        """Return a text with its variables filled in, whose values are added to the secrets."""

        def value(found: re.Match[str]) -> str:
            name = found[1]
            if name.startswith("input:"):
                key = name.removeprefix("input:")
                secrets[key] = self._input(where, key)
                return secrets[key]
            known = self._known.get(name)
            return self._variable(where, name, secrets) if known is None else known

        return _VARIABLE.sub(value, text)

    def _input(self, where: str, name: str) -> str:
        if name not in self._inputs:
            raise InvalidAgent(
                f"{where} asks for the input {name!r:.100}, which callboard does not ask for; write "
                f"${{env:NAME}} there, or give it: MCPServer.from_file(..., inputs={{{name!r:.100}: ...}})"
            )
        return self._inputs[name]

    def _variable(self, where: str, text: str, secrets: dict[str, str]) -> str:
        found = _NAME.fullmatch(text)
        if found is None:
            raise InvalidAgent(
                f"{where}: ${{{text:.100}}} is not a variable; write ${{NAME}} or ${{NAME:-default}}"
            )
        name, default = found[1], found[2]
        value = self._environ.get(name)
        if value is None or (not value and default is not None):
            if default is None:
                raise InvalidAgent(
                    f"{where}: the environment has no variable {name}; set it, or write ${{{name}:-default}}"
                )
            return default
        if name not in _PLAIN:
            secrets[name] = value
        return value


# --- a server ---------------------------------------------------------------------


class _Server:
    """One server of a file. where: file and server, for errors."""

    def __init__(self, where: str, fields: JsonObject, values: _Values) -> None:
        self._where = where
        self._fields = fields
        self._values = values
        self._secrets: dict[str, str] = {}

    def entry(self, name: str) -> Entry:
        """Return the server. Raises InvalidAgent."""
        fields = self._fields
        for key, instead in _UNSUPPORTED.items():
            if fields.get(key):
                raise InvalidAgent(f"{self._where}: {key} is not supported; {instead}")
        unknown = sorted(fields.keys() - _KNOWN)
        if key := next(filter(_LIMITS_TOOLS.search, unknown), ""):
            instead = "choose tools by allowedTools and excludeTools"
            raise InvalidAgent(f"{self._where}: {key:.100} is not supported; {instead}")
        if unknown:
            logger.warning("%s: callboard does not know %s", self._where, ", ".join(unknown)[:300])
        server, options = self._address() if self._is_http() else self._command()
        options |= {"prefix": _prefix(name), "name": clean_text(name)[:_NAME_CHARS], **self._tools()}
        if (timeout := fields.get("timeout")) is not None:
            options["timeout_s"] = self._seconds(timeout)
        if self._secrets:
            options["secrets"] = self._secrets
        return Entry(name, server, options)

    def _kind(self) -> str:
        """Return the transport that the file names; empty for none."""
        key = next((key for key in _TYPE_KEYS if self._fields.get(key) is not None), "type")
        kind = self._fields.get(key, "")
        if not isinstance(kind, str):
            raise InvalidAgent(f"{self._where}: {key} is a text, not {kind!r:.100}")
        return kind.lower()

    def _is_http(self) -> bool:
        fields, word = self._fields, self._kind()
        address = [key for key in _URL_KEYS if fields.get(key)]
        if len(address) + bool(fields.get("command")) != 1:
            raise InvalidAgent(f"{self._where}: it needs a command or a url, and not both")
        if word and word not in (_HTTP if address else _STDIO):
            words = ", ".join(sorted(_HTTP if address else _STDIO))
            raise InvalidAgent(f"{self._where}: its type is one of {words}, not {word!r:.100}")
        return bool(address)

    def _address(self) -> tuple[str, dict[str, Any]]:
        key = next(key for key in _URL_KEYS if self._fields.get(key))
        url = self._text(key, self._fields[key])
        headers = self._texts_by_name("headers")
        self._refuse("a url", _COMMAND_KEYS[1:])
        options: dict[str, Any] = {"headers": headers} if headers else {}
        return url, options | ({"transport": "sse"} if self._kind() == "sse" else {})

    def _command(self) -> tuple[list[str], dict[str, Any]]:
        given = self._fields["command"]
        words = self._words("command", given if isinstance(given, list) else [given])
        words += self._words("args", self._fields.get("args") or [])
        self._refuse("a command", ("headers",))
        project = self._values.project
        cwd = project / Path(self._text("cwd", self._fields.get("cwd") or ".")).expanduser()
        program = Path(words[0]).expanduser()
        if len(program.parts) > 1:  # else it is looked up in PATH
            words[0] = str(cwd / program)
        env = self._texts_by_name("env")
        return words, {"cwd": str(cwd), **({"env": env} if env else {})}

    def _refuse(self, what: str, keys: Sequence[str]) -> None:
        for key in keys:
            if self._fields.get(key):
                raise InvalidAgent(f"{self._where}: {key} cannot be combined with {what}")

    def _tools(self) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if (only := self._names(_ONLY_KEYS)) is not None:
            if not only:
                raise InvalidAgent(f"{self._where}: it allows no tool; drop the list, or disable the server")
            options["tools"] = only
        if without := self._names(_WITHOUT_KEYS):
            options["exclude"] = without
        if (approved := self._names(_APPROVED_KEYS)) is not None:
            options["approval"] = {
                **dict.fromkeys(approved, "never"),
                **({} if "*" in approved else {"*": "before"}),
            }
        return options

    def _names(self, keys: Sequence[str]) -> list[str] | None:
        """Return the names of the one list that is given; None without one."""
        given = [key for key in keys if self._fields.get(key) is not None]
        if len(given) > 1:
            raise InvalidAgent(f"{self._where}: {given[0]} and {given[1]} mean the same; give one of them")
        return self._words(given[0], self._fields[given[0]]) if given else None

    def _seconds(self, given: object) -> float:
        if not isinstance(given, int | float) or isinstance(given, bool) or not 0 < given < math.inf:
            raise InvalidAgent(f"{self._where}: timeout is a positive number, not {given!r:.100}")
        return float(given) if given <= _TIMEOUT_S_MAX else given / 1_000

    def _words(self, key: str, given: object) -> list[str]:
        if not isinstance(given, list):
            raise InvalidAgent(f"{self._where}: {key} is a list of texts, not {given!r:.100}")
        return [self._text(key, one) for one in given]

    def _texts_by_name(self, key: str) -> dict[str, str]:
        given = self._fields.get(key)
        if given is None:
            return {}
        if not isinstance(given, dict):
            raise InvalidAgent(f"{self._where}: {key} is an object of texts, not {given!r:.100}")
        return {name: self._text(f"{key}.{name}", one) for name, one in given.items() if one is not None}

    def _text(self, key: str, given: object) -> str:
        if isinstance(given, bool):
            given = str(given).lower()
        if isinstance(given, int | float):
            given = str(given)
        if not isinstance(given, str):
            raise InvalidAgent(f"{self._where}: {key} is a text, not {given!r:.100}")
        return self._values.filled(f"{self._where}: {key}", given, self._secrets)


def _prefix(name: str) -> str:
    """Return what the names of a server's tools begin with.

    >>> _prefix("github"), _prefix("My docs")
    ('github_', 'My_docs_')
    """
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:31] + "_"
