"""The parameters of an MCP server among the tools of an agent.

The headers and variables of one connection: given with the server, or made of the deps of its session.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, get_args
from urllib.parse import urlsplit

from callboard.actors.protocol.bundles import UNTRUSTED
from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.errors import InvalidAgent
from callboard.actors.protocol.profiles import Approval
from callboard.actors.protocol.prompts import RESERVED
from callboard.runtime.tools.sources import ToolSource

Values: TypeAlias = Mapping[str, str]
ValuesOf: TypeAlias = Values | Callable[[Any], Values]
"""Values by name, or a function of `deps` that returns them."""

_SECRET_CHARS_MIN: Final = 8  # shorter values, such as "1" or "debug", stand in too many texts


class Credentials(NamedTuple):
    """The headers and environment variables of one connection."""

    headers: Values
    env: Values

    def secrets(self) -> dict[str, str]:
        """Return the values that are never written, by name."""
        values: dict[str, str] = {}
        for name, value in (*self.headers.items(), *self.env.items()):
            secret = value.split(" ", 1)[-1]  # of "Bearer ..." the token
            if len(secret) >= _SECRET_CHARS_MIN:
                values[name] = secret
        return values


def copied(what: str, given: ValuesOf | None) -> ValuesOf:
    """Return a copy of the given values, or their function. Raises InvalidAgent."""
    return given if callable(given) else _checked(what, given or {})


def values_of(what: str, given: ValuesOf, deps: object) -> Values:
    """Return the values for a session with these deps. Raises InvalidAgent, and what the function raises."""
    return _checked(what, given(deps)) if callable(given) else given


def fixed(given: ValuesOf) -> Values:
    """Return the values that need no deps."""
    return {} if callable(given) else given


def _checked(what: str, values: object) -> Values:
    if not isinstance(values, Mapping):
        raise InvalidAgent(f"MCP server: {what} is a dict of texts, or a function of deps that returns one")
    if bad := next((name for pair in values.items() for name in pair if not isinstance(name, str)), None):
        raise InvalidAgent(f"MCP server: {what} is a dict of texts, not of {type(bad).__name__}")
    return dict(values)


if TYPE_CHECKING:
    import httpx2
    from mcp.server import MCPServer as InProcess
    from mcp.server import Server as LowLevel

    Server: TypeAlias = str | Sequence[str] | InProcess | LowLevel[object]
    Auth: TypeAlias = httpx2.Auth | tuple[str, str]

Share: TypeAlias = Literal["runtime", "session", "agent"]
"""The users of one connection: all sessions of a runtime, one session, or one agent of a session."""

Transport: TypeAlias = Literal["http", "sse"]
"""The way to a URL: streamable HTTP, or the two streams that MCP had before 2025-03-26."""

Capabilities: TypeAlias = Mapping[str, Collection[str]] | Collection[str]
"""The capabilities that tools need: of all of them, or by name or glob."""

_LABEL_CHARS: Final = 80
_PASSWORD_CHARS_MIN: Final = 8
T = TypeVar("T")


class ServerOptions(ToolSource):
    """The parameters of `MCPServer`, checked. Raises InvalidAgent for one that cannot work."""

    def __init__(
        self,
        server: "Server",
        *,
        name: str = "",
        tools: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        approval: Mapping[str, Approval] | None = None,
        effects: Mapping[str, Effect] | None = None,
        trust_hints: bool = False,
        prefix: str = "",
        headers: ValuesOf | None = None,
        auth: "Auth | None" = None,
        transport: Transport = "http",
        env: ValuesOf | None = None,
        secrets: Mapping[str, str] | None = None,
        cwd: str | None = None,
        share: Share | None = None,
        capabilities: Capabilities | None = None,
        untrusted: bool = True,
        elicit: bool = False,
        start_timeout_s: float = 30.0,
        timeout_s: float | None = None,
        optional: bool = False,
    ) -> None:
        self.server: Server = server if isinstance(server, str) else _words(server)
        self.label = _label(self.server, name or prefix)
        self.tools = None if tools is None else tuple(_texts("tools", tools))
        self.exclude = tuple(_texts("exclude", exclude))
        self.approval = _choices("approval", approval, get_args(Approval))
        self.effects = _choices("effects", effects, get_args(Effect))
        self.trust_hints = trust_hints
        self.prefix = _prefix(prefix)
        self.headers = copied("headers", headers)
        self.auth = auth
        self.transport: Transport = transport
        self.env = copied("env", env)
        self._secrets = copied("secrets", secrets)
        self.cwd = cwd
        self.share: Share = share or self._default_share()
        self.capabilities = _capabilities(capabilities)
        self.labels = (UNTRUSTED,) if untrusted else ()
        self.may_need = tuple(one for names in self.capabilities.values() for one in names)
        self.may_label = self.labels
        self.start_timeout_s = start_timeout_s
        self.timeout_s = timeout_s
        self.is_optional = optional
        self.elicits = elicit
        self.asks_first = elicit or bool({"before", "always"} & set(self.approval.values()))
        self._check()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.label!r})"

    def _default_share(self) -> Share:
        is_own = isinstance(self.server, tuple) or self.headers or self.auth
        return "session" if is_own else "runtime"

    def _check(self) -> None:
        is_url, is_command = isinstance(self.server, str), isinstance(self.server, tuple)
        rules = (
            (self.share in get_args(Share), f"share is one of {', '.join(get_args(Share))}"),
            (0 < self.start_timeout_s < math.inf, "start_timeout_s is a positive number of seconds"),
            (
                self.timeout_s is None or 0 < self.timeout_s < math.inf,
                "timeout_s is a positive number of seconds",
            ),
            (
                is_url or not (self.headers or self.auth),
                "headers and auth are for a URL; a command takes env=",
            ),
            (is_command or not (self.env or self.cwd), "env and cwd are for a command"),
            (self.transport in get_args(Transport), f"transport is one of {', '.join(get_args(Transport))}"),
            (is_url or self.transport == "http", "transport is for a URL"),
            (_is_auth(self.auth), "auth is an httpx2.Auth, or a user name and a password"),
            (
                self.share != "runtime" or not self.is_of_deps,
                'headers or env of the deps of a session are not for share="runtime"',
            ),
        )
        for holds, rule in rules:
            if not holds:
                raise InvalidAgent(f"MCP server {self.label!r}: {rule}")

    @property
    def is_of_deps(self) -> bool:
        """Return whether the headers or variables are made of the deps of a session."""
        return callable(self.headers) or callable(self.env)

    def credentials(self, deps: object) -> Credentials:
        """Return the headers and variables for a session with these deps.

        Raises InvalidAgent, and the exceptions of the functions that were given.
        """
        return Credentials(values_of("headers", self.headers, deps), values_of("env", self.env, deps))

    def secrets(self) -> Mapping[str, str]:
        """Return the values of the headers and variables that need no deps, by name, and the others given."""
        others = Credentials({}, fixed(self._secrets)).secrets()
        values = {**others, **Credentials(fixed(self.headers), fixed(self.env)).secrets()}
        password = self.auth[1] if isinstance(self.auth, tuple) else ""
        return {**values, "password": password} if len(password) >= _PASSWORD_CHARS_MIN else values

    def takes(self, name: str) -> bool:
        """Return whether the agent gets the tool of this name."""
        return (self.tools is None or _fits(name, self.tools)) and not _fits(name, self.exclude)


def chosen(choices: Mapping[str, T], name: str) -> T | None:
    """Return the choice for a name: its own, else that of the first glob that fits."""
    if name in choices:
        return choices[name]
    return next((choice for pattern, choice in choices.items() if fnmatchcase(name, pattern)), None)


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(name == one or fnmatchcase(name, one) for one in patterns)


def _words(server: "Server") -> "Server":
    if isinstance(server, Sequence):
        words = tuple(_texts("a command", server))
        if not words:
            raise InvalidAgent(
                'an MCP server\'s command is a list of words, such as ["uvx", "mcp-server-git"]'
            )
        return words
    if not hasattr(server, "name"):
        raise InvalidAgent(
            f"{server!r:.80} is not an MCP server: pass a URL, a command, or a server of the SDK"
        )
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


def _capabilities(given: Capabilities | None) -> dict[str, tuple[str, ...]]:
    """Return the capabilities by name or glob, each list in order. Raises InvalidAgent."""
    if not isinstance(given, Mapping):
        return {} if given is None else {"*": _capability_names("*", given)}
    return {pattern: _capability_names(pattern, names) for pattern, names in given.items()}


def _capability_names(pattern: str, names: Collection[str]) -> tuple[str, ...]:
    found = names if isinstance(names, str) else tuple(names)
    return tuple(sorted(set(_texts(f"capabilities[{pattern!r}]", found))))


def _is_auth(auth: object) -> bool:
    if isinstance(auth, tuple):
        return len(auth) == 2 and all(isinstance(one, str) for one in auth)
    return auth is None or hasattr(auth, "async_auth_flow")


def _label(server: "Server", name: str) -> str:
    """Name a server without what may be secret: the path of a URL, the options of a command."""
    if isinstance(server, str):
        label = _label_of_url(server)[:_LABEL_CHARS]  # refuses a wrong address, also with a name
        return name or label
    if name:
        return name
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
