"""A model that answers from a script or from a function of the request, for tests, demos and simulation.

    ScriptedModel([call("read_file", path="a.txt"), "The file says hello."])
    ScriptedModel({"host": [call("task", ...), "Done."], "explorer": ["Found it."]})
    ScriptedModel(lambda request: call("add", a=1, b=2) if request.turn == 1 else "3")

The n-th turn of an agent gets the n-th turn of its script. One turn of a script has a step for each attempt:
either retryable failures and the step after them, or a list of steps. A later attempt gets the last step
again if that was an answer, because the answer was lost on its way. So parallel agents, several sessions, a
resumed session in a new process and a fork all get the same answers.

A request without a step ends its agent as `model_error` with a text that says so. `assert_done()` raises for
such requests, and for steps that were never played.
"""

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from importlib import import_module
from operator import attrgetter
from typing import Final, TypeAlias, cast

import msgspec

from callboard.actors.agent.content import read
from callboard.actors.protocol.addresses import BELOW_HOST
from callboard.actors.protocol.conversation import text_block
from callboard.actors.protocol.errors import ScriptError, UnknownName
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.profiles import ModelSpec, Prices
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Usage
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.failure_text import located_text
from callboard.runtime.models.protocol import Model, ModelAnswer, OnText, is_model
from callboard.runtime.models.readable import ReadableRequest
from callboard.runtime.sanitize import clean_text, to_json

MAX_PROBLEMS: Final = 100  # the number of problems kept for `assert_done`
MAX_UNPLAYED: Final = 10  # the steps that `assert_done` names
MAX_ASKED_BYTES: Final = 300  # the bytes of the last message that a problem shows


class _ToolUse(msgspec.Struct, frozen=True, tag="tool_use", tag_field="type", gc=False):
    id: str
    name: str
    input: Json


_NOMINAL = Usage(input_tokens=1, output_tokens=1)
_encode = msgspec.json.Encoder().encode


class Call:
    """A tool call by the model. Its id is made when the step is used."""

    def __init__(self, tool: str, /, **arguments: object) -> None:
        self.tool = tool
        self.input = to_json(arguments, what=f"The arguments of {tool}")

    def __repr__(self) -> str:
        return f"call({self.tool!r}, {bytes(self.input).decode()})"


class Reply:
    """One answer: text and then tool calls, or content blocks.

    stop_reason: by default `tool_use` if there are calls, else `end_turn`. usage: None takes the model's.
    content: the blocks of a Messages API answer, sent unchanged, instead of text and calls.
    """

    def __init__(
        self,
        text: str = "",
        calls: Sequence[Call] = (),
        stop_reason: str | None = None,
        usage: Usage | None = None,
        content: Sequence[Mapping[str, object]] | Json | None = None,
    ) -> None:
        if content is not None and (text or calls):
            raise ScriptError("a Reply has content, or text and calls; put the text into the content")
        self.text = text
        self.calls = tuple(calls)
        self.content = None if content is None else to_json(content, what="The content")
        said = None if self.content is None else read(self.content)
        has_calls = bool(self.calls) or (said is not None and bool(said.uses))
        self.stop_reason = stop_reason or ("tool_use" if has_calls else "end_turn")
        self.usage = usage

    def __repr__(self) -> str:
        return f"Reply({self.text!r}, {list(self.calls)!r}, {self.stop_reason!r})"


Step: TypeAlias = str | Reply | Call | ModelFailure
"""One step of a script: text, a reply, one call, or a failure (`fail(...)`)."""

Policy: TypeAlias = Callable[[ModelRequest], Step | Awaitable[Step]]
"""A function of the request, sync or async. It must return the same step for the same request."""

Steps: TypeAlias = Sequence[Step | Policy | Sequence[Step | Policy]]
"""Steps in the order of an agent's turns. A list among them holds the attempts of one turn."""

_KINDS = (str, Reply, Call, ModelFailure)


def say(text: str) -> Reply:
    """Make a reply of text."""
    return Reply(text)


def call(tool: str, /, **arguments: object) -> Call:
    """Make a reply of one tool call.

    >>> call("read_file", path="a.txt")
    call('read_file', {"path":"a.txt"})
    """
    return Call(tool, **arguments)


def calls(*made: Call, text: str = "") -> Reply:
    """Make a reply of several tool calls, which run in parallel."""
    return Reply(text, made)


def fail(
    code: str = "overloaded_error",
    message: str = "",
    *,
    is_retryable: bool = True,
    retry_after_s: float | None = None,
) -> ModelFailure:
    """Make a failed attempt, as a service reports one. If it is retryable, another attempt follows."""
    wait_ms = None if retry_after_s is None else round(retry_after_s * 1_000)
    return ModelFailure(code, message or f"scripted {code}", is_retryable, wait_ms)


