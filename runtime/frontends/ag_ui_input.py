"""The input of an AG-UI run: of its messages only the newest counts, if it is a user's."""

from typing import Literal

import msgspec

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.session.place_names import is_number
from callboard.runtime.frontends.front_end import FrontEndRequest, GivenAnswer
from callboard.runtime.frontends.prompts import Medium, from_data_url, prompt_of


class _Tool(msgspec.Struct):
    name: str


class _Source(msgspec.Struct, rename="camel"):
    type: str
    value: str
    mime_type: str = ""


class _Part(msgspec.Struct):
    type: str
    text: str = ""
    source: _Source | None = None


class _Message(msgspec.Struct):
    id: str
    role: str
    content: str | list[_Part] | dict[str, object] | None = None


class _Answer(msgspec.Struct):
    approved: bool = True
    note: str = ""
    arguments: dict[str, object] | None = None
    values: dict[str, object] | None = None
    always: bool = False


class _Resumed(msgspec.Struct, rename="camel"):
    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: _Answer | None = None


class _Input(msgspec.Struct, rename="camel"):
    thread_id: str
    run_id: str
    messages: list[_Message]
    tools: list[_Tool] | None = None
    resume: list[_Resumed] | None = None


def read_run_input(body: bytes) -> FrontEndRequest:
    """Read a `RunAgentInput`. Raises MisuseError and InvalidPrompt, as `FrontEnd.read`."""
    try:
        given = msgspec.json.decode(body, type=_Input)
    except (msgspec.DecodeError, RecursionError) as error:
        raise MisuseError(f"the body is not a RunAgentInput of AG-UI: {error}") from None
    if given.tools:
        names = ", ".join(repr(one.name)[:80] for one in given.tools[:10])
        raise MisuseError(
            f"the client offers tools of its own: {names}. Only those of the agents can be called; "
            "send `tools` empty"
        )
    answers = tuple(map(_given, given.resume or ()))
    newest = given.messages[-1] if given.messages else None
    if answers or newest is None or newest.role != "user":
        return FrontEndRequest(given.thread_id, given.run_id, answers=answers)
    prompt = prompt_of(_parts(newest.content))
    return FrontEndRequest(given.thread_id, given.run_id, newest.id, prompt)


def _given(answer: _Resumed) -> GivenAnswer:
    if not is_number(answer.interrupt_id):
        raise MisuseError(
            f"there is no interrupt {answer.interrupt_id!r:.80}; use the id of one with which a run ended"
        )
    said = answer.payload or _Answer()
    is_approved = answer.status == "resolved" and said.approved
    seq = int(answer.interrupt_id)
    return GivenAnswer(seq, is_approved, said.note, said.arguments, said.values, said.always)


def _parts(content: str | list[_Part] | dict[str, object] | None) -> list[str | Medium]:
    if isinstance(content, str):
        return [content]
    return [_part(one) for one in content] if isinstance(content, list) else []


def _part(part: _Part) -> str | Medium:
    if part.source is None:
        return part.text
    if part.source.type == "data":
        return Medium(part.source.mime_type, data=part.source.value)
    return from_data_url(part.source.value, part.source.mime_type or f"{part.type}/*")
