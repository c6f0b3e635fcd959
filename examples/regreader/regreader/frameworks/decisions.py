"""The offline policies behind a model: it wants the calls that a policy makes, and reports its answer.

The results of the calls are in the conversation, so a policy runs again for each request, until it makes the
first call that has no result yet. Any framework can ask it, since it knows a specialist by its instructions.
"""

import json
from typing import Any

import msgspec

from callboard import Call, ModelRequest, Reply, ScriptedModel, call, calls
from callboard.orchestrator import Finding, Orchestrator, Question, SpecialistContext, ToolUse
from regreader.policies import Policy
from regreader.tools import TOOL_NAMES, Found

Result = tuple[str, Any]  # the name of a tool, and what it found; None if the call failed
_NO_SESSION: Any = None  # a policy reads nothing of its context but the results of calls


class _WantedCall(Exception):
    """The policy has made a call that has no result yet."""


class _Policy(Policy):
    """A policy whose calls get the results of a conversation."""

    def __init__(self, context: SpecialistContext, results: list[Result]) -> None:
        super().__init__(_NO_SESSION, context)
        self._results = iter(results)

    async def call(self, tool: str, **arguments: object) -> Any:
        """Return the next result of the conversation."""
        self.calls.append(ToolUse(tool, arguments))
        for _, found in self._results:
            return found
        raise _WantedCall


def decisions(rules: Orchestrator) -> ScriptedModel:
    """Return the model that decides as the policies do, in the place of a real one."""

    def answer(request: ModelRequest) -> Call | Reply:
        words = str(json.loads(bytes(request.system)))
        names = [str(json.loads(bytes(tool))["name"]) for tool in request.tools]
        report = next(one for one in names if not one.endswith(TOOL_NAMES) and not one.startswith("ask_"))
        prompt, results = _read(request)
        name = next((one.name for one in rules.enabled if one.instructions in words), "")
        if not name:  # the one who asks the specialists by its tools
            found = [Finding.from_value(tool.removeprefix("ask_"), one) for tool, one in results]
            asked = Question.from_prompt(prompt)
            wanted = [call(f"ask_{one}", query=asked.query) for one in rules.route(asked).next(found)]
            return calls(*(wanted or [call(report)]))
        run = _Policy(_context_of(prompt), results)
        try:
            getattr(run, name)().send(None)
        except StopIteration as done:
            return call(report, **msgspec.to_builtins(done.value))
        except _WantedCall:
            tool = next(one for one in names if one.endswith(run.calls[-1].tool))
            return call(tool, **run.calls[-1].arguments)
        raise AssertionError("a policy waits for its calls only")

    return ScriptedModel(answer)


def _context_of(prompt: str) -> SpecialistContext:
    try:
        return msgspec.json.decode(prompt, type=SpecialistContext)
    except msgspec.DecodeError:  # a question without a scope
        return SpecialistContext(prompt)


def _read(request: ModelRequest) -> tuple[str, list[Result]]:
    """Return the last prompt of a conversation, and the results of the calls after it."""
    prompt, wanted, results = "", dict[str, str](), list[Result]()
    for block in (one for said in request.conversation for one in said["content"]):
        if block["type"] == "tool_use":
            wanted[block["id"]] = block["name"]
        elif block["type"] == "tool_result":
            results.append((wanted[block["tool_use_id"]], _value(block)))
        else:  # a text, and the model says none
            prompt, results = block["text"], []
    return prompt, results


def _value(block: Found) -> Any:
    content = block.get("content", "")
    text = content if isinstance(content, str) else "".join(one.get("text", "") for one in content)
    return None if block.get("is_error") else json.loads(text)
