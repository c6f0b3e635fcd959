"""All names of spans, attributes and metrics, with the version of the conventions that they follow.

`gen_ai.*` are those of the OpenTelemetry semantic conventions for generative AI, which are in development and
may change; `callboard.*` are our own. Usage stands on `chat` spans only: backends add it up over all spans,
and a total on an outer span would count it twice.
"""

from collections.abc import Mapping
from functools import cache
from importlib import metadata
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from callboard.actors.protocol.origin import Origin

CONVENTIONS: Final = "1.44.0"
"""The version of the semantic conventions that the `gen_ai.*` names are those of."""
SCHEMA_URL: Final = f"https://opentelemetry.io/schemas/{CONVENTIONS}"
SCOPE: Final = "callboard"

Operation: TypeAlias = Literal["invoke_workflow", "invoke_agent", "chat", "execute_tool"]
"""The kinds of spans: an ask, an agent, a model call and a tool call."""

OPERATION: Final = "gen_ai.operation.name"
CONVERSATION: Final = "gen_ai.conversation.id"
WORKFLOW_NAME: Final = "gen_ai.workflow.name"
AGENT_NAME: Final = "gen_ai.agent.name"
AGENT_ID: Final = "gen_ai.agent.id"
AGENT_DESCRIPTION: Final = "gen_ai.agent.description"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
RESPONSE_MODEL: Final = "gen_ai.response.model"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
TOKEN_TYPE: Final = "gen_ai.token.type"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_DESCRIPTION: Final = "gen_ai.tool.description"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
ERROR_TYPE: Final = "error.type"

SEQ: Final = "callboard.seq"
END_SEQ: Final = "callboard.end_seq"
ACTOR: Final = "callboard.actor"
TURN: Final = "callboard.turn"
ATTEMPT: Final = "callboard.attempt"
ENDING: Final = "callboard.ending"
EFFECT: Final = "callboard.tool.effect"
AGENT_KIND: Final = "callboard.agent.kind"
TAGS: Final = "callboard.tags"
CHARGED_TOKENS: Final = "callboard.usage.charged_tokens"
COST_USD: Final = "callboard.cost_usd"
REUSED: Final = "callboard.reused"
UNFINISHED: Final = "callboard.unfinished"
LINK: Final = "callboard.link"

_PROVIDERS: Final[Mapping[str, str]] = MappingProxyType(
    {"google": "gcp.gemini", "google-gla": "gcp.gemini", "bedrock": "aws.bedrock", "aws": "aws.bedrock"}
)


@cache
def library_version() -> str:
    """Return the version of callboard; empty where it runs without being installed."""
    try:
        return metadata.version(SCOPE)
    except metadata.PackageNotFoundError:
        return ""


def provider_name(origin: Origin) -> str:
    """Return the conventions' name for the service of a model; `_OTHER` if it is not known.

    >>> provider_name(Origin("anthropic", model="m"))
    'anthropic'
    """
    own = origin.provider or origin.adapter
    return _PROVIDERS.get(own, own) or "_OTHER"
