"""Agents as users write them: a description, tools, and the agents they may delegate to.

An `Agent` holds no state of a run, so one can serve any number of sessions at once.
"""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Generic, Self, cast

from callboard.actors.protocol.bundles import NO_BUNDLE, Bundle
from callboard.actors.protocol.errors import InvalidAgent, InvalidPrompt, MisuseError
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.profiles import SCHEMA_ARG, OnFinish, Profile
from callboard.actors.protocol.prompts import RESERVED
from callboard.runtime.agent_fields import (
    OnBroken,
    by_name,
    check,
    check_choices,
    check_name,
    model_of,
    own_tools,
    parted,
    schema_argument,
    server_tools_json,
)
from callboard.runtime.agent_types import Deps_contra, Out_co
from callboard.runtime.compaction import Compact
from callboard.runtime.contexts import ContextFunction, SystemContext, checked_context, function_name
from callboard.runtime.contracts import contract_of, recorded
from callboard.runtime.failure_text import failure_text, text_of
from callboard.runtime.models.fallback import ModelChoice, models_of
from callboard.runtime.models.protocol import Model
from callboard.runtime.sanitize import clean_text, to_json, without_blanks
from callboard.runtime.schemas.output_types import name_of, output_type
from callboard.runtime.tools.shared_state import state_keys
from callboard.runtime.tools.sources import ToolSource, refuse_alike, refuse_equal_labels
from callboard.runtime.tools.tool import Tool

if TYPE_CHECKING:
    from callboard.runtime.agent_types import OutputSchema

NAME_CHARS_MAX: Final = 200  # the longest session or request id


