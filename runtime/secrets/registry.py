"""The secrets of a runtime: their places, and how they are kept out of everything it writes.

Every text and every JSON value of a message is searched before it is posted. Refused instead of changed are
names that are looked up again (of agents, tools, models, requests), and a model's parameters and a server
tool's definition, which could not work without the secret. A model's signed blocks go back to its service
unchanged: an altered one would be refused there in every later turn. So a secret in one ends the call.
"""

import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Final, Protocol, TypeAlias, TypeVar, runtime_checkable

import msgspec

from callboard.actors.protocol.client_messages import Ask, SessionOpened
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.errors import InvalidPrompt, MisuseError, UnknownName
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.profiles import ModelSpec, Profile
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.secrets.redactor import Redactor
from callboard.runtime.secrets.refs import KEY_PATTERNS, SecretPattern, SecretRef
from callboard.runtime.secrets.stream_buffer import StreamBuffer

T = TypeVar("T", bound=msgspec.Struct)

SIGNED_CODE: Final = "secret_in_signed_block"  # of the failure of a call whose answer cannot be logged
_PROFILE: Final = msgspec.json.Decoder(Profile)
_BLOCKS: Final = msgspec.json.Decoder(tuple[msgspec.Raw, ...])
_ANY: Final = msgspec.json.Decoder()


GivenSecrets: TypeAlias = (
    Iterable[str | SecretRef | SecretPattern] | Mapping[str, str | Callable[[], str]] | Callable[[str], str]
)
"""The secrets of a runtime, as a program gives them."""


@runtime_checkable
class HoldsSecrets(Protocol):
    """An object with secrets of its own, such as a model with an API key."""

    def secrets(self) -> Mapping[str, str]:
        """Return the values by name. Called when a session is opened; the values are never logged."""


class Secrets:
    """The secrets of one runtime.

    given: a list of references, patterns, and plain values, which are named by their place (`[secret:1]`); or
        a mapping of values, or of functions that return them, by name; or a function of a name.
    finds_keys: also find keys by their well-known patterns.

    Raises MisuseError for two of one name, and for values that are too short to search for.
    """

    def __init__(self, given: "GivenSecrets" = (), *, finds_keys: bool = True) -> None:
        if isinstance(given, str):
            raise MisuseError("secrets is a list: secrets=[SecretRef('NAME')]")
        self._of_name = given if callable(given) else None
        mapped = given if isinstance(given, Mapping) else {}
        self._refs: dict[str, SecretRef] = {}
        patterns: list[SecretPattern] = []
        values: dict[str, str] = {}
        for place, each in enumerate(_listed(given), 1):
            if isinstance(each, SecretRef):
                if each.name in self._refs:
                    raise MisuseError(f"two secrets are named {each.name}; give one of them another name")
                self._refs[each.name] = each
            elif isinstance(each, SecretPattern):
                patterns.append(each)
            else:
                values[str(place)] = each
        self._has_own = bool(patterns)
        self.redactor = Redactor([*patterns, *_key_patterns()] if finds_keys else patterns)
        self.learn(values)
        self.learn({name: value for name, value in mapped.items() if isinstance(value, str)})

    def __repr__(self) -> str:
        return f"Secrets({sorted(self._refs)})"

    def learn_early(self, holders: Iterable[object] = ()) -> None:
        """Read the values of variables, files and models.

        A missing value, or one that is too short, raises its error only when a tool asks for it.
        """
        for ref in self._refs.values():
            with suppress(MisuseError):
                if ref.is_early:
                    self.redactor.learn(ref.name, ref.resolve())
        for holder in holders:
            if isinstance(holder, HoldsSecrets):
                self.learn(holder.secrets())

    def learn(self, values: Mapping[str, str]) -> None:
        """Search for these values, by name, from now on. Raises MisuseError for one that is too short."""
        for name, value in values.items():
            self.redactor.learn(name, value)

    def value(self, name: str) -> str:
        """Return a secret's value, and search for it from now on. Raises UnknownName, MisuseError."""
        ref = self._refs.get(name)
        if ref is None and self._of_name is not None:
            ref = SecretRef(name, get=partial(self._of_name, name))
        if ref is None:
            known = ", ".join(sorted(self._refs)) or "none"
            raise UnknownName(
                f"there is no secret {name!r:.80} in this runtime (there is: {known}); "
                "pass Runtime(secrets=[SecretRef(...)])"
            )
        value = ref.resolve()
        self.redactor.learn(name, value)
        return value

    # --- messages ------------------------------------------------------------------

    def admit(self, posts: Sequence[Post]) -> Sequence[Post]:
        """Return the posts of ports and clients without secrets. Raises InvalidPrompt for one in a name.

        One search covers all posts; each is searched alone only if that finds a secret.
        """
        redactor = self.redactor
        if redactor.is_idle or not redactor.may_be_in(b"\n".join([encode(post.body) for post in posts])):
            return posts
        return [
            post if (body := redact_message(redactor, post.body)) is post.body else Post(post.recipient, body)
            for post in posts
        ]

    def admitted(self, body: AnyMessage) -> AnyMessage:
        """Return one message without secrets, as `admit` does."""
        return redact_message(self.redactor, body)

    def refuse_in(self, what: str, name: str) -> None:
        """Raise InvalidPrompt if there is a secret in a name that is logged."""
        refuse(self.redactor, what, name)

    def stream(self, show: Callable[[str], object]) -> StreamBuffer:
        """Return the live text of one model call, which shows no secret."""
        return StreamBuffer(self.redactor, show, by_line=self._has_own)


def _listed(given: GivenSecrets) -> Iterable[str | SecretRef | SecretPattern]:
    """Return secrets as a list; those of a function are not known yet."""
    if isinstance(given, Mapping):
        return [SecretRef(name, get=_getter(name, value)) for name, value in given.items()]
    return () if callable(given) else given


def _getter(name: str, value: object) -> Callable[[], str]:
    """Return the function that gives a secret of a mapping. Raises MisuseError."""
    if isinstance(value, str):
        return partial(str, value)
    if not callable(value):
        raise MisuseError(f"secret {name[:80]}: give its value, or a function that returns it")
    return value


@cache
def _key_patterns() -> tuple[SecretPattern, ...]:
    return tuple(SecretPattern(name, pattern) for name, pattern in KEY_PATTERNS.items())


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
    state = tuple(_clean(redactor, key) for key in body.state)
    return msgspec.structs.replace(body, profiles=profiles, state=state)


def _profile(redactor: Redactor, raw: Json) -> Json:
    profile = _PROFILE.decode(raw)
    origins = (tool.origin.name for tool in profile.tools if tool.origin)
    names = (profile.name, *profile.agents, *(tool.name for tool in profile.tools), *origins)
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
    for spec in model.all_specs if model else ():
        refuse(redactor, "the name of a model", spec.name)
        if redactor.json(spec.params) is not spec.params:
            raise InvalidPrompt(
                f"the parameters of model {spec.name!r} hold a secret, and they are written into the log; "
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


NO_SECRETS = Secrets(finds_keys=False)  # finds no secrets: for boards and tools outside of a runtime


def secrets_of(values: Mapping[str, str] | None) -> Secrets:
    """Return the secrets of a context that a test makes. values: by name."""
    if not values:
        return NO_SECRETS
    refs = [SecretRef(name, get=partial(str, value)) for name, value in values.items()]
    return Secrets(refs, finds_keys=False)
