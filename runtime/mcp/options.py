"""The parameters of an MCP server among the tools of an agent."""

import math
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar, get_args
from urllib.parse import urlsplit

from callboard.actors.protocol.errors import InvalidAgent
from callboard.actors.protocol.profiles import Approval, Effect
from callboard.actors.protocol.prompts import RESERVED
from callboard.runtime.tools.sources import ToolSource

if TYPE_CHECKING:
    from mcp.server import MCPServer as InProcess
    from mcp.server import Server as LowLevel

    Server: TypeAlias = str | Sequence[str] | InProcess | LowLevel[object]

Share: TypeAlias = Literal["runtime", "session", "agent"]
"""The users of one connection: all sessions of a runtime, one session, or one agent of a session."""

_SECRET_CHARS_MIN: Final = 8  # shorter values, such as "1" or "debug", stand in too many texts
_LABEL_CHARS: Final = 80
T = TypeVar("T")


class ServerOptions(ToolSource):
    """The parameters of `MCPServer`, checked. Raises InvalidAgent for one that cannot work."""

    def __init__(
        self,
        server: "Server",
        *,
        tools: Sequence[str] | None = None,
        approval: Mapping[str, Approval] | None = None,
        effects: Mapping[str, Effect] | None = None,
        trust_hints: bool = False,
        prefix: str = "",
        headers: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        share: Share | None = None,
        start_timeout_s: float = 30.0,
        optional: bool = False,
    ) -> None:
        self.server: Server = server if isinstance(server, str) else _words(server)
        self.label = prefix or _label(self.server)
        self.tools = None if tools is None else tuple(_texts("tools", tools))
        self.approval = _choices("approval", approval, get_args(Approval))
        self.effects = _choices("effects", effects, get_args(Effect))
        self.trust_hints = trust_hints
        self.prefix = _prefix(prefix)
        self.headers = _copied(headers)
        self.env = _copied(env)
        self.cwd = cwd
        self.share: Share = share or self._default_share()
        self.start_timeout_s = start_timeout_s
        self.is_optional = optional
        self.asks_first = bool({"before", "always"} & set(self.approval.values()))
        self._check()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.label!r})"

    def _default_share(self) -> Share:
        return "session" if isinstance(self.server, tuple) or self.headers else "runtime"

    def _check(self) -> None:
        is_url, is_command = isinstance(self.server, str), isinstance(self.server, tuple)
        rules = (
            (self.share in get_args(Share), f"share is one of {', '.join(get_args(Share))}"),
            (0 < self.start_timeout_s < math.inf, "start_timeout_s is a positive number of seconds"),
            (is_url or not self.headers, "headers are for a URL; a command takes env="),
            (is_command or not (self.env or self.cwd), "env and cwd are for a command"),
        )
        for holds, rule in rules:
            if not holds:
                raise InvalidAgent(f"MCP server {self.label!r}: {rule}")

    def secrets(self) -> Mapping[str, str]:
        """Return the values of the headers and variables, by name."""
        values: dict[str, str] = {}
        for name, value in (*self.headers.items(), *self.env.items()):
            secret = value.split(" ", 1)[-1]  # of "Bearer ..." the token
            if len(secret) >= _SECRET_CHARS_MIN:
                values[name] = secret
        return values

    def takes(self, name: str) -> bool:
        """Return whether the agent gets the tool of this name."""
        return self.tools is None or any(name == one or fnmatchcase(name, one) for one in self.tools)


def chosen(choices: Mapping[str, T], name: str) -> T | None:
    """Return the choice for a name: its own, else that of the first glob that fits."""
    if name in choices:
        return choices[name]
    return next((choice for pattern, choice in choices.items() if fnmatchcase(name, pattern)), None)


def _words(server: "Server") -> "Server":
    if isinstance(server, Sequence):
        words = tuple(_texts("a command", server))
        if not words:
            raise InvalidAgent(
                'an MCP server\'s command is a list of words, such as ["uvx", "mcp-server-git"]'
            )
        return words
    if not hasattr(server, "name"):
        raise InvalidAgent(f"{server!r:.80} is no MCP server: give a URL, a command, or a server of the SDK")
    return server


def _texts(what: str, values: Sequence[str]) -> Sequence[str]:
    if isinstance(values, str) or not all(isinstance(one, str) for one in values):
        raise InvalidAgent(f"MCP server: {what} is a list of texts, not {values!r:.100}")
    return values


def _choices(what: str, given: Mapping[str, T] | None, words: Sequence[str]) -> dict[str, T]:
    for name, word in (given or {}).items():
        if word not in words:
            raise InvalidAgent(f"MCP server: {what}[{name!r}] is one of {', '.join(words)}, not {word!r}")
    return dict(given or {})


def _prefix(prefix: str) -> str:
    is_legal = len(prefix) <= 32 and all(one.isascii() and (one.isalnum() or one in "_-") for one in prefix)
    if not is_legal or prefix in RESERVED:
        raise InvalidAgent(f"MCP server: prefix={prefix!r:.80} is up to 32 letters, digits, _ and -")
    return prefix


def _copied(given: Mapping[str, str] | None) -> dict[str, str]:
    return dict(given) if given else {}


def _label(server: "Server") -> str:
    """Name a server without what may be secret: the path of a URL, the options of a command."""
    if isinstance(server, str):
        return _label_of_url(server)[:_LABEL_CHARS]
    if isinstance(server, tuple):
        words = [PurePath(word).name for word in server[:2] if word.isprintable()]
        return " ".join(word for word in words if not word.startswith("-"))[:_LABEL_CHARS]
    return str(getattr(server, "name", ""))[:_LABEL_CHARS]


def _label_of_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidAgent(f'an MCP server is a URL, or a command as a list of words: ["{url:.80}"]')
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}"
