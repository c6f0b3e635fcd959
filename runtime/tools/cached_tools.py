"""Tools whose results are given again must be told apart by their descriptions, since results are found by
those: two functions with one description would give each other's results."""

from collections.abc import Iterable

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.errors import InvalidAgent
from callboard.runtime.tools.tool import Tool


def refuse_alike(tools: Iterable[Tool]) -> None:
    """Refuse two functions with one description among the tools of a session. Raises InvalidAgent."""
    found: dict[bytes, Tool] = {}
    for tool in tools:
        spec = tool.spec()
        if spec.cache is None:
            continue
        known = found.setdefault(encode(spec), tool)
        if known.function is not tool.function:
            raise InvalidAgent(
                f"two agents have a tool {tool.name!r} with the same description and different functions, "
                "and its results are given again: give the tools different names, or different version=..."
            )
