"""The arguments that a model gives to callboard's own tools: `task`, `task_wait` and others.

From rules 2 on, a name that the tool does not have is an error that tells the right ones: a schema under a
wrong name would be left out without a word. An argument that is null or false counts as left out. A value of
the wrong type is an error that tells the right one: some servers write true as "true".
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from callboard.actors.protocol import prompts
from callboard.actors.protocol.immutable import NULL, Json

STRICT_FROM: Final = 2
"""The rules from which unknown names are refused, and `task` takes a description."""

DESCRIPTION_CHARS_MAX: Final = 200
"""Characters of a task's description. A longer one is cut."""

_SHORT: Final = 3  # letters of a name that is part of many others
TASK_WAIT_NAMES: Final = ("tasks", "any")
TASK_CANCEL_NAMES: Final = ("task",)
REPORT_NAMES: Final = ("value",)
"""The arguments of `report_back` where the value stands under one. Else they are those of its schema."""

COPIES_MAX: Final = 10_000
"""More racers than this are a mistake of the model, also where the limits allow them."""


class Task(msgspec.Struct, frozen=True, gc=False):
    """The arguments of a `task` call. Models write null for an argument that they leave out.

    input: of an agent with a contract, in place of a prompt; a program gives it. description: a name of the
    task for people.
    """

    prompt: Json = NULL
    agent: str | None = None
    agents: tuple[str, ...] | None = None
    copies: int | None = None
    output_schema: Json = NULL
    background: bool | None = None
    input: Json = NULL
    description: Json = NULL

    def racers(self, known: tuple[str, ...]) -> tuple[str, ...]:
        """Return the profiles to run, a name n times for n copies; an empty tuple for useless arguments.

        known: the profiles that the agent may delegate to. A single one need not be named.
        """
        copies = 1 if self.copies is None else self.copies
        names = self.agents or ((self.agent,) if self.agent else known if len(known) == 1 else ())
        if (self.agents and self.agent) or not 1 <= copies * len(names) <= COPIES_MAX:
            return ()
        return names * copies


class Question(msgspec.Struct, frozen=True, gc=False):
    """The arguments of an `ask_model` call.

    schema: of the answer, null for text. model: a name, None for the usual one.
    messages: of a question that carries its whole request (`whole_requests`), None for one with a prompt.
    like: the ask whose system prompt, tools and settings it has; empty if they stand here. settings: further
    parameters of the call, a JSON object. max_tokens: of the reply, None for the model's own bound.
    force_tool: the tool that the model must use, empty for none.
    """

    prompt: Json = NULL
    schema: Json = NULL
    system: Json = NULL
    model: str | None = None
    messages: tuple[Json, ...] | None = None
    like: str = ""
    tools: tuple[Json, ...] = ()
    settings: Json = NULL
    max_tokens: int | None = None
    force_tool: str = ""


class TaskWait(msgspec.Struct, frozen=True, gc=False):
    """The arguments of a `task_wait` call."""

    tasks: tuple[str, ...] | None = None
    any: bool | None = None


class _TaskCancel(msgspec.Struct, frozen=True, gc=False):
    task: str


class _Block(msgspec.Struct, frozen=True, gc=False):
    type: str


class _Wrapped(msgspec.Struct, frozen=True, gc=False):
    value: Json


_TASK: Final = msgspec.json.Decoder(Task)
_QUESTION: Final = msgspec.json.Decoder(Question)
_TASK_WAIT: Final = msgspec.json.Decoder(TaskWait)
_TASK_CANCEL: Final = msgspec.json.Decoder(_TaskCancel)
_PROMPT: Final[msgspec.json.Decoder[str | tuple[_Block, ...]]] = msgspec.json.Decoder(
    str | tuple[_Block, ...]
)
_WRAPPED: Final = msgspec.json.Decoder(_Wrapped)
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TEXT: Final = msgspec.json.Decoder(str)
_TASK_TYPES: Final = (
    ("agent", msgspec.json.Decoder(str | None), "a name, as text"),
    ("agents", msgspec.json.Decoder(tuple[str, ...] | None), "a list of names"),
    ("copies", msgspec.json.Decoder(int | None), "a whole number without quotes"),
    ("background", msgspec.json.Decoder(bool | None), "true or false without quotes"),
)
_LEFT_OUT: Final = (NULL, msgspec.Raw(b"false"))