class Script:
    """A list of steps, or a policy function, and the steps that were played.

    kinds: the types of a step. A callable is a step too; it is called with the request.
    is_plain: the list is for the first agent that asks, and for no other.
    Raises ScriptError for any other object.
    """

    def __init__(self, steps: object, kinds: tuple[type, ...], *, is_plain: bool = False) -> None:
        self._policy: Callable[[ModelRequest], object] | None = steps if callable(steps) else None
        self._kinds = kinds
        self._is_plain = is_plain
        self._owner = ""
        self._played: set[tuple[int, int]] = set()
        self._turns = [] if callable(steps) else self._grouped(steps)

    def step(self, request: ModelRequest) -> object:
        """Return the step for this request, or the result of the policy. Raises ScriptError."""
        if self._policy is not None:
            return self._policy(ReadableRequest.of(request))
        if self._is_plain and self._owner not in ("", request.address):
            raise ScriptError(
                f"the script is a plain list for one agent, and {self._owner} has asked first; "
                "pass a dict with a list for each profile name or address"
            )
        self._owner = request.address
        step = self._find(request.turn, request.attempt)
        return step(ReadableRequest.of(request)) if callable(step) else step

    def unplayed(self) -> list[str]:
        """Describe each step that was never played."""
        # Turns before the first played one count as played: a resumed session or a fork starts after them.
        first = min((turn for turn, _ in self._played), default=1)
        left = [
            f"step {step!r:.100} of turn {turn} was never played"
            for turn, attempts in enumerate(self._turns, 1)
            for place, step in enumerate(attempts)
            if turn >= first and (turn, place) not in self._played
        ]
        return left[:MAX_UNPLAYED] + (
            [f"and {len(left) - MAX_UNPLAYED} more"] if len(left) > MAX_UNPLAYED else []
        )

    def _find(self, turn: int, attempt: int) -> object:
        attempts = self._turns[turn - 1] if turn <= len(self._turns) else []
        if attempt > len(attempts) and (not attempts or isinstance(attempts[-1], ModelFailure)):
            raise ScriptError(f"the script ends after turn {len(self._turns)}; it has no step for this")
        place = min(attempt, len(attempts)) - 1
        self._played.add((turn, place))
        return attempts[place]

    def _grouped(self, steps: object) -> list[list[object]]:
        if not isinstance(steps, Sequence) or isinstance(steps, str):
            raise ScriptError(f"a script is a list of steps or a function, not {steps!r:.100}")
        turns: list[list[object]] = []
        is_open = False  # the last turn goes on, since a failure ended it
        for step in steps:
            is_turn = isinstance(step, list | tuple) and bool(step)
            if is_turn or not is_open:
                turns.append([])
            turns[-1] += map(self._checked, step if is_turn else [step])
            is_open = isinstance(step, ModelFailure) and step.is_retryable
        return turns

    def _checked(self, step: object) -> object:
        if isinstance(step, self._kinds) or callable(step):
            return step
        raise ScriptError(
            f"{step!r:.100} is not a step; use text, say(), call(), calls(), fail() or a function"
        )


class _Later:
    """The coming answer of an async policy. Closing it closes the policy too."""

    __slots__ = ("_answer", "_step")

    def __init__(self, answer: Coroutine[object, None, ModelAnswer], step: Awaitable[object]) -> None:
        self._answer = answer
        self._step = step

    def __await__(self) -> Generator[object, None, ModelAnswer]:
        return self._answer.__await__()

    def close(self) -> None:
        """Close an answer that is never awaited."""
        self._answer.close()
        if isinstance(self._step, Coroutine):
            self._step.close()


