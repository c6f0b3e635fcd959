"""A program in place of a Claude client, for simulations, which have no processes.

It makes the requests of the client for what its options say: the prompt, the system prompt, the tools, the
results of calls, the form of the report, the end of its turns. The model that a simulation scripts therefore
answers the same requests as a live one.
"""

import asyncio
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

import jsonschema_rs
from claude_agent_sdk import ClaudeAgentOptions

from callboard.actors.protocol.immutable import JsonObject
from callboard.runtime.brains.claude_model import text_of
from callboard.runtime.brains.claude_tools import Served, content_of
from callboard.runtime.brains.common import Latch, latching
from callboard.runtime.programs.context import ProgramContext

_IDENTITY: Final = "You are a Claude agent, built on Anthropic's Claude Agent SDK."
_REPORT: Final = "StructuredOutput"
_REPORT_WORDS: Final = (
    "Use this tool to return your final response in the requested structured format. You MUST call this tool "
    "exactly once at the end of your response to provide the structured output."
)
_REPORTS_MAX: Final = 5
_ASK_FOR_REPORT: Final = (
    "[structured-output-enforce] You MUST call the StructuredOutput tool to complete this request. Call this "
    "tool now."
)
_TURNS_MAX: Final = 10_000  # as `Limits.max_steps` has it


class StandIn:
    """The stand-in of a client. max_tokens: of each reply."""

    def __init__(self, given: ClaudeAgentOptions, served: Sequence[Served], max_tokens: int) -> None:
        self._system = [_text(one) for one in (_IDENTITY, given.system_prompt) if isinstance(one, str)]
        called = {f"mcp__{one.server}__{one.name}": one for one in served}
        barred = {*given.disallowed_tools}
        self._names = {name: one.name for name, one in called.items() if name not in barred}
        self._allowed = given.allowed_tools or [*called]
        self._max_tokens = max_tokens
        self._turns_max = given.max_turns or _TURNS_MAX
        self._report = None if given.output_format is None else dict(given.output_format["schema"])
        self._tools: list[JsonObject] = [
            {"name": name, "description": called[name].description, "input_schema": called[name].schema}
            for name in self._names
        ]
        if self._report is not None:
            form = {"name": _REPORT, "description": _REPORT_WORDS, "input_schema": self._report}
            self._tools.insert(0, form)

    async def run(self, ctx: ProgramContext, prompt: object) -> object:
        """Answer as the client does."""
        messages: list[JsonObject] = [_said(_text(text_of(ctx.prompt_json)))]
        wrong = 0
        for _ in range(self._turns_max):
            with latching(ctx, Latch()):
                reply = await ctx.ask_model(
                    messages=messages, tools=self._tools, system=self._system, max_tokens=self._max_tokens
                )
            messages.append(reply.message)
            if not reply.calls and self._report is None:
                return reply.text
            for one in reply.calls:
                if one["name"] == _REPORT and self._report is not None:
                    if not self._problems(one["input"]):
                        return one["input"]
                    wrong += 1
            if wrong >= _REPORTS_MAX:
                raise ctx.fail("the output never fitted its schema", kind="no_report")
            results = await asyncio.gather(*(self._result(ctx, one) for one in reply.calls))
            messages.append(_said(*(results or [_text(_ASK_FOR_REPORT)])))
        raise ctx.fail(f"Reached maximum number of turns ({self._turns_max})", kind="iteration_cap")

    async def _result(self, ctx: ProgramContext, call: JsonObject) -> JsonObject:
        """Return the result of a call as the client puts it into its next request."""
        name, is_error = call["name"], True
        content: object
        if name == _REPORT and self._report is not None:
            content = f"Output does not match required schema: {self._problems(call['input'])}"
        elif name not in self._names:
            content = f"<tool_use_error>Error: No such tool available: {name}</tool_use_error>"
        elif not any(fnmatchcase(name, rule) or name.startswith(f"{rule}__") for rule in self._allowed):
            content = f"Claude requested permissions to use {name}, but you haven't granted it yet."
        else:
            answer = await ctx._ask(self._names[name], call["input"])
            is_error = answer.is_error
            content = answer.text if is_error else content_of(answer.content)
        marks = {"is_error": True} if is_error else {}
        return {"type": "tool_result", "tool_use_id": call["id"], "content": content, **marks}

    def _problems(self, report: object) -> str:
        assert self._report is not None  # the model has the tool
        errors = jsonschema_rs.validator_for(self._report).iter_errors(report)
        return "; ".join(f"/{'/'.join(map(str, one.instance_path))}: {one.message}" for one in errors)


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _said(*blocks: JsonObject) -> JsonObject:
    return {"role": "user", "content": list(blocks)}
