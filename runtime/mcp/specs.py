"""The tools that a server lists, one by one: legal names, effects and approvals that the program chose."""

import contextlib
import hashlib
import json
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import mcp.types as types
import msgspec

from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.errors import InvalidAgent
from callboard.actors.protocol.immutable import Json, JsonObject
from callboard.actors.protocol.profiles import ToolOrigin, ToolSpec
from callboard.actors.protocol.prompts import RESERVED
from callboard.runtime.mcp.foreign_json import shown
from callboard.runtime.mcp.options import ServerOptions, chosen
from callboard.runtime.mcp.tool_schemas import usable
from callboard.runtime.sanitize import clean_text, to_json

TOOLS_MAX: Final = 2_000  # of one server and agent: a model's request holds every description
_DESCRIPTION_CHARS: Final = 16_000
logger = logging.getLogger("callboard.mcp")
_LEGAL: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9_-]")
_ENCODED: Final = re.compile(r".*_[0-9a-f]{16}")
_KEPT_CHARS: Final = 47  # with `_` and 16 hexadecimal digits: 64
_TEXTS: Final = ("title", "description")
_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
# The protocol 2026-07-28 wants these fields; earlier ones do not know them. No list is cached.
_FIXED: Final[JsonObject] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


class Listed(NamedTuple):
    """A tool as a server lists it now. schema: that of its arguments, as models get it."""

    name: str
    description: str
    schema: Json
    effect: Effect  # by the server's own hints


def specs_of(server: ServerOptions, tools: Iterable[types.Tool]) -> list[ToolSpec]:
    """Return the specs of the tools that the agent takes. Raises InvalidAgent for a list that cannot work."""
    given = list(tools)
    names = [tool.name for tool in given]
    _refuse_misfits(server, names)
    found = specs_now(server, given)
    if not found:
        raise InvalidAgent(
            f"MCP server {server.label!r} has no tool for the agent; it lists {_some(names)}: change tools="
        )
    return found


def specs_now(server: ServerOptions, tools: Iterable[types.Tool]) -> list[ToolSpec]:
    """Return the specs of a list that may have changed: a choice may fit no tool. Raises InvalidAgent."""
    found = _taken(server, tools)
    if len(found) > TOOLS_MAX:
        raise InvalidAgent(
            f"MCP server {server.label!r} lists {len(found):,} tools, and an agent takes at most "
            f"{TOOLS_MAX:,} of a server; choose with tools=[...]"
        )
    return [_spec(server, tool) for tool in found]


def _taken(server: ServerOptions, tools: Iterable[types.Tool]) -> list[Listed]:
    """Return the tools that the agent takes, one of each name. Raises InvalidAgent for two of one name."""
    found: dict[str, Listed] = {}
    for tool in (listed(one) for one in tools if server.takes(one.name)):
        if tool is not None and found.setdefault(tool.name, tool) != tool:
            raise InvalidAgent(
                f"MCP server {server.label!r} lists two different tools named {tool.name!r:.100}; "
                "leave the name out with tools=[...]"
            )
    return list(found.values())


def again(server: ServerOptions, specs: Iterable[ToolSpec]) -> Iterator[ToolSpec]:
    """Return recorded specs with the program's choices of today."""
    for spec in specs:
        assert spec.origin is not None
        name = spec.origin.name
        if server.takes(name):
            # Hints are not recorded, but the effect that they gave is.
            hinted = spec.effect if server.trust_hints else "write"
            yield _spec(server, Listed(name, spec.description, spec.input_schema, hinted))


def _spec(server: ServerOptions, tool: Listed) -> ToolSpec:
    hinted: Effect = tool.effect if server.trust_hints else "write"
    return ToolSpec(
        legal_name(server.prefix, tool.name),
        tool.description,
        tool.schema,
        chosen(server.effects, tool.name) or hinted,
        approval=chosen(server.approval, tool.name) or "never",
        origin=ToolOrigin(server.label, tool.name),
        capabilities=chosen(server.capabilities, tool.name) or (),
        labels=server.labels,
    )


def listed(tool: types.Tool) -> Listed | None:
    """Return a listed tool; None, with a warning, for one that no model can call."""
    try:
        schema, _ = usable(tool.input_schema)
        tool.name.encode()  # a lone surrogate could not be recorded
        text = clean_text(tool.description or tool.title or "")[:_DESCRIPTION_CHARS]
        return Listed(tool.name, text, to_json(schema), _hinted(tool.annotations))
    except (ValueError, TypeError, RecursionError) as error:
        logger.warning("the tool %.100r of an MCP server is left out: %.300s", tool.name, error)
        return None


