"""A session that can be simulated: agents, model replies, tool results and the prompts of the client.

A scenario is a value: any number of worlds are made of it, and each starts alike. The functions in it must be
pure for a run to be replayed; nothing here can reach a model or a file.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.addresses import CLIENT, HOST, SUPERVISOR
from callboard.actors.protocol.client_messages import RULES, Ask, Cancel, Resumed, SessionOpened, Tell
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.failures import PASSING, FailureKind
from callboard.actors.protocol.histories import HandedHistory
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.layers import Layers
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallTool,
    CheckSchema,
    RequestApproval,
    RequestBudget,
    SchemaChecked,
    ToolReturned,
)
from callboard.actors.protocol.profiles import (
    Approval,
    ContextPlace,
    ModelSpec,
    OnFinish,
    Prices,
    Profile,
    ToolsChange,
    ToolSpec,
)
from callboard.actors.protocol.shared_state import StateKey
from callboard.actors.protocol.value_types import SchemaProblem
from callboard.actors.session.contexts import ContextRequest
from callboard.actors.session.step import ActorState, initial, step
from callboard.replay.testing.sessions.faults import NO_FAULTS, Faults
from callboard.replay.testing.sessions.names import Names
from callboard.replay.testing.sessions.scripted_replies import Policy

START_MS = 1_767_225_600_000
"""When every simulated session starts: the first moment of 2026, UTC."""

NO_LIMITS = Limits()
RESUMED = Resumed(RULES)
SCRIPTED = ModelSpec("scripted")
PROGRAM = ModelSpec("program", kind="program")
ANY_OBJECT = Json(b'{"type":"object"}')

Tool: TypeAlias = Callable[[str, CallTool], ToolReturned]
"""Returns a tool's answer to the agent of an address. May raise, which the model is told."""

StatefulTool: TypeAlias = Callable[[str, CallTool, Mapping[str, object]], ToolReturned]
"""Returns a tool's answer to the agent of an address, with the shared state as of its call."""

ProcessTools: TypeAlias = Callable[[str, str, CallTool, Mapping[str, object]], ToolReturned]
"""Returns a tool's answer to the agent of an address and a profile, with the shared state as of its call.

It may keep what the tools of one process set, as tools that change tools do.
"""

Check: TypeAlias = Callable[[CheckSchema], SchemaChecked]
"""Returns the answer of the schema port."""

Context: TypeAlias = Callable[[ContextRequest], str | list[dict[str, object]] | HandedHistory | None]
"""Returns the context of a delegation: a content, or messages. May raise, which ends the delegation."""

Other: TypeAlias = Callable[[Event], Post]
"""Answers a request to a port that none of the functions above stands for."""

Approve: TypeAlias = Callable[[str, RequestApproval], ApprovalGiven]
"""Returns a person's answer to the agent of an address."""


def did(address: str, call: CallTool) -> ToolReturned:
    """Answer as a tool that does nothing and says that it did."""
    return ToolReturned(call.turn, call.call, "ok", text_json(f"did {call.tool}"))


def counted(view: ContextRequest) -> str:
    """Return a context that tells how long the parent's conversation is."""
    return f"{view.parent} has {len(view.messages)} messages"


def approves(address: str, request: RequestApproval) -> ApprovalGiven:
    """Approve every call, and give each that asks for input some."""
    given = ApprovalGiven(request.turn, request.call, "approved", is_repeat=request.is_repeat)
    if not request.round:
        return given
    return replace(given, round=request.round, values=Json(b'{"form":{"n":%d}}' % request.round))


def check_required(request: CheckSchema) -> SchemaChecked:
    """Check only `required` and unknown names, as a schema port small enough to see through.

    It refuses the schema `{"bad": ...}`.
    """
    schema = msgspec.json.decode(request.schema)
    if request.task == "accept":
        problems = [SchemaProblem("/bad", "is not allowed")] if "bad" in schema else []
    else:
        value = msgspec.json.decode(request.value)
        problems = [
            SchemaProblem(f"/{name}", "is missing")
            for name in schema.get("required", [])
            if not isinstance(value, dict) or name not in value
        ]
        if schema.get("additionalProperties") is False and isinstance(value, dict):
            unknown = [name for name in value if name not in schema.get("properties", {})]
            problems += [SchemaProblem(f"/{name}", "is unknown") for name in unknown]
    return SchemaChecked(request.check, "invalid" if problems else "ok", tuple(problems))


def never(asked: RequestBudget) -> bool:
    """Have room for every call."""
    return False


def ask(prompt: str = "go", schema: object = None, limits: Limits = NO_LIMITS, request_id: str = "r1") -> Ask:
    """Make a prompt for the host. schema: of its answer, as a dict; None for text."""
    raw = NULL if schema is None else Json(msgspec.json.encode(schema))
    return Ask(request_id, text_json(prompt), raw, limits)


def tell(text: str = "hurry", address: str = HOST, request_id: str = "t1") -> Tell:
    """Make words of the client for an agent."""
    return Tell(request_id, address, text)


def tool_spec(name: str, effect: Effect = "read", approval: Approval = "never") -> ToolSpec:
    """Describe a tool that takes any object."""
    return ToolSpec(name, name, ANY_OBJECT, effect, approval=approval)


def _effects(
    tools: Sequence[str], writes: Sequence[str], repeats: Sequence[str], asks: Sequence[str]
) -> dict[str, Effect]:
    """Return the effect of each tool."""
    effects: dict[str, Effect] = dict.fromkeys(tools, "read")
    effects |= dict.fromkeys(writes, "write")
    effects |= dict.fromkeys(repeats, "idempotent")
    return effects | {one: effects.get(one, "write") for one in asks}


