"""OpenAI's own models, and models behind an API of the same form."""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, Unpack

from callboard.actors.protocol.errors import MisuseError
from callboard.runtime.models.layered.model import LayeredModel, Params, Settings
from callboard.runtime.models.layered.service import (
    COMPATIBLE,
    OLD_COMPATIBLE,
    OLLAMA,
    OPENAI_CHAT,
    OPENAI_RESPONSES,
    OPENROUTER,
    PLAIN_RESPONSES,
    Service,
)

Api: TypeAlias = Literal["responses", "chat"]
_NO_REASONING: Final = ("gpt-3.5", "gpt-4", "chatgpt-")


class OpenAIModel(LayeredModel):
    """A model of OpenAI.

    name: the model's name there. api: `responses`, or `chat` for Chat Completions. reasoning: its answers
    hold reasoning, which goes back sealed; None decides by its name. The other arguments are those of
    `AnthropicModel`, without `cache`: the service caches by itself.

    >>> OpenAIModel("gpt-5", params={"reasoning": {"effort": "low"}}).spec.name
    'openai:gpt-5'
    """

    def __init__(
        self,
        name: str,
        *,
        api: Api = "responses",
        reasoning: bool | None = None,
        base_url: str | None = None,
        params: Params = None,
        **settings: Unpack[Settings],
    ) -> None:
        known_as = f"openai:{name}" if api == "responses" else f"openai-chat:{name}"
        thinks = not name.startswith(_NO_REASONING) if reasoning is None else reasoning
        super().__init__(_service(api, thinks), name, known_as, base_url=base_url, params=params, **settings)


class OpenAICompatibleModel(LayeredModel):
    """A model behind an API like OpenAI's: a gateway, or your own server.

    base_url: of the API, as OpenAI's client takes it, for example `http://localhost:8000/v1`. api_key: if the
    server wants one. known_as: its name in the log, by default `compatible:<name>`. limit: the parameter of
    Chat that carries `max_tokens`. api, reasoning, and the other arguments: as in `OpenAIModel`.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str,
        known_as: str = "",
        api: Api = "chat",
        limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens",
        reasoning: bool = True,
        params: Params = None,
        **settings: Unpack[Settings],
    ) -> None:
        service = COMPATIBLE if limit == "max_completion_tokens" else OLD_COMPATIBLE
        if api == "responses":
            spoken = _service(api, reasoning)
            service = service._replace(dialect=spoken.dialect, make=spoken.make, is_sealed=spoken.is_sealed)
        known = known_as or f"compatible:{name}"
        super().__init__(service, name, known, base_url=base_url, params=params, **settings)


class OpenRouterModel(LayeredModel):
    """A model of OpenRouter. name: as there, for example `anthropic/claude-sonnet-5`.

    The other arguments are those of `AnthropicModel`, without `cache`.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        params: Params = None,
        **settings: Unpack[Settings],
    ) -> None:
        known = f"openrouter:{name}"
        super().__init__(OPENROUTER, name, known, base_url=base_url, params=params, **settings)


class OllamaModel(LayeredModel):
    """A model of an Ollama server.

    context: the tokens of its context, which is sent as `num_ctx`; a server that ignores that must be given
    the same size. It would silently cut a longer conversation, so the call of one ends as `context_full`:
    before it, by its bytes (four make a token), and after it, by the count of the answer. The other arguments
    are those of `AnthropicModel`, without `cache`.
    """

    def __init__(
        self,
        name: str,
        *,
        context: int = 32_768,
        base_url: str | None = None,
        params: Params = None,
        **settings: Unpack[Settings],
    ) -> None:
        options = {"num_ctx": context, **dict(_options(params))}
        if context < 1:
            raise MisuseError(f"context={context} leaves no room for a conversation; use at least 1")
        merged = {**(params or {}), "options": options}
        known = f"ollama:{name}"
        super().__init__(OLLAMA, name, known, base_url=base_url, params=merged, context=context, **settings)


def _options(params: Params) -> Mapping[str, object]:
    found = (params or {}).get("options") or {}
    if not isinstance(found, Mapping):
        raise MisuseError(f'params["options"] is {found!r:.80}; give a dict of options of Ollama')
    if "num_ctx" in found:
        raise MisuseError("params may not hold num_ctx: use OllamaModel(..., context=...)")
    return found


def _service(api: Api, thinks: bool) -> Service:
    if api == "chat":
        return OPENAI_CHAT
    return OPENAI_RESPONSES if thinks else PLAIN_RESPONSES


def openai_chat_model(name: str) -> OpenAIModel:
    """Return the model that `openai-chat:<name>` names."""
    return OpenAIModel(name, api="chat")
