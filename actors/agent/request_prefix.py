"""The prefix of an agent's requests: system prompt, tools, and the facts that follow from them.

Every request of an agent begins with it, so services can cache it. Many agents share one profile, so it is
computed once for each combination.
"""

from functools import lru_cache

import msgspec
from msgspec.structs import replace

from callboard.actors.agent.arguments import STRICT_FROM
from callboard.actors.protocol import prompts
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.contracts import Callee
from callboard.actors.protocol.conversation import joined, rolled
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.profiles import SCHEMA_ARG, Profile, ToolSpec, read_profile

TOOL_OVERHEAD_TOKENS = 1_000
"""Added to the bound of a request with tools, since services write a prompt of their own around tools.

Anthropic documents 159 to 804 tokens, by model and tool choice.
"""

_CALLEES = msgspec.json.Decoder(tuple[Callee, ...])


class RequestPrefix(msgspec.Struct, frozen=True):
    """The beginning of every request of an agent.

    tools, digest: as they are sent. start: the digest of a request without messages.
    tokens: an upper bound; a token has at least one byte.
    specs: the agent's own tools as they are now, by name. own: their definitions, as the model knows them
        from `tools` and from messages that changed them. others: the definitions of all other tools.
    is_changed: True if the conversation holds a message that changed the tools.
    background: True if the agent may start background tasks.
    callees: the agents that it does not call as any other, by name.
    task_names: the arguments of `task`.
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
    callees: dict[str, Callee] = {}
    task_names: tuple[str, ...] = ()


def prefix_for(begin: Begin) -> RequestPrefix:
    """Return the request prefix of an agent that begins so."""
    callees = encode(begin.callees) if begin.callees else b""
    is_strict = begin.rules >= STRICT_FROM
    prefix = _prefix(bytes(begin.profile), bytes(begin.schema), begin.roster, callees, is_strict)
    if begin.context == NULL or prefix.profile.context_in != "system":
        return prefix
    # Not among the cached ones: a context is that of one delegation, and may be large.
    system = joined(prefix.system, begin.context)
    return with_tools(replace(prefix, system=system), prefix.profile.tools)


def prompt_of(begin: Begin) -> Json:
    """Return the prompt of an agent, behind the context that belongs into the same message."""
    is_in_system = read_profile(bytes(begin.profile)).context_in == "system"
    return begin.prompt if is_in_system else joined(begin.context, begin.prompt)


@lru_cache(maxsize=4_096)
def _prefix(
    raw_profile: bytes,
    raw_schema: bytes,
    roster: tuple[tuple[str, str], ...],
    raw_callees: bytes,
    is_strict: bool,
) -> RequestPrefix:
    callees = _CALLEES.decode(raw_callees) if raw_callees else ()
    profile, schema = read_profile(raw_profile), Json(raw_schema)
    reports = schema != NULL
    system = prompts.with_report_note(profile.instructions) if reports else profile.instructions
    others = list(profile.server_tools)
    others += _agent_tools(roster, callees)
    called = tuple(one for one in roster if one[0] not in {each.name for each in callees if each.is_tool})
    background = profile.background and bool(called)
    task_names: tuple[str, ...] = ()
    if called:
        arguments = _schema_args(called, callees)
        others.append(
            prompts.task_tool(called, background=background, schema_args=arguments, is_described=is_strict)
        )
        task_names = ("agent", "prompt", *arguments, "agents", "copies", "description")
        task_names += ("background",) * background
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
        callees={each.name: each for each in callees},
        task_names=task_names,
    )
    return with_tools(bare, profile.tools)


def _agent_tools(roster: tuple[tuple[str, str], ...], callees: tuple[Callee, ...]) -> list[Json]:
    told = dict(roster)
    return [prompts.agent_tool(each, told.get(each.name, "")) for each in callees if each.is_tool]


def _schema_args(called: tuple[tuple[str, str], ...], callees: tuple[Callee, ...]) -> tuple[str, ...]:
    """Return the arguments by which these agents take the schema of a report, each once."""
    own = {each.name: each.schema_arg for each in callees}
    found = (own.get(name, SCHEMA_ARG) for name, _ in called)
    return tuple(dict.fromkeys(one for one in found if one))


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
