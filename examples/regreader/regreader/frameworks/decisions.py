"""The offline policies behind a model: it wants the calls that a policy makes, and reports its answer.

The results of the calls are in the conversation, so a policy runs again for each request, until it makes the
first call that has no result yet. Any framework can ask it, since it knows a specialist by its instructions.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from callboard import Call, ModelRequest, Reply, ScriptedModel, call, calls
from callboard.orchestrator import Question, SpecialistContext, SpecialistResult, ToolUse
from regreader.frameworks.parts import Parts, finding
from regreader.policies import Policy
from regreader.tools import TOOL_NAMES, Found

Result = tuple[str, Any, bool]  # the tool, what it found, whether the call failed
_NO_SESSION: Any = None  # a policy reads nothing of its context but the results of calls


class _WantedCall(Exception):
    """The policy has made a call that has no result yet."""


class _Policy(Policy):
    """A policy whose calls get the results of a conversation."""

    def __init__(self, context: SpecialistContext, results: Iterable[Any]) -> None:
        super().__init__(_NO_SESSION, context)
        self._results = iter(results)

    async def call(self, tool: str, **arguments: object) -> Any:
        """Return the next result of the conversation."""
        self.calls.append(ToolUse(tool, arguments))
        for found in self._results:
            return found
        raise _WantedCall


def decisions(parts: Parts) -> ScriptedModel:
    """Return the model that decides as the policies do, in the place of a real one."""

    def answer(request: ModelRequest) -> Call | Reply:
        words = str(json.loads(bytes(request.system)))
        names = [str(json.loads(bytes(tool))["name"]) for tool in request.tools]
        prompt, results = _read(request)
        known = (one.name for one in parts.rules.enabled if one.instructions in words)
        if (name := next(known, "")) == "":
            return _delegated(parts, Question.from_prompt(prompt), results, names)
        run = _Policy(_context_of(prompt), (None if is_error else found for _, found, is_error in results))
        try:
            getattr(run, name)().send(None)
        except StopIteration as done:
            report: SpecialistResult = done.value
            return call(_report_in(names), **msgspec.to_builtins(report))
        except _WantedCall:
            wanted = run.calls[-1]
            tool = next(one for one in names if one.endswith(wanted.tool))
            return call(tool, **wanted.arguments)
        raise AssertionError("a policy waits for its calls only")

    return ScriptedModel(answer)


def _delegated(parts: Parts, asked: Question, results: list[Result], names: list[str]) -> Reply:
    """Ask the next specialists of the route by their tools, or end it."""
    found = [finding(tool.removeprefix("ask_"), report) for tool, report, _ in results]
    wanted = [call(f"ask_{name}", query=asked.query) for name in parts.next(asked.query, found)]
    return calls(*(wanted or [call(_report_in(names))]))


def _context_of(prompt: str) -> SpecialistContext:
    try:
        return msgspec.json.decode(prompt, type=SpecialistContext)
    except msgspec.DecodeError:  # a question without a scope, from an `Orchestrator`
        return SpecialistContext(prompt)


def _report_in(names: list[str]) -> str:
    return next(one for one in names if not one.endswith(TOOL_NAMES) and not one.startswith("ask_"))


def _read(request: ModelRequest) -> tuple[str, list[Result]]:
    """Return the last prompt of a conversation, and the results of the calls after it."""
    prompt, wanted, results = "", dict[str, str](), list[Result]()
    for role, block in _blocks(request):
        if block["type"] == "tool_use":
            wanted[block["id"]] = block["name"]
        elif block["type"] == "tool_result":
            results.append((wanted[block["tool_use_id"]], _value(block), block.get("is_error", False)))
        elif role == "user":
            prompt, results = block["text"], []
    return prompt, results


def _blocks(request: ModelRequest) -> Iterator[tuple[str, Found]]:
    for said in request.conversation:
        content = said["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            yield said["role"], block


def _value(block: Found) -> Any:
    content = block.get("content", "")
    text = content if isinstance(content, str) else "".join(one.get("text", "") for one in content)
    try:
        return json.loads(text)
    except ValueError:
        return text
