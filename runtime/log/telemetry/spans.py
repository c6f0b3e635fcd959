"""Spans, their ids, and all names of telemetry.

A span: one operation of a session that has ended, with its first and its last event.

All names of spans, attributes and metrics, with the version of the conventions that they follow.

`gen_ai.*` are those of the OpenTelemetry semantic conventions for generative AI, which are in development and
may change; `callboard.*` are our own. Usage stands on `chat` spans only: backends add it up over all spans,
and a total on an outer span would count it twice.

The ids of traces and spans: hashes of a session and a seq, so that they are the same live and exported.
"""

from collections.abc import Mapping
from functools import cache, lru_cache
from hashlib import blake2b
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.endings import Status
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.origin import Origin
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.usage import ZERO, Usage

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
    from importlib import metadata  # 5 ms that programs without telemetry never need

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


LinkKind: TypeAlias = Literal["resume", "fork", "background"]
SpanStatus: TypeAlias = Status | Literal["unfinished"]
NO_MODEL: Final = ModelSpec("")


class Link(NamedTuple):
    """A span that another one follows from. session: of that span, empty for the same session."""

    kind: LinkKind
    trace: int
    seq: int
    session: str = ""


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """An operation that has ended.

    trace: the seq of its `Ask`. parent: the seq of the span above it, 0 for none.
    begun, ended: its first and its last event. `ended` stays empty if the end of an ask cut it off, or if it
    has no end in the log.
    end_ms: in milliseconds since 1970 UTC. name: of the host, agent, model or tool.
    agent, profile: the address and the name of its agent. about: the description of an agent or a tool.
    ending: the kind of end of an ask or agent, empty for others. error: the type of its failure, empty for
    none.
    asked: the request of a `chat`. model: that it asks. charge: for it. wait_ms: from the request to the
    grant, without the back-off. links: to spans that it follows from. tags: of the session.
    """

    operation: Operation
    trace: int
    parent: int
    begun: Event
    ended: Event | None
    end_ms: int
    name: str
    agent: str = ""
    profile: str = ""
    about: str = ""
    ending: str = ""
    status: SpanStatus = "ok"
    error: str = ""
    asked: TurnRequested | None = None
    model: ModelSpec = NO_MODEL
    charge: Usage = ZERO
    wait_ms: int = 0
    links: tuple[Link, ...] = ()
    tags: tuple[str, ...] = ()

    @property
    def seq(self) -> int:
        """Return the seq of its first event."""
        return self.begun.seq

    @property
    def duration_ms(self) -> int:
        """Return its length in milliseconds."""
        return max(0, self.end_ms - self.begun.at)


@lru_cache(maxsize=4_096)
def trace_id(session: str, ask: int) -> bytes:
    """Return the 16 bytes that name the trace of an ask. ask: the seq of the `Ask`."""
    return blake2b(f"{session}\0{ask}".encode(), digest_size=16, person=b"callboard trace").digest()


@lru_cache(maxsize=4_096)
def span_id(session: str, seq: int) -> bytes:
    """Return the 8 bytes that name the span which begins with this event."""
    return blake2b(f"{session}\0{seq}".encode(), digest_size=8, person=b"callboard span").digest()


def ids_of(session: str, span: Span) -> tuple[bytes, bytes, bytes]:
    """Return the ids of a span's trace, of the span, and of its parent, which is empty for none."""
    parent = span_id(session, span.parent) if span.parent else b""
    return trace_id(session, span.trace), span_id(session, span.seq), parent


def ids_of_link(session: str, link: Link) -> tuple[bytes, bytes]:
    """Return the ids of the trace and of the span to which a link leads."""
    owner = link.session or session
    return trace_id(owner, link.trace), span_id(owner, link.seq)
