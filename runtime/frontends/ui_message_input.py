"""The body that the AI SDK's chat transport posts: of its messages only the newest counts."""

from collections.abc import Iterator
from typing import Literal

import msgspec

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.session.place_names import is_number
from callboard.runtime.frontends.front_end import FrontEndRequest, GivenAnswer
from callboard.runtime.frontends.prompts import Medium, from_data_url, prompt_of


class _Approval(msgspec.Struct):
    id: str
    approved: bool | None = None
    reason: str = ""


class _Part(msgspec.Struct, rename="camel"):
    type: str
    text: str = ""
    url: str = ""
    media_type: str = ""
    state: str = ""
    approval: _Approval | None = None


class _OfCallboard(msgspec.Struct):
    seq: int


class _Metadata(msgspec.Struct):
    callboard: _OfCallboard | None = None


class _Message(msgspec.Struct):
    id: str
    role: str
    parts: list[_Part]
    metadata: _Metadata | None = None


class _Tool(msgspec.Struct):
    name: str = ""


class _Body(msgspec.Struct):
    id: str
    messages: list[_Message]
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    tools: dict[str, object] | list[_Tool] | None = None


def read_chat(body: bytes) -> FrontEndRequest:
    """Read the body of a request. Raises MisuseError and InvalidPrompt, as `FrontEnd.read`."""
    try:
        given = msgspec.json.decode(body, type=_Body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise MisuseError(f"the body is not one of the AI SDK's chat transport: {error}") from None
    if given.trigger == "regenerate-message":
        raise MisuseError("a message cannot be made again: the log keeps it. Ask again, or fork the session")
    if given.tools:
        names = ", ".join(repr(one if isinstance(one, str) else one.name)[:80] for one in given.tools)
        raise MisuseError(
            f"the client offers tools of its own: {names}. Only those of the agents can be called"
        )
    if not given.messages:
        raise MisuseError("the body has no message; send at least the newest one")
    newest = given.messages[-1]
    if newest.role == "user":
        return FrontEndRequest(given.id, "", newest.id, prompt_of(_parts(newest)))
    answers = tuple(_answers(newest))
    seen = newest.metadata.callboard if newest.metadata else None
    if answers and seen is None:
        raise MisuseError(
            "the message with the answer has lost its metadata.callboard.seq; load the chat again"
        )
    return FrontEndRequest(given.id, answers=answers, after=seen.seq if seen else None)


def _parts(message: _Message) -> list[str | Medium]:
    found: list[str | Medium] = []
    for part in message.parts:
        if part.type == "text":
            found.append(part.text)
        elif part.type == "file":
            found.append(from_data_url(part.url, part.media_type))
    return found


def _answers(message: _Message) -> Iterator[GivenAnswer]:
    for part in message.parts:
        said = part.approval
        if part.state == "approval-responded" and said is not None and said.approved is not None:
            if not is_number(said.id):
                raise MisuseError(
                    f"there is no approval {said.id!r:.80}; use the id of the part that asks for it"
                )
            yield GivenAnswer(int(said.id), said.approved, said.reason)
