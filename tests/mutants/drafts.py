"""A session in the making, to which features add their pieces.

Its main agent is the host, or stands below a program or an orchestrator. The session may be forked.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from msgspec.structs import replace as with_values

from callboard.actors.protocol.bundles import Bundle
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.layers import Layers
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.actors.protocol.profiles import Profile, ToolSpec
from callboard.actors.protocol.prompts import REPORT_BACK, TASK, TASK_CANCEL, TASK_WAIT
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.value_types import Effects
from callboard.actors.session.capacity import Capacity
from callboard.actors.session.fork_plan import Place, calls_of
from callboard.actors.session.recorded_answers import OF_MODEL
from callboard.replay.testing.sessions.faults import NO_FAULTS, Faults
from callboard.replay.testing.sessions.fork_world import Fork
from callboard.replay.testing.sessions.scenario import (
    SCRIPTED,
    Scenario,
    ask,
    did,
    profile,
    program_profile,
    tool_spec,
)
from callboard.replay.testing.sessions.scripted_replies import (
    Asked,
    Reply,
    Use,
    calls,
    program,
    question,
    task,
)
from tests.mutants.scenarios_contracts import GOOD as FOUND
from tests.mutants.scenarios_forks import recorded
from tests.mutants.scenarios_orchestrators import CHINESE, orchestrated
from tests.mutants.scenarios_programs import Running, everything
from tests.mutants.scripts import DONE, LOOK

Wanted: TypeAlias = Use | Callable[[ModelRequest], Use]
"""A call of the main agent; made of its request where it names the agent's own tasks."""

Result: TypeAlias = Callable[[str, CallTool], ToolReturned]
State: TypeAlias = Mapping[str, object]
More: TypeAlias = Callable[[str, CallTool, State, ToolReturned], ToolReturned]
"""Adds to the result of any tool."""

Shape: TypeAlias = Callable[["Draft", Scenario], Scenario]


@dataclass
class Draft:
    """A session in the making.

    main: the name of the main agent. top: of the program above it. turns: the calls of the main agent, turn
    by turn. last: its replies after those. profiles, lines: of further agents. results: by tool, of those
    that have one of their own. more: adds to the result of every tool. own, model, bundle: limits, fields of
    the model and rights of the main agent. failing: return a reply instead of that of the
    script, None for that one. prompts: the number of asks. fields: of the scenario. shapes: add agents above
    the main one. fork: the way in which the session is forked.
    """

    main: str = "host"
    top: str = "host"
    turns: list[list[Wanted]] = field(default_factory=lambda: [[LOOK, task("kid")], [LOOK], [task("kid")]])
    last: list[Reply] = field(default_factory=lambda: [DONE])
    profiles: list[Profile] = field(default_factory=list)
    lines: dict[str, list[Reply]] = field(default_factory=dict)
    tools: list[ToolSpec] = field(default_factory=lambda: [tool_spec("look")])
    results: dict[str, Result] = field(default_factory=dict)
    more: list[More] = field(default_factory=list)
    own: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    bundle: Bundle = field(default_factory=Bundle)
    is_background: bool = False
    failing: list[Callable[[ModelRequest], Reply | None]] = field(default_factory=list)
    layers: Layers = ()
    schema: object = None
    prompts: int = 1
    ask_limits: dict[str, Any] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)
    shapes: list[Shape] = field(default_factory=list)
    capacity: Mapping[str, Capacity] = field(default_factory=dict)
    fork: dict[str, Any] = field(default_factory=dict)

    # --- agents ---------------------------------------------------------------------

    def main_profile(self) -> Profile:
        """Return the profile of the main agent."""
        return self.equipped(
            profile(
                self.main,
                ["kid", *(one.name for one in self.profiles)],
                background=self.is_background,
                limits=Limits(**self.own),
            )
        )

    def equipped(self, who: Profile) -> Profile:
        """Give an agent the tools, the model and the rights of the draft."""
        model = with_values(who.model or SCRIPTED, **self.model)
        return with_values(who, tools=tuple(self.tools), model=model, permissions=self.bundle)

    def people(self) -> list[Profile]:
        """Return all agents, the main one first."""
        kid = with_values(self.equipped(profile("kid")), permissions=Bundle())
        return [self.main_profile(), kid, *self.profiles]

    def policy(self, request: ModelRequest) -> Reply:
        """Return the reply of a model."""
        for failure in self.failing:
            if (reply := failure(request)) is not None:
                return reply
        if request.profile == self.main:
            return self.main_reply(request)
        if request.profile == "kid":
            return calls(*self.of_tools()) if request.turn == 1 else DONE
        lines = self.lines.get(request.profile, [])
        return lines[request.turn - 1] if request.turn <= len(lines) else DONE

    def main_reply(self, request: ModelRequest) -> Reply:
        """Return the reply of the main agent."""
        turn = request.turn - 1
        if self.prompts > 1:
            turn %= len(self.turns) + len(self.last)
        if turn >= len(self.turns):
            return self.last[min(turn - len(self.turns), len(self.last) - 1)]
        return calls(*(one(request) if callable(one) else one for one in self.turns[turn]))

    def of_tools(self) -> list[Use]:
        """Return one call of each tool, as children make it."""
        names = {spec.name for spec in self.tools}
        every = [one for turn in self.turns for one in turn if not callable(one)]
        return list({name: (name, given) for name, given in every if name in names}.values())

    # --- tools ----------------------------------------------------------------------

    def run(self, who: str, call: CallTool, state: State | None = None) -> ToolReturned:
        """Return the result of a tool."""
        make = self.results.get(call.tool)
        body = (make or did)(who, call)
        for change in self.more:
            body = change(who, call, state or {}, body)
        return body

    # --- the session ----------------------------------------------------------------

    def scenario(self, chosen: Faults) -> Scenario:
        """Build the session."""
        asks = [
            ask(schema=self.schema, limits=Limits(**self.ask_limits), request_id=f"r{number + 1}")
            for number in range(self.prompts)
        ]
        made = Scenario(self.people(), self.policy, asks, Limits(**self.limits), **self.outside(chosen))
        for shape in self.shapes:
            made = shape(self, made)
        return made

    def outside(self, chosen: Faults) -> dict[str, Any]:
        """Return the fields of a scenario that its agents do not determine."""
        has_state = bool(self.fields.get("state"))
        run = {"stateful": self.run} if has_state else {"tool": self.run}
        return {**run, "permissions": self.layers, "faults": chosen, **self.fields}


