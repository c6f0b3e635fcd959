"""The prefix of an agent's requests: system prompt, tools, and the facts that follow from them.

Every request of an agent begins with it, so services can cache it. Many agents share one profile, so it is
computed once for each combination.
"""

from functools import lru_cache

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol import prompts
from callboard.actors.protocol.conversation import rolled
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.profiles import Profile, ToolSpec, read_profile

TOOL_OVERHEAD_TOKENS = 1_000
"""Added to the bound of a request with tools, since services write a prompt of their own around tools.

Anthropic documents 159 to 804 tokens, by model and tool choice.
"""


class RequestPrefix(msgspec.Struct, frozen=True):
    """The beginning of every request of an agent.

    tools, digest: as they are sent. start: the digest of a request without messages.
    tokens: an upper bound; a token has at least one byte.
    specs: the agent's own tools as they are now, by name. own: their definitions, as the model knows them
        from `tools` and from messages that changed them. others: the definitions of all other tools.
    is_changed: True if the conversation holds a message that changed the tools.
    background: True if the agent may start background tasks.
    """

    profile: Profile
    system: Json
    others: tuple[Json, ...]
    wraps_report: bool
    reports: bool
    background: bool
    tools: tuple[Json, ...] = ()
    specs: dict[str, ToolSpec] = {}
    own: dict[str, Json] = {}
    digest: str = ""
    start: str = ""
    tokens: int = 0
    is_changed: bool = False


def prefix_for(begin: Begin) -> RequestPrefix:
    """Return the request prefix of an agent that begins so."""
    return _prefix(bytes(begin.profile), bytes(begin.schema), begin.roster)


@lru_cache(maxsize=4_096)
def _prefix(raw_profile: bytes, raw_schema: bytes, roster: tuple[tuple[str, str], ...]) -> RequestPrefix:
    profile, schema = read_profile(raw_profile), Json(raw_schema)
    reports = schema != NULL
    system = prompts.with_report_note(profile.instructions) if reports else profile.instructions
    others = list(profile.server_tools)
    background = profile.background and bool(roster)
    if roster:
        others.append(prompts.task_tool(roster, background=background))
    if background:
        others += prompts.BACKGROUND_TOOLS
    if reports:
        others.append(prompts.report_tool(schema, background=background))
    bare = RequestPrefix(
        profile=profile,
        system=system,
        others=tuple(others),
        wraps_report=reports and not prompts.is_object_schema(schema),
        reports=reports,
        background=background,
    )
    return with_tools(bare, profile.tools)


def with_tools(prefix: RequestPrefix, tools: tuple[ToolSpec, ...]) -> RequestPrefix:
    """Return the prefix of an agent that has these tools from its first request on."""
    own = {spec.name: described(spec) for spec in tools}
    sent = (*own.values(), *prefix.others)
    size = len(prefix.system) + sum(map(len, sent))
    digest = rolled("", prefix.system, *sent)
    return replace(
        prefix,
        profile=replace(prefix.profile, tools=tools),
        tools=sent,
        specs={spec.name: spec for spec in tools},
        own=own,
        digest=digest,
        start=rolled(digest),
        tokens=size + (TOOL_OVERHEAD_TOKENS if sent else 0),
        is_changed=False,
    )


def described(spec: ToolSpec) -> Json:
    """Return the definition of a tool for the model."""
    head = msgspec.json.encode({"name": spec.name, "description": spec.description})
    parts = b"".join((head[:-1], b',"input_schema":', spec.input_schema))
    extra = bytes(spec.extra).strip()
    if extra.startswith(b"{") and extra[1:-1].strip():
        parts += b"," + extra[1:-1].strip()
    return Json(parts + b"}")
