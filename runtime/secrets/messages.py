"""Redaction of messages from ports and clients, before they are posted.

Every text and every JSON value of a message is searched. Refused instead of changed are names that are looked
up again (of agents, tools, models, requests), and a model's parameters and a server tool's definition, which
could not work without the secret. A model's signed blocks go back to its service unchanged: an altered one
would be refused there in every later turn. So a secret in one ends the call.
"""

import typing
from functools import cache, partial
from typing import Final, TypeVar

import msgspec

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.errors import InvalidPrompt
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import AnyMessage, Ask, ModelReplied, SessionOpened
from callboard.actors.protocol.profiles import ModelSpec, Profile
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.secrets.redactor import Redactor

T = TypeVar("T", bound=msgspec.Struct)

SIGNED_CODE: Final = "secret_in_signed_block"  # of the failure of a call whose answer cannot be logged
_PROFILE: Final = msgspec.json.Decoder(Profile)
_BLOCKS: Final = msgspec.json.Decoder(tuple[msgspec.Raw, ...])
_ANY: Final = msgspec.json.Decoder()


def redact_message(redactor: Redactor, body: AnyMessage) -> AnyMessage:
    """Return the message without secrets. Raises InvalidPrompt for a secret in a name."""
    if not redactor.may_be_in(encode(body)):
        return body
    if isinstance(body, ModelReplied):
        return _reply(redactor, body)
    if isinstance(body, SessionOpened):
        return _opened(redactor, body)
    if isinstance(body, Ask):
        refuse(redactor, "request_id", body.request_id)
    return _clean(redactor, body)


def refuse(redactor: Redactor, what: str, name: str) -> None:
    """Raise InvalidPrompt if there is a secret in a name."""
    if redactor.finds(name):
        raise InvalidPrompt(f"{what} holds a secret, and it is written into the log: choose another")


def _opened(redactor: Redactor, body: SessionOpened) -> SessionOpened:
    _refuse_model(redactor, body.model)
    profiles = tuple(
        _profile(redactor, raw) if redactor.json(raw) is not raw else raw for raw in body.profiles
    )
    return msgspec.structs.replace(body, profiles=profiles)


def _profile(redactor: Redactor, raw: Json) -> Json:
    profile = _PROFILE.decode(raw)
    names = (profile.name, *profile.agents, *(tool.name for tool in profile.tools))
    refuse(redactor, "the name of an agent or tool", "\n".join(names))
    _refuse_model(redactor, profile.model)
    sent_as_is = (*profile.server_tools, *(tool.extra for tool in profile.tools))
    if any(redactor.json(each) is not each for each in sent_as_is):
        raise InvalidPrompt(
            f"agent {profile.name!r}: a server tool, or the extra of a tool, holds a secret, and it is "
            "written into the log; give it to AnthropicModel(headers=...), or to a tool of your own"
        )
    return Json(encode(_clean(redactor, profile)))


def _refuse_model(redactor: Redactor, model: ModelSpec | None) -> None:
    if model is None:
        return
    refuse(redactor, "the name of a model", model.name)
    if redactor.json(model.params) is not model.params:
        raise InvalidPrompt(
            f"the parameters of model {model.name!r} hold a secret, and they are written into the log; "
            "give it as api_key= or headers= instead"
        )


def _reply(redactor: Redactor, reply: ModelReplied) -> ModelReplied:
    cleaned = _clean(redactor, reply)
    if cleaned.content is reply.content or not _changes_signed(redactor, reply.content):
        return cleaned
    why = "the answer has a secret in a signed block, which can be neither logged nor sent back changed"
    failure = ModelFailure(SIGNED_CODE, why)
    return msgspec.structs.replace(cleaned, status="error", content=NULL, stop_reason="", failure=failure)


def _changes_signed(redactor: Redactor, content: Json) -> bool:
    try:
        blocks = _BLOCKS.decode(content)
    except msgspec.DecodeError:  # no list of blocks: none of it will be sent back
        return False
    return any(redactor.json(block) is not block and _is_signed(_ANY.decode(block)) for block in blocks)


def _is_signed(value: object) -> bool:
    """Return whether a service notices a change of the value: signed thinking, encrypted content."""
    match value:
        case list():
            return any(map(_is_signed, value))
        case {"type": "redacted_thinking"}:
            return True
        case dict():
            marks = (key for key, item in value.items() if item)
            is_marked = any(key == "signature" or key.startswith("encrypted_") for key in marks)
            return is_marked or any(map(_is_signed, value.values()))
        case _:
            return False


def _clean(redactor: Redactor, value: T) -> T:
    fields = {name: _cleaned(redactor, getattr(value, name)) for name in _open_fields(type(value))}
    return msgspec.structs.replace(value, **fields)


def _cleaned(redactor: Redactor, value: object) -> object:
    if isinstance(value, str):
        return redactor.text(value)
    if isinstance(value, msgspec.Raw):
        return redactor.json(value)
    if isinstance(value, tuple):
        return tuple(map(partial(_cleaned, redactor), value))
    return _clean(redactor, value) if isinstance(value, msgspec.Struct) else value


@cache
def _open_fields(cls: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the fields that can hold text: all but numbers, flags and words of a fixed set."""
    hints = typing.get_type_hints(cls)
    return tuple(
        field.name
        for field in msgspec.structs.fields(cls)
        if hints[field.name] not in (int, bool) and typing.get_origin(hints[field.name]) is not typing.Literal
    )
