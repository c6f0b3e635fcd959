"""The protocol of a model.

A model answers one request, once. A fault of a service or a network is a `ModelFailure`, not an exception. A
model never retries: the agent decides that, so every attempt is an event and is charged.

Models by name, `provider:name`, as `--model`, `Agent(model=...)` and `Runtime(model=...)` take them:

    anthropic:claude-sonnet-5      Claude over the Messages API; `claude-sonnet-5` alone means the same
    openai:gpt-5                   OpenAI over Responses; `openai-chat:` means Chat Completions
    google:gemini-2.5-pro          Gemini over the Gemini API of Google
    bedrock:amazon.nova-lite-v1:0  a model of Amazon Bedrock
    openrouter:vendor/model        any model that OpenRouter leads to
    ollama:name                    a model of an Ollama server
    scripted:survey:policy         the script, policy or model `policy` of the module `survey`

A provider is a class, or a function, that takes the name after the colon and returns a `Model`, and
an entry point of its package: `local = "my_package.local_model:LocalModel"` in the group `callboard.models`.
If an optional library must be imported at the top of its file, name the extra that installs it,
`"my_package.local_model:LocalModel [local]"`, and the error for a missing library says so.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeGuard, runtime_checkable

from callboard.actors.protocol.errors import CallboardError, MisuseError, UnknownModel
from callboard.actors.protocol.immutable import NULL, Json, Value
from callboard.actors.protocol.near_names import NamedFields, near_names
from callboard.actors.protocol.origin import Origin
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Usage
from callboard.actors.protocol.value_types import ModelFailure, Sent
from callboard.runtime.failure_text import failure_text

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "callboard.models"
_CLAUDE: Final = "claude-"
_EXAMPLE: Final = "anthropic:claude-sonnet-5"
_COMPATIBLE: Final = "compatible"  # in the log, the provider of an `OpenAICompatibleModel`
_KNOWN_STARTS: Final = {
    "openai": ("gpt-", "chatgpt-", "o1", "o3", "o4"),
    "google": ("gemini-",),
    "ollama": ("gemma", "llama", "mistral", "qwen", "deepseek-"),
}
"""The beginnings of the names of well-known models, by the provider that has them."""

OnText: TypeAlias = Callable[[str], None]
"""Called with each piece of text as it streams in. The text is ephemeral and never logged."""


class ModelAnswer(Value, frozen=True, metaclass=NamedFields):
    """The result of one call.

    content: the model's content blocks, a JSON list, verbatim. stop_reason: the service's word for its end.
    usage: the tokens used, without cost; None if they are not known. failure: the reason if there is no
    answer. model: the model that answered.
    origin: of the content, if it is not that of the model's spec; None if it is.
    sent: the request as it was sent, if the model tells. body: that was sent, for `keep_requests`.
    edits: what the service has taken out of the conversation by itself, a JSON list in its own words.
    differs: as in `ModelReplied`, of recorded traffic.
    """

    content: Json = NULL
    stop_reason: str = ""
    usage: Usage | None = None
    failure: ModelFailure | None = None
    model: str = ""
    origin: Origin | None = None
    sent: Sent | None = None
    body: bytes = b""
    edits: Json = NULL
    differs: tuple[str, ...] = ()


class DivergedAnswer(ModelAnswer, frozen=True):
    """The answer of a program that does not repeat its recorded steps, or for a model that is not there.

    A live session waits for its code.
    """


def no_model(name: str, models: Iterable[str]) -> str:
    """Say that a model is not among those of this process, which agents of an earlier one may still ask."""
    known = ", ".join(sorted(models)) or "none"
    return f"there is no model {name!r} in this runtime (there is: {known}); give it to one of the agents"


@runtime_checkable
class Checkable(Protocol):
    """A model that can find out in advance that its calls cannot work."""

    def check(self) -> None:
        """Raise MisuseError if no call can work, for example without a key. Called before a session opens."""


@runtime_checkable
class ImportsLate(Protocol):
    """A model whose calls import modules that the file of its class does not."""

    @property
    def imports(self) -> tuple[str, ...]:
        """Return their names."""


@runtime_checkable
class WritesBodies(Protocol):
    """A model that can write the body of a request without sending it."""

    def written(self, request: ModelRequest) -> Sent:
        """Return the digest of the body that would be sent now; blocks. Raises MisuseError."""


@runtime_checkable
class RepairsReplies(Protocol):
    """A model that tells its changes to its own replies, so that its service takes them back."""

    def repairs(self, request: ModelRequest) -> tuple[str, ...]:
        """Return the changes in a request that would be sent now, in words. Raises MisuseError."""


@runtime_checkable
class KeepsRuns(Protocol):
    """A model that keeps something for each running agent, as a program keeps its coroutine."""

    def ended(self, session_id: str, address: str = "") -> None:
        """Let go of all that is kept for an agent that ended; without an address, for a session.

        Called as soon as the agent is told to stop, or has finished, and when its session leaves the process.
        """


class Model(Protocol):
    """An object that answers requests. It is called on the event loop, and cancelled with its agent."""

    @property
    def spec(self) -> ModelSpec:
        """Return its name in the log, with its parameters and prices."""

    def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer | Awaitable[ModelAnswer]:
        """Answer the request, at once or later."""

    async def aclose(self) -> None:
        """Release its resources. A runtime that used it calls this; a later `call` may open them again."""


def is_model(value: object) -> TypeGuard[Model]:
    """Return whether an object can be used as a `Model`: it has a spec, and can be called."""
    return isinstance(getattr(value, "spec", None), ModelSpec) and callable(getattr(value, "call", None))


async def import_for(models: Iterable[Model]) -> None:
    """Import the modules of models before their first calls, on a thread: some take a second or two.

    A module that cannot be imported is left to `check` and to the call, which say what is missing.
    """
    names = {name for model in models if isinstance(model, ImportsLate) for name in model.imports}
    if missing := names - sys.modules.keys():
        await asyncio.to_thread(_import, sorted(missing))


def _import(names: list[str]) -> None:
    for name in names:
        with suppress(Exception):  # whatever foreign code raises
            import_module(name)


@cache  # a log tells models apart by their names, so two agents that name one model must share one object
def model_named(text: str) -> Model:
    """Return the model that `provider:name` names, the same object for the same text.

    Raises UnknownModel for a provider that is not installed, and MisuseError for one that cannot make the
    model.

    >>> model_named("anthropic:claude-sonnet-5")
    AnthropicModel('claude-sonnet-5')
    """
    provider, colon, name = text.partition(":")
    if not colon and text.startswith(_CLAUDE):
        provider, name = "anthropic", text
    if not provider or not name:
        missing = "model" if provider and colon else "provider"
        raise UnknownModel(
            f"model {text!r} names no {missing}: write provider:name, for example "
            f"{_provider_of(text)}; {_installed()}"
        )
    return _made(_entry(provider), text, name)


def _entry(provider: str) -> "EntryPoint":
    from importlib.metadata import entry_points  # 20 ms that most programs never need

    found = list(entry_points(group=GROUP, name=provider))
    if provider == _COMPATIBLE and not found:
        raise UnknownModel(
            f"a model {provider}:... has no address in its name: make it in your program, "
            "model=OpenAICompatibleModel(name, base_url=...)"
        )
    if not found:
        raise UnknownModel(
            f"there is no model provider {provider!r}{near_names(provider, _names())}; {_installed()}; "
            "install the package that provides it "
            f"(one with an entry point {provider!r} in the group {GROUP!r})"
        )
    if len({one.value for one in found}) > 1:
        owners = ", ".join(sorted(f"{_package(one)} ({one.value})" for one in found))
        raise MisuseError(f"two packages provide the model provider {provider!r}: {owners}; uninstall one")
    return found[0]


def _provider_of(text: str) -> str:
    """Return the name with the provider that has such models, if it is installed; else an example."""
    names = _names()
    found = (one for one, starts in _KNOWN_STARTS.items() if text.startswith(starts) and one in names)
    provider = next(found, "")
    return f"{provider}:{text}" if provider else _EXAMPLE


def _names() -> set[str]:
    """Return the names of the installed providers."""
    from importlib.metadata import entry_points

    return entry_points(group=GROUP).names


def _package(entry: "EntryPoint") -> str:
    return entry.dist.name if entry.dist else "its package"


def _installed() -> str:
    return f"installed providers: {', '.join(sorted(_names())) or 'none'}"


def _made(entry: "EntryPoint", text: str, name: str) -> Model:
    try:
        factory = entry.load()
    except (ImportError, AttributeError) as error:
        extras = f"[{','.join(entry.extras)}]" if entry.extras else ""
        raise MisuseError(
            f"model {text!r}: loading its provider {entry.value} failed with {failure_text(error)}; "
            f"install it again: pip install '{_package(entry)}{extras}'"
        ) from error
    try:
        model = factory(name)
    except CallboardError:
        raise
    except Exception as error:
        raise MisuseError(f"model {text!r}: its provider raised {failure_text(error)}") from error
    if not is_model(model):
        raise MisuseError(f"model {text!r}: its provider {entry.value} returned {model!r:.80}, not a Model")
    return model
