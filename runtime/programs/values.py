"""Answers as values of Python types, and as typed errors."""

import types
import typing
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final, NoReturn

import msgspec

from callboard.actors.protocol.errors import (
    AskFailed,
    CallFailed,
    DelegationFailed,
    Interrupted,
    NotApproved,
)
from callboard.runtime.failure_text import failure_text
from callboard.runtime.outputs.tool_output import ToolOutput
from callboard.runtime.programs.asks import Answer
from callboard.runtime.schemas.output_types import OutputType, TypeForm, form_of, name_of
from callboard.runtime.tools.output import NO_OUTPUT, Blocks
from callboard.runtime.tools.signature import return_hint
from callboard.runtime.tools.tool import Tool

_UNIONS: Final = (typing.Union, types.UnionType)
_REMEMBERED: Final = 256  # tools whose result type is kept; to resolve one takes 20 us


def tool_value(tool: Tool | str, answer: Answer) -> object:
    """Return the result of a call, of the type that the tool's function is annotated with.

    tool: its name, if it has no function in this program. Without such a type, return the text; for one that
    no JSON schema describes, such as a path or an array, the JSON value.
    Raises CallFailed, Interrupted, NotApproved.
    """
    if answer.is_error:
        _raise_call(tool if isinstance(tool, str) else tool.name, answer)
    if isinstance(tool, str):
        return answer.text
    hint, read = _reader(tool)
    try:
        return read(answer)
    except Exception as error:  # of msgspec, of pydantic, or of the type's own code
        raise CallFailed(
            f"tool {tool.name!r} ran, but its result is not of type {name_of(hint)}: {failure_text(error)}",
            answer.text,
        ) from None


def delegated_value(what: str, kind: OutputType, answer: Answer) -> object:
    """Return the result of a delegation: the value of a report, or text without a schema.

    what: the delegation, for the error. Raises DelegationFailed.
    """
    text = answer.text
    if answer.is_error:
        raise DelegationFailed(f"{what} failed ({answer.status}): {text}", text, answer.status)
    if kind == OutputType():
        return text
    return kind.build(msgspec.Raw(text.encode()))


def _raise_call(name: str, answer: Answer) -> NoReturn:
    text, kind, verb = answer.text, _ERRORS.get(answer.status, CallFailed), "failed"
    if kind is Interrupted:
        verb = "was interrupted, and may have taken effect"
    elif kind is NotApproved:
        verb = "was not approved"
    raise kind(f"tool {name!r} {verb}: {text}", text)


_ERRORS: Final[dict[str, type[AskFailed]]] = {"interrupted": Interrupted, "denied": NotApproved}


@lru_cache(_REMEMBERED)
def _reader(tool: Tool) -> tuple[object, Callable[[Answer], object]]:
    """Return the type of a tool's results, and the function that builds one."""
    hint = return_hint(tool.function)
    kinds = typing.get_args(hint) if typing.get_origin(hint) in _UNIONS else (hint,)
    if hint is Blocks:
        return hint, lambda answer: Blocks(msgspec.json.decode(answer.content, type=list[dict[str, object]]))
    if any(kind in (str, object, typing.Any, ToolOutput) for kind in kinds):
        # Text is sent as it is, so it cannot be told from the JSON of the union's other members.
        return hint, partial(_text, is_optional=types.NoneType in kinds)
    if hint is types.NoneType:
        return hint, lambda answer: None
    form = form_of(hint)
    build = form.build if _is_described(form) else msgspec.json.decode
    if isinstance(hint, type) and issubclass(hint, str):
        return hint, lambda answer: build(msgspec.json.encode(answer.text))
    return hint, partial(_built, build, types.NoneType in kinds)


def _is_described(form: TypeForm) -> bool:
    """Return True if JSON has values of a type: each of them can be built again."""
    try:
        form.schema()
    except Exception:  # of msgspec or pydantic
        return False
    return True


def _text(answer: Answer, is_optional: bool) -> str | None:
    return None if is_optional and answer.content == NO_OUTPUT else answer.text


def _built(build: Callable[[bytes], object], is_optional: bool, answer: Answer) -> object:
    if is_optional and answer.content == NO_OUTPUT:
        return None
    is_list = bytes(answer.content).startswith(b"[")  # of dicts that could be content blocks
    return build(bytes(answer.content) if is_list else answer.text.encode())