class ScriptedModel:
    """A model that answers from a script.

    script: a list of steps for one agent; a dict with a list for each address or profile name, where the
    address goes first; or a function of the request. name: the model's name in the log.
    max_tokens, prices: as for a real model, for budgets.
    usage: the tokens of each reply without its own usage; None counts one token in and one out.
    context_tokens: the tokens of its window, 0 for an unknown one.

    >>> model = ScriptedModel(["Hello."], name="greeter")
    >>> model.spec.name
    'greeter'
    """

    def __init__(
        self,
        script: Steps | Policy | Mapping[str, Steps | Policy],
        *,
        name: str = "scripted",
        max_tokens: int = 1_024,
        prices: Prices | None = None,
        usage: Usage | None = None,
        context_tokens: int = 0,
    ) -> None:
        self.spec = ModelSpec(name, max_tokens, prices=prices, context_tokens=context_tokens)
        self._usage = usage or _NOMINAL
        self._problems: list[str] = []
        if isinstance(script, Mapping):
            self._scripts = {key: Script(steps, _KINDS) for key, steps in script.items()}
        else:  # for whichever agent asks: no address or profile is empty
            self._scripts = {"": Script(script, _KINDS, is_plain=True)}

    def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer | Awaitable[ModelAnswer]:
        """Answer with the step for this request, at once unless the policy is async."""
        try:
            step = self._step(request)
            if not isinstance(step, _KINDS) and inspect.isawaitable(step):
                return _Later(self._later(request, step, on_text), step)
            return self._answer(request, step, on_text)
        except Exception as error:
            return self._broken(request, error)

    async def aclose(self) -> None:
        """Do nothing, because the model holds no resources."""

    def assert_done(self) -> None:
        """Raise ScriptError if a request had no step, a policy failed, or a step was never used."""
        scripts = self._scripts.items()
        left = [f"{key}: {text}".removeprefix(": ") for key, script in scripts for text in script.unplayed()]
        if problems := self._problems + left:
            raise ScriptError("the script was not followed:\n  " + "\n  ".join(problems))

    def _step(self, request: ModelRequest) -> object:
        find = self._scripts.get
        script = find(request.address) or find(request.profile) or find("")
        if script is None:
            known = ", ".join(self._scripts) or "no agent"
            raise ScriptError(f"there is no script for it, only for {known}")
        return script.step(request)

    async def _later(self, request: ModelRequest, step: Awaitable[object], on_text: OnText) -> ModelAnswer:
        try:
            return self._answer(request, await step, on_text)
        except Exception as error:
            return self._broken(request, error)

    def _answer(self, request: ModelRequest, step: object, on_text: OnText) -> ModelAnswer:
        if isinstance(step, ModelFailure):
            return ModelAnswer(failure=step, model=self.spec.name)
        reply = _reply(step)
        if reply.text:
            on_text(clean_text(reply.text))
        usage = reply.usage or self._usage
        return ModelAnswer(_content(reply, request), reply.stop_reason, usage, model=self.spec.name)

    def _broken(self, request: ModelRequest, error: Exception) -> ModelAnswer:
        """Return the failure for a faulty script, and keep it for `assert_done`."""
        why = str(error) if isinstance(error, ScriptError) else located_text(error)
        text = clean_text(
            f'{request.address} (profile "{request.profile}") asked for turn {request.turn}, '
            f"attempt {request.attempt}: {why}; it was asked: {_asked(request)}"
        )
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(text)
        return ModelAnswer(failure=ModelFailure("script_error", text), model=self.spec.name)


def scripted_model(source: str) -> Model:
    """Return the model of `module:attribute`: that object if it is a model, else a ScriptedModel of it.

    The model of a script is named after its source, so that several can be told apart in one log.
    Raises UnknownName if there is no such module or attribute, ScriptError if the object is not a script.
    """
    module, _, attribute = source.partition(":")
    try:
        found: object = attrgetter(attribute)(import_module(module))
    except (ModuleNotFoundError, AttributeError, ValueError) as error:
        raise UnknownName(
            f"model 'scripted:{source}': {error}; write scripted:MODULE:NAME, where NAME is a policy, a list "
            "of replies or a ScriptedModel"
        ) from error
    if is_model(found):
        return found
    return ScriptedModel(cast("Policy", found), name=f"scripted:{source}")  # checks it


def _reply(step: object) -> Reply:
    if isinstance(step, Reply):
        return step
    if isinstance(step, Call):
        return Reply(calls=(step,))
    if isinstance(step, str):
        return Reply(step)
    raise ScriptError(f"the policy returned {step!r:.100}, which is not text, a reply, a call or a failure")


def _content(reply: Reply, request: ModelRequest) -> Json:
    if reply.content is not None:
        return reply.content
    blocks: list[Json | _ToolUse] = [text_block(clean_text(reply.text))] if reply.text else []
    # Ids are unique in a session without chance, and too short to be mistaken for an API key.
    where = request.address.removeprefix(BELOW_HOST).replace(".", "-")
    for index, made in enumerate(reply.calls):
        use = f"toolu_{where}_{request.turn}_{request.attempt}_{index}"
        blocks.append(_ToolUse(use, made.tool, made.input))
    return Json(_encode(blocks))


def _asked(request: ModelRequest) -> str:
    last = bytes(request.messages[-1]) if request.length else b"nothing"
    return last[:MAX_ASKED_BYTES].decode(errors="replace") + ("..." if len(last) > MAX_ASKED_BYTES else "")
