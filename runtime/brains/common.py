"""The parts that brains of all frameworks share: their program, and the refusals that end one.

Rules
  - A refusal for want of budget or of turns latches: the program ends so, even if the framework hides it.
  - So does a misuse, as of the network inside the program: a framework may tell it to the model as a failed
    tool, and answer.
"""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, TypeVar, get_args

import msgspec
from pydantic_core import to_jsonable_python

from callboard.actors.protocol.endings import OwnKind
from callboard.actors.protocol.errors import AskFailed, DelegationFailed, MisuseError
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.prompts import changed_arguments
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.loop import ProgramLoop
from callboard.runtime.programs.program import Program
from callboard.runtime.programs.run import Main, ProgramRun, RunsBefore
from callboard.runtime.programs.values import tool_value

T = TypeVar("T")

EARLIER_MAX: Final = 50
"""Earlier asks of a session that a brain as its host is told."""

LATCHED: Final = frozenset({"budget", "iteration_cap"})
SETTINGS_PASSED: Final = ("temperature", "top_p", "top_k")
"""The parameters of a call that a question passes on. The others services name in their own ways."""

EMPTY: Final = "(empty)"
"""In place of a text that no service takes empty."""

NOTHING_SAID: Final[dict[str, object]] = {
    "role": "user",
    "content": [{"type": "text", "text": "(no prompt)"}],
}

_RETRYABLE: Final = frozenset({408, 409, 425, 429})
_SERVER_ERROR: Final = 500


class Brain(Program[Any, Any]):
    """An agent of another framework as a program, whose synchronous functions run in its steps."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def _main_of(self, prompt: Json, before: RunsBefore) -> Main:
        main = super()._main_of(prompt, before)

        def begin(run: ProgramRun) -> Coroutine[object, None, object]:
            run.loop.runs_functions = True
            return main(run)

        return begin


class Latch:
    """The refusal that a run has met. Once there is one, nothing more is asked."""

    def __init__(self) -> None:
        self.refusal: DelegationFailed | None = None
        self.misuse: MisuseError | None = None

    def check(self) -> None:
        """Raise the refusal again, if there is one."""
        if self.refusal is not None:
            raise self.refusal
        if self.misuse is not None:
            raise self.misuse

    @contextlib.contextmanager
    def keeping(self) -> Iterator[None]:
        """Keep the failure of a question within, if no later one can do better."""
        try:
            yield
        except DelegationFailed as error:
            if error.kind in LATCHED:
                self.refusal = self.refusal or error
            raise

    def refuse(self, text: str) -> MisuseError:
        """Return the refusal of something that the log would not have, and keep it."""
        self.misuse = self.misuse or MisuseError(text)
        return self.misuse


@contextlib.contextmanager
def latching(ctx: ProgramContext, latch: Latch) -> Iterator[None]:
    """End the program by the refusal of a question. Other failures of questions end it by their kind."""
    try:
        yield
    except DelegationFailed as error:
        failure = latch.refusal or error
        if failure.kind not in get_args(OwnKind):
            raise
        raise ctx.fail(failure.text or str(failure), kind=failure.kind) from error  # type: ignore[arg-type]  # checked
    except Exception as error:
        _raise_latched(ctx, latch, error)
        raise
    _raise_latched(ctx, latch, None)


def _raise_latched(ctx: ProgramContext, latch: Latch, error: Exception | None) -> None:
    if latch.refusal is not None:
        raise _ended_by(ctx, latch.refusal) from error
    misuse = latch.misuse or _misuse_of_loop()
    if misuse is not None and misuse is not error:
        raise misuse from error


def _ended_by(ctx: ProgramContext, refusal: DelegationFailed) -> BaseException:
    kind: OwnKind = "budget" if refusal.kind == "budget" else "iteration_cap"
    return ctx.fail(refusal.text or str(refusal), kind=kind)


def _misuse_of_loop() -> MisuseError | None:
    loop = asyncio.get_running_loop()
    return loop.refused if isinstance(loop, ProgramLoop) else None


def result_of(value: object) -> object:
    """Return the result of a framework's run as a program returns it: text, or JSON values.

    Raises pydantic_core.PydanticSerializationError for an object that JSON has no form for.
    """
    return value if isinstance(value, str) else to_jsonable_python(value, fallback=msgspec.to_builtins)


class Called(NamedTuple):
    """The result of a call, as the tool returned it.

    text: the result; of content blocks, their texts. blocks: the blocks, None for a text. note: words for the
    model about the call, to stand before the result; empty for none.
    """

    text: str
    blocks: list[dict[str, Any]] | None
    note: str


async def called(ctx: ProgramContext, name: str, arguments: Mapping[str, object]) -> Called:
    """Call a tool of the program, and return its result.

    Raises CallFailed, Interrupted, NotApproved, which carry the note.
    """
    answer = await ctx._ask(name, arguments)
    note = "" if answer.changed == NULL else changed_arguments(answer.changed)
    try:
        text = str(tool_value(name, answer))
    except AskFailed as error:
        if note:
            error.add_note(note)
        raise
    has_blocks = bytes(answer.content).startswith(b"[")
    return Called(text, msgspec.json.decode(answer.content) if has_blocks else None, note)


def note_of(error: BaseException) -> str:
    """Return the note of a call that failed; empty for none."""
    return "\n".join(getattr(error, "__notes__", ()))


def with_note(note: str, told: str | list[dict[str, Any]]) -> Any:
    """Return a result for the model, a text or content blocks, after the note of its call."""
    if not note:
        return told
    return f"{note}\n{told}" if isinstance(told, str) else [{"type": "text", "text": note}, *told]


def settings_of(given: Mapping[str, object], dropped: tuple[str, ...], where: str) -> dict[str, object]:
    """Return the parameters of a question.

    dropped: those without a meaning here. where: the name of their owner, for the error. Raises MisuseError.
    """
    stated = {key: value for key, value in given.items() if value is not None and key not in dropped}
    if wrong := sorted(stated.keys() - {*SETTINGS_PASSED}):
        raise MisuseError(
            f"{where} has {wrong[0]!r}, which services name in their own ways: give it to the model "
            "of the brain, as in `model=AnthropicModel(..., params={...})`"
        )
    return stated


def failed_by_status(status: int, text: str) -> ModelFailure:
    """Return the failure of a call that its service has answered with this status of HTTP."""
    is_retryable = status in _RETRYABLE or status >= _SERVER_ERROR
    code = "rate_limit_error" if status == 429 else "api_error" if is_retryable else "invalid_request_error"
    return ModelFailure(code, text, is_retryable=is_retryable)


@contextlib.contextmanager
def during(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Give a variable a value for the code within."""
    token = variable.set(value)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # a run that is given up is closed in another context
            variable.reset(token)