class Agent(Generic[Deps_contra, Out_co]):
    """A host or a sub-agent. `Agent[Shop, int]`: its tools read a `Shop`, and its outcome is an int.

    name: letters, digits, `_` and `-`, at most 64; unique among the agents of a session.
    description: the text by which a delegating model chooses it.
    instructions: its system prompt, text or a list of content blocks.
    tools: made by `@tool`, and servers of tools such as `MCPServer`.
    agents: the agents it may delegate to; a function that makes one is as `Agent.made_by` of it.
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
    context: `Brief()`, `WholeHistory()`, or a function of a `ContextRequest`, the view of the agent that
        delegates to this one. The text or content blocks that it returns stand before the prompt, or in the
        system prompt: `SystemContext(Brief())` (docs/context.md).
    later_tools: tools that it does not begin with, and that `set_tools` may give it (docs/changing-tools.md).
    lossy: True lets a text stand for a block that another model's service cannot take; else such a call fails
        (docs/several-providers.md).
    permissions: what it may do and what it may delegate; it has no more than its parent hands down
        (docs/permissions.md).
    input: a msgspec Struct, a dataclass or a pydantic model. The agent then is a tool of its own name, whose
        arguments are these fields (docs/contracts.md). None for a prompt, by the tool `task`.
    output_schema_arg: the argument by which a calling model may give the schema of the report; of an agent
        with a contract, one of its fields. None refuses every schema of a model.
    model_reason: for the log, why the agent has another model than its parent.
    on_broken: "unavailable" lets a session begin although the agent's tool sources, or all models, are
        missing; each call of the agent then fails at once. "refuse" refuses the session.
    compact: `Compact()` shortens its conversation before it fills the window of its model
        (docs/compaction.md). None ends the agent as `context_full` then.

    Raises InvalidAgent for a name, tool or roster that cannot work, InvalidSchema for a type that JSON cannot
    describe, UnknownName for a model's name that no installed provider knows.

        >>> Agent("explorer", description="Finds facts in files.", instructions="Be brief.").name
        'explorer'
    """

    make: "Callable[[], Agent] | None" = None
    broken: str = ""

    def __init__(
        self,
        name: str,
        *,
        description: str = "",
        instructions: str | Sequence[Mapping[str, object]] = "",
        tools: Sequence[Tool | ToolSource] = (),
        agents: Sequence["Agent | Callable[[], Agent]"] = (),
        output_schema: "OutputSchema[Out_co]" = None,
        limits: Limits | None = None,
        model: ModelChoice | str | None = None,
        server_tools: Sequence[Mapping[str, object]] = (),
        background: bool = False,
        on_finish: OnFinish = "wait",
        state: Mapping[str, object] | None = None,
        context: ContextFunction | SystemContext | None = None,
        later_tools: Sequence[Tool] = (),
        lossy: bool = False,
        permissions: Bundle | None = None,
        input: type | None = None,
        output_schema_arg: str | None = SCHEMA_ARG,
        model_reason: str = "",
        on_broken: OnBroken = "refuse",
        compact: Compact | None = None,
    ) -> None:
        check_name(name)
        check(name, "description", description, str)
        check(name, "instructions", instructions, str | Sequence)
        check(name, "limits", limits, Limits | None)
        check(name, "state", state, Mapping | None)
        check(name, "permissions", permissions, Bundle | None)
        check(name, "model_reason", model_reason, str)
        check(name, "compact", compact, Compact | None)
        self.name = name
        self.description = clean_text(description)
        self.sources, own = parted(name, tools)
        self.tools, self.later_tools = own_tools(name, own, later_tools)
        self.contract = None if input is None else contract_of(name, input)
        self.schema_arg = schema_argument(name, output_schema_arg, self.contract)
        self.agents = _agents(name, agents)
        self._refuse_equal_tools()
        self.model_reason = clean_text(model_reason)
        self.model = model_of(name, model)
        self.limits, self.permissions = limits or Limits(), permissions or NO_BUNDLE
        self._instructions = _said(instructions, "The instructions")
        self.output_type = output_type(output_schema)
        check_choices(name, background, on_finish, lossy, on_broken)
        self.background, self.lossy = background, lossy
        self.on_finish, self.on_broken = on_finish, on_broken
        self._server_tools = server_tools_json(name, server_tools)
        self.state = state_keys(name, state or {})
        self.context, self.context_in = checked_context(name, context)
        self.compact = compact

    def __repr__(self) -> str:
        return f"Agent({self.name!r})"

    def profile(self) -> Profile:
        """Return the plain description that goes into the log."""
        input_schema, input_type, presets = recorded(self.contract)
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
            input_schema=input_schema,
            input_type=input_type,
            presets=presets,
            schema_arg=self.schema_arg,
            factory=name_of(self.make) if self.make else "",
            unavailable=self.broken,
            model_reason=self.model_reason,
            context_in=self.context_in,
            compact=None if self.compact is None else self.compact.rules,
        )

    @staticmethod
    def made_by(
        make: Callable[[], "Agent"], *, name: str = "", description: str = "", on_broken: OnBroken = "refuse"
    ) -> "Agent":
        """Return an agent that is created again for each call of it, with its own tools and state.

        make: takes nothing and returns an agent, each time with the same definition. It is called once now.
        name, description: of an agent that cannot be made now and is "unavailable" (on_broken).
        Raises InvalidAgent with the reason if it cannot be made.
        """
        try:
            made = make()
            if not isinstance(made, Agent):
                raise TypeError(f"it returned {made!r:.80}, which is not an Agent")
            made.profile()
        except Exception as error:  # of the user's function
            why = f"the factory {name_of(make)} failed: {failure_text(error)}"
            if on_broken != "unavailable":
                raise InvalidAgent(f"agent {name or name_of(make)!r}: {why}") from error
            return Agent(name, description=description).marked(clean_text(why))
        agent = copy.copy(made)
        agent.make, agent.on_broken = make, on_broken
        return agent

    def marked(self, why: str) -> Self:
        """Return this agent as one whose calls all end as unavailable for this reason."""
        agent = copy.copy(self)
        agent.broken = why
        return agent

    def preset(self, name: str = "", /, **values: object) -> Self:
        """Return this agent with fields of its contract set and hidden: no caller sees or changes them.

        name: of the new agent, where a session has several of one; by default the same.
        Raises InvalidAgent for a field that its contract does not have, or a value that it does not take.
        """
        agent = self._renamed(name) if name else copy.copy(self)
        if self.contract is None:
            raise InvalidAgent(f"agent {self.name!r} has no contract to preset: give it input=...")
        agent.contract = self.contract.preset(agent.name, values)
        return agent

    def _renamed(self, name: str) -> Self:
        check_name(name)
        agent = copy.copy(self)
        agent.name = name
        return agent

    def _refuse_equal_tools(self) -> None:
        """Refuse an agent with a contract that is named as a tool of its caller. Raises InvalidAgent."""
        taken = {one.name for one in self.all_tools} | RESERVED
        for one in self.agents:
            if one.contract is not None and one.name in taken:
                raise InvalidAgent(
                    f"agent {self.name!r}: agent {one.name!r} has a contract, so it is a tool of that name, "
                    "and there is another one; rename one"
                )

    def with_instructions(self, name: str, instructions: str) -> Self:
        """Return this agent with new instructions for the agent of this name, itself or one below it."""
        return self._with_instructions(name, _said(clean_text(instructions), "The instructions"), {})

    def _with_instructions(self, name: str, instructions: Json, made: dict[str, "Agent"]) -> Self:
        agent = copy.copy(self)
        made[agent.name] = agent  # agents may delegate to each other
        if agent.name == name:
            agent._instructions = instructions
        agent.agents = tuple(
            made.get(one.name) or one._with_instructions(name, instructions, made) for one in self.agents
        )
        return agent

    def with_model(self, model: ModelChoice) -> Self:
        """Return this agent with its own model; a program uses it for everything but its steps."""
        agent = copy.copy(self)
        agent.model = model
        return agent

    def with_compact(self, compact: Compact) -> Self:
        """Return this agent with a conversation that is shortened by these rules."""
        agent = copy.copy(self)
        agent.compact = compact
        return agent

    def with_tools(self, found: Iterable[Tool]) -> Self:
        """Return this agent with the tools of its sources. Raises InvalidAgent for two of one name."""
        later, every = self.later_tools.values(), (*self.tools.values(), *found)
        known = by_name(self.name, "tool", (*every, *later), Tool, "decorate the function with @tool")
        agent = copy.copy(self)
        agent.tools = {tool.name: known[tool.name] for tool in every}
        agent._refuse_equal_tools()
        return agent

    def with_sources(self, more: Iterable[ToolSource]) -> Self:
        """Return this agent with more tool sources. Raises InvalidAgent for two of one label."""
        agent = copy.copy(self)
        agent.sources = (*self.sources, *more)
        refuse_equal_labels(self.name, agent.sources)
        return agent

    @property
    def all_tools(self) -> tuple[Tool, ...]:
        """Return the tools that the agent has, or may be given later."""
        return (*self.tools.values(), *self.later_tools.values())

    @property
    def model_below(self) -> ModelChoice | None:
        """Return the model that agents without one inherit from this one; None for the one it inherits."""
        return self.model

    @property
    def all_models(self) -> tuple[Model, ...]:
        """Return the models that the agent's own calls may use."""
        own = models_of(self.model)
        if self.compact is None or self.compact.model is None:
            return own
        return tuple(dict.fromkeys((*own, self.compact.model)))

    def may_delegate_to(self, *agents: "Agent") -> None:
        """Add agents that did not exist when this one was created, for two that delegate to each other."""
        self.agents = _agents(self.name, (*self.agents, *agents))
        self._refuse_equal_tools()


