"""The prefix of an agent's requests: system prompt, tools, and the facts that follow from them.

Every request of an agent begins with it, so services can cache it. Many agents share one profile, so it is
computed once for each combination.
"""

from functools import lru_cache

import msgspec

from callboard.actors.protocol import prompts
from callboard.actors.protocol.conversation import rolled
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.profiles import Approval, Effect, Profile, ToolSpec, read_profile

TOOL_OVERHEAD_TOKENS = 1_000
"""Added to the bound of a request with tools, since services write a prompt of their own around tools.

Anthropic documents 159 to 804 tokens, by model and tool choice.
"""


class RequestPrefix(msgspec.Struct, frozen=True):
    """The beginning of every request of an agent. tokens: an upper bound; a token has at least one byte.

    background: True if the agent may start background tasks.
    """

    profile: Profile
    system: Json
    tools: tuple[Json, ...]
    effects: dict[str, Effect]
    approvals: dict[str, Approval]
    wraps_report: bool
    reports: bool
    background: bool
    digest: str
    tokens: int


def prefix_for(begin: Begin) -> RequestPrefix:
    """Return the request prefix of an agent that begins so."""
    return _prefix(bytes(begin.profile), bytes(begin.schema), begin.roster)


@lru_cache(maxsize=4_096)
def _prefix(raw_profile: bytes, raw_schema: bytes, roster: tuple[tuple[str, str], ...]) -> RequestPrefix:
    profile, schema = read_profile(raw_profile), Json(raw_schema)
    reports = schema != NULL
    system = prompts.with_report_note(profile.instructions) if reports else profile.instructions
    tools = [_described(spec) for spec in profile.tools]
    tools += profile.server_tools
    background = profile.background and bool(roster)
    if roster:
        tools.append(prompts.task_tool(roster, background=background))
    if background:
        tools += prompts.BACKGROUND_TOOLS
    if reports:
        tools.append(prompts.report_tool(schema, background=background))
    size = len(system) + sum(len(tool) for tool in tools)
    return RequestPrefix(
        profile=profile,
        system=system,
        tools=tuple(tools),
        effects={spec.name: spec.effect for spec in profile.tools},
        approvals={spec.name: spec.approval for spec in profile.tools if spec.approval != "never"},
        wraps_report=reports and not prompts.is_object_schema(schema),
        reports=reports,
        background=background,
        digest=rolled("", system, *tools),
        tokens=size + (TOOL_OVERHEAD_TOKENS if tools else 0),
    )


def _described(spec: ToolSpec) -> Json:
    head = msgspec.json.encode({"name": spec.name, "description": spec.description})
    parts = b"".join((head[:-1], b',"input_schema":', spec.input_schema))
    extra = bytes(spec.extra).strip()
    if extra.startswith(b"{") and extra[1:-1].strip():
        parts += b"," + extra[1:-1].strip()
    return Json(parts + b"}")