def _hinted(hints: types.ToolAnnotations | None) -> Effect:
    if hints is not None and hints.read_only_hint is True:
        return "read"
    return "idempotent" if hints is not None and hints.idempotent_hint is True else "write"


def _refuse_misfits(server: ServerOptions, names: Sequence[str]) -> None:
    """Refuse a choice for a name that the server does not list: a slip would leave a tool unguarded."""
    choices: dict[str, Iterable[str]] = {
        # An approval that is not needed leaves nothing unguarded, and files keep such names for long.
        "approval": [name for name, word in server.approval.items() if word != "never"],
        "effects": server.effects,
        "capabilities": server.capabilities,
        "tools": server.tools or (),
        "exclude": server.exclude,
    }
    for what, keys in choices.items():
        for key in keys:
            if not any(chosen({key: True}, name) for name in names):
                raise InvalidAgent(
                    f"MCP server {server.label!r}: {what}= names {key!r}, and it lists {_some(names)}"
                )


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(clean_text(name)[:64] for name in names[:10])
    return (shown + (f" and {len(names) - 10:,} more" if len(names) > 10 else "")) or "no tool"


def same_schema(one: Json, other: Json) -> bool:
    """Return whether two schemas are the same value when mended; the order of keys does not matter."""
    return bytes(one) == bytes(other) or _sorted(one) == _sorted(other)


def _sorted(schema: Json) -> str:
    value = msgspec.json.decode(schema)
    with contextlib.suppress(ValueError):
        value, _ = usable(value)  # a recorded one may be of a version that mended less
    return json.dumps(value, sort_keys=True)


def legal_name(prefix: str, name: str) -> str:
    """Return the name by which models call a tool. prefix: legal, put before each name.

    >>> legal_name("", "read_file"), legal_name("fs_", "read_file")
    ('read_file', 'fs_read_file')
    >>> legal_name("", "notes/read.all")
    'notes_read_all_a64d9544e1c5c53d'
    """
    whole = prefix + name
    if _LEGAL.fullmatch(whole) and whole not in RESERVED and not _ENCODED.fullmatch(whole):
        return whole
    digest = hashlib.blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{_ILLEGAL.sub('_', whole)[:_KEPT_CHARS]}_{digest}"


class ToolLists:
    """Reads the lists of one server. label: the server's name in warnings."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._warned: set[str] = set()  # a list is read every few seconds

    def readable(self, page: JsonObject) -> JsonObject:
        """Return a page of the list that the SDK can read. Raises ValueError for one that is not a list."""
        given = page.get("tools")
        if not isinstance(given, list):
            raise ValueError(f"a page of its list has no tools: {shown(page)}")
        tools = [tool for place, one in enumerate(given) if (tool := self._tool(one, place)) is not None]
        cursor = page.get("nextCursor")
        if isinstance(cursor, int) and not isinstance(cursor, bool):
            cursor = str(cursor)
        if cursor is not None and not (isinstance(cursor, str) and cursor == clean_text(cursor)):
            raise ValueError(f"the cursor of its next page is not text: {shown(cursor, 100)}")
        more = {"nextCursor": cursor} if cursor else {}
        return {"tools": tools, **more, **_FIXED}

    def _tool(self, given: object, place: int) -> dict[str, object] | None:
        """Return the parts of a tool that are used, in their right types; None, with a warning, without."""
        name = given.get("name") if isinstance(given, dict) else None
        if not isinstance(given, dict) or not isinstance(name, str) or not name:
            self._warn(f"tool {place + 1} is left out: it has no name: {shown(given, 100)}")
            return None
        try:
            name.encode()  # a lone surrogate could not be recorded
            schema, mended = usable(given.get("inputSchema"))
        except (ValueError, RecursionError) as error:
            self._warn(f"the tool {name!r:.100} is left out: {error}")
            return None
        if mended:
            self._warn(f"the tool {name!r:.100} is taken without {'; '.join(mended)}")
        texts = {key: clean_text(given[key]) for key in _TEXTS if isinstance(given.get(key), str)}
        return {"name": name, **texts, "inputSchema": schema, **_annotations(given.get("annotations"))}

    def _warn(self, what: str) -> None:
        text = clean_text(f"MCP server {self._label!r}: {what}")[:1_000]
        if text not in self._warned:
            self._warned.add(text)
            logger.warning("%s", text)


def _annotations(given: object) -> dict[str, object]:
    """Return the hints that are what the protocol says; a hint in words is not a hint."""
    if not isinstance(given, dict):
        return {}
    return {"annotations": {key: given[key] for key in _HINTS if isinstance(given.get(key), bool)}}