def profile(
    name: str,
    agents: Sequence[str] = (),
    tools: Sequence[str] = (),
    *,
    writes: Sequence[str] = (),
    repeats: Sequence[str] = (),
    asks: Sequence[str] = (),
    limits: Limits = NO_LIMITS,
    schema: object = None,
    output_type: str = "",
    context: str = "",
    context_in: ContextPlace = "message",
    prices: Prices | None = None,
    max_tokens: int = 100,
    background: bool = False,
    on_finish: OnFinish = "wait",
    inline_tools: bool = False,
    fallback: Sequence[ModelSpec] = (),
    fallback_on: Sequence[FailureKind] = PASSING,
) -> Profile:
    """Return an agent's profile. output_type: the name of the type that its schema was made of.

    fallback: the models that it asks after failures of these kinds.
    context: any name, for an agent that begins with a context. context_in: its place.

    tools, writes, repeats: names of its read, write and idempotent tools. asks: those that wait for a
    person's approval before each call; one that is in no other list is a write tool.
    """
    effects = _effects(tools, writes, repeats, asks)
    specs = [tool_spec(one, effect, "always" if one in asks else "never") for one, effect in effects.items()]
    return Profile(
        name,
        f"the {name}",
        text_json(f"You are {name}."),
        tuple(specs),
        agents=tuple(agents),
        schema=NULL if schema is None else Json(msgspec.json.encode(schema)),
        limits=limits,
        model=replace(
            ModelSpec("scripted", max_tokens, prices=prices, inline_tools=inline_tools),
            fallback=tuple(fallback),
            fallback_on=tuple(fallback_on) if fallback else (),
        ),
        output_type=output_type,
        background=background,
        on_finish=on_finish,
        context=context,
        context_in=context_in,
    )


def program_profile(
    name: str,
    agents: Sequence[str] = (),
    tools: Sequence[str] = (),
    *,
    writes: Sequence[str] = (),
    asks: Sequence[str] = (),
    limits: Limits = NO_LIMITS,
    schema: object = None,
    models: Sequence[ModelSpec] = (),
    default_model: ModelSpec | None = None,
) -> Profile:
    """Return the profile of a scripted program; the arguments are those of `profile`.

    models: those that it may ask by name. default_model: of its other questions; None to inherit it.
    """
    made = profile(name, agents, tools, writes=writes, asks=asks, limits=limits, schema=schema)
    return replace(made, turns="any", model=PROGRAM, models=tuple(models), default_model=default_model)


@dataclass(frozen=True)
class Scenario:
    """A session to simulate."""

    profiles: Sequence[Profile]  # the host first
    policy: Policy
    asks: Sequence[Ask] = ()  # one after the other's outcome
    limits: Limits = NO_LIMITS
    tool: Tool = did
    check: Check = check_required
    approve: Approve = approves
    context: Context = counted  # for agents whose profile names a context
    model: ModelSpec = SCRIPTED
    closes: bool = False  # whether the client closes the session in the end
    reopens: bool = False  # whether the client closes it before each further ask, and opens it again
    resumed: Resumed = RESUMED  # what each further process says: new limits, more time, time left out
    faults: Faults = NO_FAULTS
    changes: Sequence[ToolsChange] = ()  # tools that the client sets, at any time
    state: Sequence[StateKey] = ()  # the keys of the shared state
    stateful: StatefulTool | None = None  # instead of `tool`
    process_tools: Callable[[], ProcessTools] | None = None  # instead of both: makes those of each process
    capacity: Sequence[str] = ()  # the names of the models that the runtime limits
    scopes: Sequence[str] = ()  # the budgets above the session
    refuses: Callable[[RequestBudget], bool] = never  # the calls for which these have no room
    others: Mapping[type, Other] = field(default_factory=dict)  # for further kinds of port requests
    tells: Sequence[Tell | Cancel] = ()  # the client's words for agents and cancels of them, each at any time
    tells_after: Mapping[str, str] = field(default_factory=dict)  # by id, the `moment_name` they come with
    is_uncontended: bool = False  # whether every schedule without faults leads to the same outcomes
    permissions: Layers = ()  # of the session
    expects: Sequence[OutcomeKind] = ()  # the kinds of these outcomes, where they are known
    rules: int = RULES  # by which its sessions live
    setup: Callable[[], object] | None = None  # called before each run, for code that keeps state

    @cached_property
    def names(self) -> Names:
        """Return the names of moves, kept for all runs."""
        return Names()

    @cached_property
    def has_news(self) -> bool:
        """Return whether its agents may hear ends of background tasks, or words, while they work."""
        return bool(self.tells or self.resumed.profiles or any(one.background for one in self.profiles))

    @cached_property
    def first(self) -> SessionOpened:
        """Return the client's first message."""
        raw = tuple(Json(encode(one)) for one in self.profiles)
        host, limited = self.profiles[0], tuple(self.capacity)
        model, state = host.model_below(self.model), tuple(self.state)
        return SessionOpened(
            self.rules,
            host.name,
            raw,
            model,
            self.limits,
            capacity=limited,
            state=state,
            permissions=self.permissions,
            scopes=tuple(self.scopes),
        )

    @cached_property
    def opened(self) -> tuple[Event, ActorState]:
        """Return the first event and the supervisor's state after it, made once for all runs."""
        event = Event(1, START_MS, CLIENT, SUPERVISOR, 0, self.first)
        state, posts = step(initial(SUPERVISOR), event)
        assert not posts
        return event, state
