"""Agents as users write them: a description, tools, and the agents they may delegate to.

An `Agent` holds no state of a run, so one can serve any number of sessions at once.
"""

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from types import UnionType
from typing import Final, Self, TypeVar, get_args

from callboard.actors.protocol.bundles import NO_BUNDLE, Bundle
from callboard.actors.protocol.errors import InvalidAgent, InvalidPrompt, MisuseError
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.profiles import OnFinish, Profile
from callboard.runtime.contexts import ContextFunction, checked_function, function_name
from callboard.runtime.failure_text import text_of
from callboard.runtime.models.fallback import ModelChoice, model_or_name, models_of
from callboard.runtime.models.protocol import Model
from callboard.runtime.sanitize import clean_text, to_json
from callboard.runtime.schemas.output_types import output_type
from callboard.runtime.tools.shared_state import state_keys
from callboard.runtime.tools.sources import ToolSource, refuse_equal_labels
from callboard.runtime.tools.tool import Tool

T = TypeVar("T", Tool, "Agent")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

NAME_CHARS_MAX: Final = 200  # the longest session or request id


class Agent:
    """A host or a sub-agent.

    name: letters, digits, `_` and `-`, at most 64; unique among the agents of a session.
    description: the text by which a delegating model chooses it.
    instructions: its system prompt, text or a list of content blocks.
    tools: made by `@tool`, and servers of tools such as `MCPServer`.
    agents: the agents it may delegate to.
    output_schema: of its report, for calls that give none: a JSON schema, a pydantic model, a dataclass, a
        msgspec Struct, or a type such as `list[int]` (docs/typed-reports.md).
    limits: its own bounds; the narrower of these, the session's and the call's hold.
    model: a `Model`, a name such as "anthropic:claude-sonnet-5", or a `Fallback` of several; None inherits
        the delegating agent's.
    server_tools: tools that the model's service runs.
    background: True lets its model start sub-agents that work while it goes on.
    on_finish: "wait" if its last word waits for these sub-agents, "cancel" if it ends them.
    state: keys of the session's shared state that its tools use: a `SharedKey`, or a first value, by name
        (docs/shared-state.md). The agents of a session declare its keys together.
    context: a function of a `ContextRequest`, the view of the agent that delegates to this one. The text or
        content blocks that it returns stand before the prompt (docs/context.md).
    later_tools: tools that it does not begin with, and that `set_tools` may give it (docs/changing-tools.md).
    lossy: True lets a text stand for a block that another model's service cannot take; else such a call fails
        (docs/several-providers.md).
    permissions: what it may do and what it may delegate; it has no more than its parent hands down
        (docs/permissions.md).

    Raises InvalidAgent for a name, tool or roster that cannot work, InvalidSchema for a type that JSON cannot
    describe, UnknownName for a model's name that no installed provider knows.

        >>> Agent("explorer", description="Finds facts in files.", instructions="Be brief.").name
        'explorer'
    """

    def __init__(
        self,
        name: str,
        *,
        description: str = "",
        instructions: str | Sequence[Mapping[str, object]] = "",
        tools: Sequence[Tool | ToolSource] = (),
        agents: Sequence["Agent"] = (),
        output_schema: object = None,
        limits: Limits | None = None,
        model: ModelChoice | str | None = None,
        server_tools: Sequence[Mapping[str, object]] = (),
        background: bool = False,
        on_finish: OnFinish = "wait",
        state: Mapping[str, object] | None = None,
        context: ContextFunction | None = None,
        later_tools: Sequence[Tool] = (),
        lossy: bool = False,
        permissions: Bundle | None = None,
    ) -> None:
        _check_name(name)
        _check(name, "description", description, str)
        _check(name, "instructions", instructions, str | Sequence)
        _check(name, "limits", limits, Limits | None)
        _check(name, "state", state, Mapping | None)
        _check(name, "permissions", permissions, Bundle | None)
        self.name = name
        self.description = clean_text(description)
        self.sources, own = _parted(name, tools)
        self.tools = _by_name(name, "tool", own, Tool, "decorate the function with @tool")
        self.later_tools = _by_name(name, "later tool", later_tools, Tool, "decorate the function with @tool")
        if both := self.tools.keys() & self.later_tools.keys():
            raise InvalidAgent(
                f"agent {name!r}: {min(both)!r} is in tools and in later_tools; leave it out of one"
            )
        self.agents = _agents(name, agents)
        self.model = _model(name, model)
        self.limits = limits or Limits()
        self._instructions = to_json(instructions) if instructions else NULL
        self.output_type = output_type(output_schema)
        _check_choices(name, background, on_finish, lossy)
        self.background, self.lossy = background, lossy
        self.on_finish: OnFinish = on_finish
        self._server_tools = _server_tools(name, server_tools)
        self.state = state_keys(name, state or {})
        self.permissions = permissions or NO_BUNDLE
        self.context = checked_function(name, context)

    def __repr__(self) -> str:
        return f"Agent({self.name!r})"

    def profile(self) -> Profile:
        """Return the plain description that goes into the log."""
        return Profile(
            self.name,
            self.description,
            self._instructions,
            tuple(tool.spec() for tool in self.tools.values()),
            self._server_tools,
            tuple(agent.name for agent in self.agents),
            self.output_type.schema,
            self.limits,
            self.model.spec if self.model else None,
            self.output_type.name,
            self.background,
            self.on_finish,
            function_name(self.context),
            lossy=self.lossy,
            permissions=self.permissions,
        )

    def with_instructions(self, name: str, instructions: str) -> Self:
        """Return this agent with other instructions for the agent of this name, which it is or can reach."""
        return self._with_instructions(name, to_json(clean_text(instructions)), {})

    def _with_instructions(self, name: str, instructions: Json, made: dict[str, "Agent"]) -> Self:
        agent = copy.copy(self)
        made[agent.name] = agent  # agents may delegate to each other
        if agent.name == name:
            agent._instructions = instructions
        agent.agents = tuple(
            made.get(one.name) or one._with_instructions(name, instructions, made) for one in self.agents
        )
        return agent

    def with_tools(self, found: Iterable[Tool]) -> Self:
        """Return this agent with the tools that its sources have. Raises InvalidAgent for two of one name."""
        later, every = self.later_tools.values(), (*self.tools.values(), *found)
        known = _by_name(self.name, "tool", (*every, *later), Tool, "decorate the function with @tool")
        agent = copy.copy(self)
        agent.tools = {tool.name: known[tool.name] for tool in every}
        return agent

    @property
    def all_tools(self) -> tuple[Tool, ...]:
        """Return the tools that the agent has, or may be given later."""
        return (*self.tools.values(), *self.later_tools.values())

    @property
    def all_models(self) -> tuple[Model, ...]:
        """Return the models that the agent's own calls may use."""
        return models_of(self.model)

    def may_delegate_to(self, *agents: "Agent") -> None:
        """Add agents that did not exist yet at construction, for two that delegate to each other."""
        self.agents = _agents(self.name, (*self.agents, *agents))


