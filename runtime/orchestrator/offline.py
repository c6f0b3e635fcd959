"""A model that decides as the rules and the policies of an orchestrator do, for agents of any framework.

    asked by                                           wants
    an agent with the instructions of a specialist     the calls that its policy makes; then it reports
    any other agent                                    the tools `ask_NAME` of the specialists that the route
                                                       names next; then the other tool, to report

The results of the calls are in the conversation, so a policy runs again for each request, up to the first
call that has no result yet.
"""

from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec

from callboard.actors.protocol.errors import CallFailed, MisuseError
from callboard.actors.protocol.immutable import JsonObject
from callboard.actors.protocol.request import ModelRequest
from callboard.runtime.models.scripted import Call, Reply, ScriptedModel, call, calls, say
from callboard.runtime.orchestrator.analysis import Specialist
from callboard.runtime.orchestrator.contracts import Finding, Question, SpecialistContext, SpecialistResult
from callboard.runtime.orchestrator.orchestrator import Orchestrator

_ASK: Final = "ask_"


def offline_model(rules: Orchestrator) -> ScriptedModel:
    """Return a model that decides as an orchestrator does, for another host of its specialists.

    rules: its enabled specialists have a policy. The agents of the host have the instructions of the
    specialists, tools whose names end with those of theirs, and one more tool, by which they report.
    Raises MisuseError for a specialist without a policy.
    """
    for one in rules.enabled:
        if one.policy is None:
            raise MisuseError(f"specialist {one.name!r} has no policy to decide by: give it `policy=`")
    return ScriptedModel(partial(_answer, rules))


def _answer(rules: Orchestrator, request: ModelRequest) -> Call | Reply:
    said, words = _read(request), str(msgspec.json.decode(request.system))
    names = [str(msgspec.json.decode(tool)["name"]) for tool in request.tools]
    known = [one for one in rules.enabled if one.instructions and one.instructions in words]
    return _decided(known[0], said, names) if known else _routed(rules, said, names)


class _Result(NamedTuple):
    """The result of a call. value: None if it failed."""

    tool: str
    value: Any
    is_error: bool


class _Said(NamedTuple):
    """The last prompt of a conversation, and the results of the calls after it."""

    prompt: str
    results: Sequence[_Result]


class _Wanted(Exception):
    """The policy has made a call that has no result yet."""

    def __init__(self, tool: str, arguments: JsonObject) -> None:
        super().__init__(tool)
        self.tool = tool
        self.arguments = arguments


class _Replayed:
    """In place of the context of a program: a policy reads nothing of it but the results of its calls."""

    def __init__(self, results: Sequence[_Result]) -> None:
        self._results: Iterator[_Result] = iter(results)

    async def call(self, tool: str, **arguments: object) -> Any:
        """Return the next result of the conversation. Raises CallFailed, as a program's context does."""
        for one in self._results:
            if one.is_error:
                raise CallFailed(f"{tool} failed", str(one.value))
            return one.value
        raise _Wanted(tool, arguments)


def _decided(one: Specialist, said: _Said, names: Sequence[str]) -> Call | Reply:
    own = [tool.name for tool in one.tools]
    policy: Callable[..., Coroutine[object, object, SpecialistResult]] = one.policy  # type: ignore[assignment]  # a stand-in for its context
    run = policy(_Replayed(said.results), _context_of(said.prompt))
    try:
        run.send(None)
    except StopIteration as done:
        return _report(msgspec.to_builtins(done.value), [name for name in names if not _ends(name, own)])
    except _Wanted as wanted:
        return call(next(name for name in names if _ends(name, [wanted.tool])), **wanted.arguments)
    finally:
        run.close()
    raise MisuseError(f"the policy of {one.name!r} waits for more than its calls")


def _ends(name: str, tools: Sequence[str]) -> bool:
    return any(name == tool or name.endswith(f"_{tool}") for tool in tools)


def _report(value: JsonObject, names: Sequence[str]) -> Call | Reply:
    return call(names[0], **value) if names else say(msgspec.json.encode(value).decode())


def _routed(rules: Orchestrator, said: _Said, names: Sequence[str]) -> Call | Reply:
    found = [
        Finding.from_value(one.tool.removeprefix(_ASK), None if one.is_error else one.value)
        for one in said.results
    ]
    asked = Question.from_prompt(said.prompt)
    wanted = [call(f"{_ASK}{name}", query=asked.query) for name in rules.route(asked).next(found)]
    return calls(*wanted) if wanted else _report({}, [name for name in names if not name.startswith(_ASK)])


def _context_of(prompt: str) -> SpecialistContext:
    try:
        return msgspec.json.decode(prompt, type=SpecialistContext)
    except msgspec.DecodeError:  # a question without a scope
        return SpecialistContext(prompt)


def _read(request: ModelRequest) -> _Said:
    prompt, wanted, results = "", dict[str, str](), list[_Result]()
    for block in chain.from_iterable(_blocks(said["content"]) for said in request.conversation):
        if block["type"] == "tool_use":
            wanted[block["id"]] = block["name"]
        elif block["type"] == "tool_result":
            results.append(_result(wanted[block["tool_use_id"]], block))
        elif block["type"] == "text":  # the model itself says none
            prompt, results = block["text"], []
    return _Said(prompt, results)


def _blocks(content: str | list[JsonObject]) -> list[JsonObject]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _result(tool: str, block: JsonObject) -> _Result:
    text = "".join(one.get("text", "") for one in _blocks(block.get("content", "")))
    if block.get("is_error"):
        return _Result(tool, text, is_error=True)
    try:
        return _Result(tool, msgspec.json.decode(text), is_error=False)
    except msgspec.DecodeError:
        return _Result(tool, text, is_error=False)