def _agents(name: str, agents: object) -> tuple["Agent", ...]:
    """Return the agents of an agent. A function that makes one is called for that, now and at each call."""
    if isinstance(agents, Iterable):
        agents = [Agent.made_by(one) if _is_factory(one) else one for one in agents]
    return tuple(by_name(name, "agent", agents, Agent, "make it with Agent(...)").values())


def _is_factory(one: object) -> bool:
    return callable(one) and not isinstance(one, Agent | Tool | type)


def roster(host: Agent) -> dict[str, Agent]:
    """Return the host and every agent that it can reach, by name. Raises InvalidAgent, MisuseError."""
    if not isinstance(host, Agent):
        raise MisuseError(f'{host!r:.80} is not an Agent; make one, as in Agent("host", instructions=...)')
    found: dict[str, Agent] = {}
    tools: list[Tool] = []
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
    for agent in found.values():
        tools += (*agent.tools.values(), *agent.later_tools.values())
    refuse_alike(tools)
    return found


def prompt_json(prompt: object) -> Json:
    """Encode a prompt for the log, without blank texts among blocks. Raises InvalidPrompt for any other."""
    if isinstance(prompt, Json):
        return prompt
    is_blocks = isinstance(prompt, Sequence) and all(isinstance(block, Mapping) for block in prompt)
    said = _said(prompt, "The prompt") if is_blocks or isinstance(prompt, str) else NULL
    if said == NULL:
        raise InvalidPrompt(
            f"a prompt is a text or a list of content blocks that is not blank, not {text_of(prompt)[:80]!r}"
        )
    return said


def _said(given: object, what: str) -> Json:
    """Encode a text or content blocks; null for one that says nothing. what: names it in an error."""
    if isinstance(given, str):
        return to_json(given, what=what) if given.strip() else NULL
    blocks = without_blanks(cast("Sequence[Mapping[str, object]]", given))
    return to_json(blocks, what=what) if blocks else NULL


def prompt_for(agent: Agent, prompt: object) -> Json:
    """Encode the prompt of an agent: of a value of its contract, the text. Raises InvalidPrompt."""
    contract = agent.contract if isinstance(agent, Agent) else None
    if contract is not None and not isinstance(prompt, str | Sequence | Json):
        prompt = contract.prompt(prompt)
    return prompt_json(prompt)


def limits_of(limits: Limits | None) -> Limits:
    """Return the given limits, or empty ones. Raises MisuseError for any other object."""
    if limits is not None and not isinstance(limits, Limits):
        raise MisuseError(f"limits={limits!r}: use Limits(...), for example Limits(tokens=50_000)")
    return limits or Limits()


def checked_name(what: str, name: str) -> str:
    """Return a session or request id that a log and a command line can hold. Raises MisuseError."""
    if not isinstance(name, str) or len(name) > NAME_CHARS_MAX or not (name.isprintable() or not name):
        raise MisuseError(f"{what}={name!r:.80}: use up to {NAME_CHARS_MAX} printable characters")
    return name


def refuse_unpriced(model: str, *limits: Limits) -> None:
    """Refuse cost limits for a model without known prices. model: empty if all have prices."""
    if model and any(one.cost_usd is not None for one in limits):
        raise MisuseError(
            f"a cost limit is set, and the prices of model {model!r} are not known; "
            "pass prices=Prices(...) to the model, or limit tokens instead"
        )