def _parted(agent: str, tools: object) -> tuple[tuple[ToolSource, ...], object]:
    """Return the sources among the tools of an agent, and the rest. Raises InvalidAgent."""
    if not isinstance(tools, Iterable):
        return (), tools
    given = tuple(tools)
    sources = tuple(one for one in given if isinstance(one, ToolSource))
    refuse_equal_labels(agent, sources)
    return sources, [one for one in given if not isinstance(one, ToolSource)]


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidAgent(
            f"agent name {str(name)[:80]!r}: use 1 to 64 letters, digits, '_' and '-'; models call it so"
        )


def _server_tools(agent: str, tools: Iterable[Mapping[str, object]]) -> tuple[Json, ...]:
    for each in tools:
        _check(agent, "a server tool", each, Mapping)
    return tuple(to_json(dict(each)) for each in tools)


def _check_choices(agent: str, background: object, on_finish: object, lossy: object) -> None:
    _check(agent, "background", background, bool)
    _check(agent, "lossy", lossy, bool)
    if on_finish not in get_args(OnFinish):
        raise InvalidAgent(f'agent {agent!r}: on_finish is "wait" or "cancel", not {on_finish!r:.40}')


def _check(agent: str, what: str, value: object, kind: type | UnionType) -> None:
    if not isinstance(value, kind):
        raise InvalidAgent(f"agent {agent!r}: {what} cannot be {value!r}")


