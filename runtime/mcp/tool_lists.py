"""The lists of tools of one server, tool by tool: one that cannot be used never takes the others away."""

import logging
from typing import Any, Final

from callboard.runtime.mcp.foreign_json import shown
from callboard.runtime.mcp.tool_schemas import usable
from callboard.runtime.sanitize import clean_text

_TEXTS: Final = ("title", "description")
_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
# The protocol 2026-07-28 wants these fields; earlier ones do not know them. No list is cached.
_FIXED: Final[dict[str, Any]] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
logger = logging.getLogger("callboard.mcp")


class ToolLists:
    """Reads the lists of one server. label: the server's name in warnings."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._warned: set[str] = set()  # a list is read every few seconds

    def readable(self, page: dict[str, Any]) -> dict[str, Any]:
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

    def _tool(self, given: object, place: int) -> dict[str, Any] | None:
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


def _annotations(given: object) -> dict[str, Any]:
    """Return the hints that are what the protocol says; a hint in words is not a hint."""
    if not isinstance(given, dict):
        return {}
    return {"annotations": {key: given[key] for key in _HINTS if isinstance(given.get(key), bool)}}
