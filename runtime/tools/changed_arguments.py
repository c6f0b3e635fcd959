"""The check of arguments that a person gives a call instead of the model's."""

from collections.abc import Mapping

from callboard.actors.protocol.errors import InvalidPrompt
from callboard.actors.protocol.immutable import Json
from callboard.runtime.sanitize import to_json
from callboard.runtime.schemas.validators import TooComplex, problems_in
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.tool import FunctionTool, Tool


def changed_arguments(tool: Tool, arguments: Mapping[str, object]) -> Json:
    """Return the arguments as JSON. Raises InvalidPrompt with the problems if the tool cannot take them."""
    data = to_json(dict(arguments), what="The arguments")
    tool.bind(data, ToolContext(tool=tool.name))
    if not isinstance(tool, FunctionTool):  # whose annotations were checked by `bind`, completely
        _check(tool, data)
    return data


def _check(tool: Tool, data: Json) -> None:
    """Check the arguments against a ready schema. Raises InvalidPrompt."""
    try:
        problems = problems_in(bytes(tool.input_schema), data)
    except TooComplex:
        raise InvalidPrompt(
            f"the schema of {tool.name} is too complex to check changed arguments; approve the call as it "
            "is, or deny it with a note"
        ) from None
    if problems:
        said = "; ".join(f"at {one.path or '/'}: {one.message}" for one in problems)
        raise InvalidPrompt(f"Invalid arguments for {tool.name}: {said}")
