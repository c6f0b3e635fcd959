"""The parts that the orchestrators of all frameworks share: tools, words, rules and the report."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from mcp import types
from mcp.server.lowlevel import Server
from msgspec.structs import replace

from callboard.orchestrator import (
    Finding,
    ModelAnalyzer,
    Orchestrator,
    QueryIntent,
    Question,
    Specialist,
    SpecialistContext,
    SpecialistResult,
)
from regreader.tools import Found, ToolFailure, Tools

SERVER = "regulations"


class Parts(NamedTuple):
    """The parts of an orchestrator. rules: those of callboard's own one. tools: of the server, by name."""

    rules: Orchestrator
    server: Server[Any]
    tools: Mapping[str, types.Tool]
    answer: Callable[[str, Found], types.CallToolResult]

    async def call(self, tool: str, /, **arguments: Any) -> str:
        """Call a tool of the server without a client. Raises ToolFailure."""
        result = self.answer(tool, arguments)
        text = "".join(one.text for one in result.content if isinstance(one, types.TextContent))
        if result.is_error:
            raise ToolFailure("bad_argument", text)
        return text

    def intent_of(self, question: str) -> QueryIntent:
        """Return the intent of a question, by rules."""
        assert not isinstance(self.rules.analyzer, ModelAnalyzer)
        return self.rules.analyzer(question)

    def next(self, question: str, found: Sequence[Finding]) -> list[str]:
        """Return the specialists to ask after some findings, as an `Orchestrator` does; none at the end."""
        intent, router, enabled = self.intent_of(question), self.rules.router, self.rules.enabled
        names = router.select(question, intent, enabled)
        if self.rules.mode == "parallel":
            return [] if found else [*names]
        if found and router.answered(intent, found):
            return []
        line = list(dict.fromkeys([*names, *router.fallback(enabled)]))[: router.max_hops]
        return line[len(found) : len(found) + 1]

    def prompt(self, asked: Question, found: Sequence[Finding]) -> str:
        """Return the prompt of a specialist."""
        hints = self.intent_of(asked.query).hints
        context = SpecialistContext(asked.query, asked.scope, hints, found=tuple(found))
        return msgspec.json.encode(context).decode()

    def merged(self, question: str, found: Sequence[Finding]) -> Found:
        """Merge the findings into an `OrchestratorResult`, as JSON values."""
        merged = self.rules.aggregator(found)
        more = {"intent": self.intent_of(question), "route": [one.specialist for one in found]}
        result: Found = msgspec.to_builtins(replace(merged, data={**merged.data, **more}))
        return result


def report_of(one: Specialist) -> Found:
    """Return the schema of a specialist's report, a `SpecialistResult`."""
    kind = one.make_agent().output_type
    assert kind is not None
    return {"title": "report", **msgspec.json.decode(kind.schema)}


def finding(name: str, report: object) -> Finding:
    """Return a specialist's report as a finding; one without an answer for a report of another form."""
    try:
        return Finding(name, msgspec.convert(report, SpecialistResult))
    except msgspec.ValidationError as error:
        return Finding(name, SpecialistResult(False, error=f"no report: {error}"), "no_report")


def parts_of(rules: Orchestrator, tools: Tools) -> Parts:
    """Return the parts of an orchestrator, with a server of the tools that its specialists have."""
    each = {one.name: one for specialist in rules.enabled for one in specialist.tools}
    listed = {
        name: types.Tool(
            name=name, description=one.description, input_schema=json.loads(bytes(one.input_schema))
        )
        for name, one in each.items()
    }

    def answer(tool: str, arguments: Found) -> types.CallToolResult:
        try:
            found, is_error = tools.call(tool, arguments), False
        except ToolFailure as error:
            found, is_error = {"error": {"code": error.code, "message": str(error)}}, True
        text = json.dumps(found, ensure_ascii=False)
        return types.CallToolResult(content=[types.TextContent(text=text)], is_error=is_error)

    async def on_list_tools(ctx: object, asked: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[*listed.values()])

    async def on_call_tool(ctx: object, asked: types.CallToolRequestParams) -> types.CallToolResult:
        return answer(asked.name, asked.arguments or {})

    server = Server(SERVER, on_list_tools=on_list_tools, on_call_tool=on_call_tool)
    return Parts(rules, server, listed, answer)