def read_task(arguments: Json) -> Task | None:
    """Read the arguments of a `task` call; return None if they are unusable or lack a prompt."""
    try:
        task = _TASK.decode(arguments)
        return task if bytes(task.input).startswith(b"{") or _has_words(task.prompt) else None
    except (msgspec.DecodeError, RecursionError):
        return None


def described(task: Task) -> str:
    """Return the description of a task on one line; empty for none."""
    try:
        return " ".join(_TEXT.decode(task.description).split())[:DESCRIPTION_CHARS_MAX]
    except msgspec.DecodeError:
        return ""


def asks_for_background(arguments: Json) -> bool:
    """Return True for arguments of a `task` call that shall run in the background."""
    if b"background" not in bytes(arguments) and b"\\" not in bytes(arguments):
        return False
    try:
        return bool(_TASK.decode(arguments).background)
    except (msgspec.DecodeError, RecursionError):  # which the call's own reader says
        return False


def wrong_names(
    rules: int, tool: str, arguments: Json, known: Sequence[str], passed_over: Sequence[str] = ()
) -> str:
    """Return the error for arguments with names that the tool does not have; empty if it has all of them.

    passed_over: names that change nothing.
    """
    if rules < STRICT_FROM:
        return ""
    try:
        given = _FIELDS.decode(arguments)
    except (msgspec.DecodeError, RecursionError):  # which the call's own reader says
        return ""
    right = (*known, *passed_over)
    names = [name for name, value in given.items() if name not in right and value not in _LEFT_OUT]
    wrong = [(name, _meant(name, known)) for name in names]
    return prompts.wrong_names(tool, wrong, known) if wrong else ""


def wrong_value(rules: int, arguments: Json) -> str:
    """Return the error for the first argument of a `task` call of the wrong type; empty for none."""
    if rules < STRICT_FROM:
        return ""
    try:
        given = _FIELDS.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return ""
    for name, decoder, wanted in _TASK_TYPES:
        try:
            decoder.decode(given.get(name, NULL))
        except msgspec.DecodeError:
            return prompts.wrong_value(name, wanted, bytes(given[name]).decode(errors="replace"))
    return ""


def _meant(name: str, known: Sequence[str]) -> str:
    """Return the known argument that a wrong name is like; empty for none."""
    plain = _plain(name)
    like = [one for one in known if _plain(one) in plain or (len(plain) > _SHORT and plain in _plain(one))]
    return min(like, key=lambda one: _plain(one) != plain, default="")  # an equal one first


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def read_question(arguments: Json) -> Question | None:
    """Read the arguments of an `ask_model` call; return None if they are unusable, or ask nothing."""
    try:
        question = _QUESTION.decode(arguments)
        if question.system != NULL:
            _PROMPT.decode(question.system)
        if question.messages is not None:
            return question if question.messages else None
        return question if _has_words(question.prompt) else None
    except (msgspec.DecodeError, RecursionError):
        return None


def _has_words(raw: Json) -> bool:
    """Return True for a text that is not blank, or for some blocks. Raises DecodeError for anything else."""
    prompt = _PROMPT.decode(raw)
    return bool(prompt.strip() if isinstance(prompt, str) else prompt)


def read_task_wait(arguments: Json) -> TaskWait | None:
    """Read the arguments of a `task_wait` call; return None if they are unusable."""
    try:
        return _TASK_WAIT.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return None


def read_task_cancel(arguments: Json) -> str | None:
    """Read the address that a `task_cancel` call names; return None if it names no address."""
    try:
        return _TASK_CANCEL.decode(arguments).task
    except (msgspec.DecodeError, RecursionError):
        return None


def unwrapped(value: Json) -> Json:
    """Return the value under `value`, or the whole without that key, which the schema will refuse."""
    try:
        return _WRAPPED.decode(value).value
    except (msgspec.DecodeError, RecursionError):
        return value