def _model(agent: str, model: object) -> ModelChoice | None:
    try:
        return model_or_name(model)
    except MisuseError as error:
        if isinstance(model, str):
            raise
        raise InvalidAgent(f"agent {agent!r}: {error}") from None


def _agents(name: str, agents: Iterable["Agent"]) -> tuple["Agent", ...]:
    return tuple(_by_name(name, "agent", agents, Agent, "make it with Agent(...)").values())


def _by_name(agent: str, what: str, given: object, kind: type[T], advice: str) -> dict[str, T]:
    """Return the tools or agents of an agent by their names. Raises InvalidAgent."""
    if not isinstance(given, Iterable):
        raise InvalidAgent(f"agent {agent!r}: {what}s is a list of {what}s, not {given!r}")
    found: dict[str, T] = {}
    for one in given:
        if not isinstance(one, kind):
            raise InvalidAgent(f"agent {agent!r}: {one!r} is no {kind.__name__}; {advice}")
        if one.name in found:
            raise InvalidAgent(f"agent {agent!r} has two {what}s named {one.name!r}; rename one")
        found[one.name] = one
    return found


def roster(host: Agent) -> dict[str, Agent]:
    """Return the host and every agent it can reach by delegation, by name. Raises InvalidAgent."""
    found: dict[str, Agent] = {}
    ahead = [host]
    while ahead:
        agent = ahead.pop()
        if (known := found.get(agent.name)) is not None:
            if known is not agent:
                raise InvalidAgent(
                    f"two agents named {agent.name!r} can be reached from {host.name!r}; "
                    "names must be unique in a session"
                )
            continue
        found[agent.name] = agent
        ahead += agent.agents
    return found


def prompt_json(prompt: str | Sequence[Mapping[str, object]] | Json) -> Json:
    """Encode a prompt for the log. Raises InvalidPrompt unless it is a text or a list of blocks."""
    if isinstance(prompt, Json):
        return prompt
    is_blocks = isinstance(prompt, Sequence) and all(isinstance(block, Mapping) for block in prompt)
    if not prompt or not (isinstance(prompt, str) or is_blocks):
        raise InvalidPrompt(
            f"a prompt is a text or a list of content blocks that is not empty, not {text_of(prompt)[:80]!r}"
        )
    return to_json(prompt, what="The prompt")


def limits_of(limits: Limits | None) -> Limits:
    """Return the given limits, or empty ones. Raises MisuseError for any other object."""
    if limits is not None and not isinstance(limits, Limits):
        raise MisuseError(f"limits={limits!r}: use Limits(...), for example Limits(tokens=50_000)")
    return limits or Limits()


def checked_name(what: str, name: str) -> str:
    """Return a session or request id that a log and a command line can hold. Raises MisuseError."""
    if not isinstance(name, str) or len(name) > NAME_CHARS_MAX or not (name.isprintable() or not name):
        raise MisuseError(f"{what}={name!r}: use up to {NAME_CHARS_MAX} printable characters")
    return name


def refuse_unpriced(model: str, *limits: Limits) -> None:
    """Refuse cost limits for a model without known prices. model: empty if all have prices."""
    if model and any(one.cost_usd is not None for one in limits):
        raise MisuseError(
            f"a cost limit is set, and the prices of model {model!r} are not known; "
            "pass prices=Prices(...) to the model, or limit tokens instead"
        )
