"""The parts that the orchestrators of all frameworks share: their rules, their tools, and the report."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from mcp import types
from mcp.server.lowlevel import Server

from callboard.orchestrator import Orchestrator, SpecialistResult
from regreader.tools import Found, ToolFailure, Tools

SERVER = "regulations"
REPORT: Found = {"title": "report", **SpecialistResult.schema()}


class Parts:
    """The parts of an orchestrator. rules: those of callboard's own one. tools: of the server, by name."""

    def __init__(self, rules: Orchestrator, tools: Tools) -> None:
        self.rules, self._tools = rules, tools
        each = {one.name: one for specialist in rules.enabled for one in specialist.tools}
        self.tools = {
            name: types.Tool(
                name=name, description=one.description, input_schema=json.loads(bytes(one.input_schema))
            )
            for name, one in each.items()
        }
        self.server: Server[Any] = Server(SERVER, on_list_tools=self._list, on_call_tool=self._answer)

    def function(self, tool: str) -> Callable[..., Awaitable[str]]:
        """Return a function that calls a tool of the server without a client. It raises ToolFailure."""

        async def call(**arguments: Any) -> str:
            asked = types.CallToolRequestParams(name=tool, arguments=arguments)
            result = await self._answer(None, asked)
            text = "".join(one.text for one in result.content if isinstance(one, types.TextContent))
            if result.is_error:
                raise ToolFailure("bad_argument", text)
            return text

        return call

    async def _list(self, ctx: object, asked: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[*self.tools.values()])

    async def _answer(self, ctx: object, asked: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            found, is_error = self._tools.call(asked.name, asked.arguments or {}), False
        except ToolFailure as error:
            found, is_error = {"error": {"code": error.code, "message": str(error)}}, True
        text = json.dumps(found, ensure_ascii=False)
        return types.CallToolResult(content=[types.TextContent(text=text)], is_error=is_error)