# --- shapes --------------------------------------------------------------------------


def of_program(draft: Draft, made: Scenario) -> Scenario:
    """Let a program use the tools and agents of the main agent, and delegate to that one."""
    main, *others = made.profiles
    host = program_profile(draft.top, [main.name, *main.agents], limits=main.limits)
    host = with_values(host, tools=main.tools, permissions=main.permissions)
    script = program(lambda prompt: _program(draft))

    def policy(request: ModelRequest) -> Reply:
        return script(request) if request.profile == draft.top else draft.policy(request)

    # Its ask ends with the value of the program.
    asks = [with_values(one, schema=NULL) for one in made.asks]
    return replace(made, profiles=[host, main, *others], policy=policy, asks=asks)


def _program(draft: Draft) -> Running:
    first, second = draft.turns[0], draft.turns[1]
    asked = [_as_ask(f"a{at}", one) for at, one in enumerate(first) if not callable(one)]
    main = Asked("main", TASK, {"agent": draft.main, "prompt": "work"})
    yield from everything(main, *(one for one in asked if one), question("q"))
    more = [_as_ask(f"b{at}", one) for at, one in enumerate(second) if not callable(one)]
    got = yield from everything(*(one for one in more if one))
    return str(got)


def _as_ask(id: str, use: Use) -> Asked | None:
    """Return a call as the ask of a program; None for one that programs do not have."""
    name, given = use
    assert isinstance(given, Mapping)
    if name == FOUND[0]:
        return Asked(id, TASK, {"agent": name, "input": given})
    if name in (TASK_WAIT, TASK_CANCEL, REPORT_BACK) or (name == TASK and "background" in given):
        return None
    return Asked(id, name, given)


def of_orchestrator(draft: Draft, made: Scenario) -> Scenario:
    """Let the main agent, or the program above it, be a specialist of an orchestrator."""
    whole = orchestrated(CHINESE, "sequential").scenario
    top, *others = made.profiles
    specialists = [_with_work_of(top, one) if one.name == top.name else one for one in whole.profiles]
    names = {one.name for one in specialists} - {top.name}

    def policy(request: ModelRequest) -> Reply:
        is_over = request.profile == top.name and top.turns != "any" and request.turn > len(draft.turns)
        return (whole if is_over or request.profile in names else made).policy(request)

    asks = [with_values(whole.asks[0], request_id=one.request_id, limits=one.limits) for one in made.asks]
    return replace(made, profiles=[*specialists, *others], policy=policy, asks=asks, model=whole.model)


def _with_work_of(top: Profile, specialist: Profile) -> Profile:
    """Return a specialist that works as another agent does."""
    names = ("tools", "agents", "background", "model", "models", "limits", "permissions", "turns")
    return with_values(specialist, **{name: getattr(top, name) for name in names})


def forked(draft: Draft, chosen: Faults) -> Fork:
    """Build a fork of one run of the session without faults."""
    calm = replace(draft.scenario(NO_FAULTS), capacity=tuple(draft.capacity))
    log = recorded(calm)
    base = len(log) // 3 if draft.fork.get("base") else None
    changes: dict[Place, Json] = {}
    if draft.fork.get("changes"):
        first = next(one for one in calls_of(log) if one[2] != OF_MODEL)
        changes, base = {first: text_json("other")}, 2 if base else None
    effects: Effects = draft.fork.get("effects", "recorded")
    return Fork(replace(calm, faults=chosen), log, base, changes, effects)
