"""The ports of a simulated session: pure functions, made from agents as users write them.

    policy    a function of the request, a script, or a dict of these: anything for `ScriptedModel`, or a
              `ScriptedModel` itself. Agents with a model of their own use that.
    tools     fakes by name: functions of the call's arguments. Without one a `read` tool runs for real, and
              any other is not run and says so. A `Tool` that no agent has is one that its servers list.

A policy or tool that does not answer at once is refused, since a simulation has no time.
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Final, Literal, TypeAlias, TypeGuard

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.errors import InvalidPrompt, InvalidState, MisuseError
from callboard.actors.protocol.histories import HandedHistory
from callboard.actors.protocol.immutable import NULL, Json, JsonObject
from callboard.actors.protocol.limits import DEFAULTS
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallTool,
    CheckSchema,
    RequestApproval,
    SchemaChecked,
    ToolReturned,
)
from callboard.actors.protocol.profiles import ToolsChange
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.value_types import ModelFailure
from callboard.actors.session.contexts import ContextRequest
from callboard.replay.testing.agents.remarks import ReadWatch
from callboard.replay.testing.sessions.scenario import Approve as PureApprove
from callboard.replay.testing.sessions.scenario import Check, ProcessTools, Scenario
from callboard.replay.testing.sessions.scenario import Context as PureContext
from callboard.replay.testing.sessions.scripted_replies import Policy as PurePolicy
from callboard.replay.testing.sessions.scripted_replies import Reply
from callboard.runtime.agent import Agent, roster
from callboard.runtime.approvals import ApprovalAnswer
from callboard.runtime.contexts import ReadableContext, made_context
from callboard.runtime.failure_text import located_text
from callboard.runtime.models.fallback import ModelChoice, models_of
from callboard.runtime.models.function import FunctionModel
from callboard.runtime.models.protocol import DivergedAnswer, Model, ModelAnswer
from callboard.runtime.models.scripted import Policy, ScriptedModel, Steps
from callboard.runtime.outputs.outcomes import unified_outcome
from callboard.runtime.outputs.tool_output import ToolOutput
from callboard.runtime.ports.tool_port import with_use
from callboard.runtime.programs.model import ProgramModel
from callboard.runtime.sanitize import check_json, to_json
from callboard.runtime.schemas.engine import Engine
from callboard.runtime.schemas.validators import validated
from callboard.runtime.secrets.registry import NO_SECRETS
from callboard.runtime.sessions.session_tools import SessionTools
from callboard.runtime.sessions.session_types import SessionTypes
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.input_forms import InputNeeded, checked_values
from callboard.runtime.tools.output import ToolOutcome, describe, failed, returned, trace_of
from callboard.runtime.tools.shared_state import declared
from callboard.runtime.tools.tool import Tool

Script: TypeAlias = Policy | Steps | Mapping[str, Steps | Policy] | Model
"""The replies of the models."""

Fakes: TypeAlias = Mapping[str, Callable[..., object] | Tool]
"""The stand-ins for tools, by name: functions of the call's arguments, or tools that a server would list."""

Decision: TypeAlias = ApprovalAnswer | bool | str
"""A person's decision: True approves; False, or a reason, denies; an `ApprovalAnswer` says all of it."""

Approver: TypeAlias = Callable[[str, RequestApproval], Decision | Awaitable[Decision]]
"""Returns a person's decision for the agent of an address."""

KEPT_CHECKS: Final = 10_000

_NO_LOOP: Final = re.compile("no (running|current) event loop|not in async context|no async backend", re.I)
"""The errors of asyncio, sniffio and anyio if no loop runs."""

_POLICY: Final = "give a policy that answers at once"
_ANSWER: Final = "give a function that answers at once"

_NOT_RUN: Final = "was not run: this is a simulation, and no fake stands in for it"


def scenario_of(
    host: Agent,
    policy: Script | None,
    tools: Fakes | None,
    approve: Approver | None,
    types: SessionTypes,
    watch: ReadWatch,
) -> Scenario:
    """Return all agents that a host can reach, as a scenario in which nothing is asked yet."""
    agents = _with_listed(roster(host), tools)
    model = _model(host, policy)
    return Scenario(
        [agent.profile() for agent in agents.values()],
        policy_of([*models_of(model), *(own for agent in agents.values() for own in agent.all_models)]),
        process_tools=tools_of(agents, tools or {}, watch),
        state=declared({name: agent.state for name, agent in agents.items()}),
        check=checker(types),
        approve=approve_of(approve),
        context=context_of(agents),
        model=model.spec,
    )


def _model(host: Agent, policy: Script | None) -> ModelChoice:
    """Return the model of all agents without one of their own."""
    if policy is None:
        if host.model is None:
            raise MisuseError(
                f"no policy for {host.name!r}: give a function of the request, a script, or a ScriptedModel"
            )
        return host.model
    if _is_model(policy):
        return policy
    return ScriptedModel(policy)  # type: ignore[arg-type]  # a script, or refused there


def _is_model(policy: Script) -> TypeGuard[Model]:
    return hasattr(policy, "spec") and hasattr(policy, "call")


def policy_of(models: Sequence[Model]) -> PurePolicy:
    """Return the policy of a session's models, each for the requests that name it."""
    known = {
        model.spec.name: model.simulated if isinstance(model, ProgramModel) else model for model in models
    }

    def says(request: ModelRequest) -> Reply:
        model = known.get(request.model.name)
        if model is None:
            return Reply(failure=ModelFailure("unknown_model", f"there is no model {request.model.name!r}"))
        return _called(model, request)

    return says


def _called(model: Model, request: ModelRequest) -> Reply:
    """Return a model's reply; a model that raises fails as at the live port, with the place in its code."""
    try:
        given = (
            model.at_once(request)
            if isinstance(model, FunctionModel)
            else model.call(request, lambda piece: None)
        )
        return _says(_at_once(given, "the model", _POLICY), request)
    except MisuseError:
        raise
    except Exception as error:
        return Reply(failure=ModelFailure("model_crashed", located_text(error)), usage=None)


def _says(answer: object, request: ModelRequest) -> Reply:
    if not isinstance(answer, ModelAnswer):
        raise MisuseError(f"a model answers with a ModelAnswer, not {type(answer).__name__}")
    if answer.failure is not None:
        if isinstance(answer, DivergedAnswer):  # every step executes the ones before it again
            who = f"the program {request.profile!r} ({request.address})"
            raise MisuseError(f"{who} does not repeat its steps: {answer.failure.message}")
        if answer.failure.code == "script_error":
            if _NO_LOOP.search(answer.failure.message):
                raise _waits("the model", _POLICY)
            raise MisuseError(answer.failure.message)
        return Reply(failure=answer.failure, usage=answer.usage)
    content = bytes(check_json(bytes(answer.content)))
    return Reply(content=content, stop_reason=answer.stop_reason, usage=answer.usage)


def _at_once(value: object, who: str, instead: str) -> object:
    """Return the result of an async function that never waits. Raises MisuseError if it waits."""
    if not inspect.isawaitable(value):
        return value
    work: Iterator[object] = value.__await__()
    try:
        next(work)
    except StopIteration as end:
        return end.value
    except RuntimeError as error:  # asyncio fails before it can wait, since no loop runs
        if not _wants_a_loop(error):
            raise
    finally:
        if callable(close := getattr(work, "close", None)):
            close()
    raise _waits(who, instead)


def _waits(who: str, instead: str) -> MisuseError:
    return MisuseError(f"{who} waits for something; a simulation has no time: {instead}")


def _wants_a_loop(error: BaseException | None) -> bool:
    """Return whether asyncio (or a library on top of it) was called without a loop."""
    while error is not None:
        if _NO_LOOP.search(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


# --- contexts -----------------------------------------------------------------------


def context_of(agents: Mapping[str, Agent]) -> PureContext:
    """Return a function that makes the contexts of these agents, by their own functions."""

    def made(view: ContextRequest) -> HandedHistory:
        agent = agents[view.profile]
        assert agent.context is not None  # its profile names a function
        given = _at_once(agent.context(ReadableContext.of(view)), "a context function", _ANSWER)
        try:
            return made_context(given, agent.context_in)
        except InvalidPrompt as error:  # as at the live port: it ends the delegation, not the simulation
            raise ValueError(str(error)) from None

    return made


# --- tools --------------------------------------------------------------------------


def setup_of(setup: Callable[[], object] | None, watch: ReadWatch) -> Callable[[], object] | None:
    """Return the function to call before each run. Raises MisuseError for another object."""
    if setup is not None and not callable(setup):
        raise MisuseError(f"setup={setup!r:.80}: give a function without arguments")
    if setup is None:
        return watch.found.clear if watch.is_on else None

    def begins() -> None:
        watch.found.clear()
        _at_once(setup(), "setup", _ANSWER)

    return begins


def _with_listed(agents: Mapping[str, Agent], fakes: Fakes | None) -> Mapping[str, Agent]:
    """Return the agents; those with servers have the tools that stand for listed ones. Raises MisuseError."""
    asking = next((one for one in agents.values() if one.sources), None)
    if asking and fakes is None:  # else all their calls would fail, and a campaign be green about nothing
        raise MisuseError(
            f"agent {asking.name!r} has the tools of {asking.sources[0].label!r}, and a simulation asks no "
            "server: give the tools that are called, tools={NAME: a function with @tool}, or none, tools={}"
        )
    own = {tool.name for agent in agents.values() for tool in agent.all_tools}
    listed = [one for name, one in (fakes or {}).items() if isinstance(one, Tool) and name not in own]
    return {name: one.with_tools(listed) if one.sources else one for name, one in agents.items()}


def tools_of(agents: Mapping[str, Agent], fakes: Fakes, watch: ReadWatch) -> Callable[[], ProcessTools]:
    """Return a function that makes the tools of a process. Raises MisuseError for a wrong fake."""
    tools = {one.name: one for agent in agents.values() for one in agent.all_tools}
    if unknown := sorted(set(fakes) - set(tools)):
        raise MisuseError(f"no agent has a tool {unknown[0]!r}; tools: {', '.join(sorted(tools)) or 'none'}")
    for name, fake in fakes.items():
        if not callable(fake) and fake is not tools[name]:
            raise MisuseError(f"the fake of tool {name!r} is {fake!r}: {_fake_for(name)}")
    return lambda: partial(_answered, SessionTools(agents), fakes, watch)


def _answered(
    tools: SessionTools,
    fakes: Fakes,
    watch: ReadWatch,
    address: str,
    profile: str,
    call: CallTool,
    state: Mapping[str, object],
) -> ToolReturned:
    """Return the answer of a session's tool to the agent of an address and a profile."""

    def change(wanted: Sequence[object], agent: str) -> ToolsChange:
        # As at the live port: without a profile it is a change for this agent alone.
        return tools.change(wanted, address="" if agent else address, agent=agent, of=profile)

    try:
        tool = tools.find(address, profile, call.tool)
    except Exception as error:  # of the factory of the agent
        return ToolReturned(call.turn, call.call, "error", text_json(describe(error)))
    if tool is None:
        return ToolReturned(call.turn, call.call, "error", text_json(f"there is no tool {call.tool!r}"))
    fake, context = fakes.get(call.tool), _context(address, call, state, watch, change)
    with watch.writes_of(tool, fake):
        outcome = _used(tool, fake, context, call)
    if watch.reads_twice and fake is None and tool.effect == "read":
        again = _used(tool, fake, _context(address, call, state, watch, change), call)
        watch.compare(tool.name, outcome, again)
    result = (outcome.status, outcome.output, outcome.trace)
    returned = ToolReturned(call.turn, call.call, *result, asked=outcome.asked)
    return with_use(returned, context) if context.is_used else returned


def _context(
    address: str,
    call: CallTool,
    state: Mapping[str, object],
    watch: ReadWatch,
    change: Callable[[Sequence[object], str], ToolsChange],
) -> ToolContext:
    made = ToolContext(
        address=address,
        tool=call.tool,
        call_id=call.id,
        idempotency_key=f"simulated/{address}/{call.turn}/{call.call}",
        given=call.given,
        shared=state,
        toolbox=change,
    )
    if (files := watch.files_for(call.tool, made.access)) is not None:
        made.files = files
    return made


def _fake_for(name: str) -> str:
    return f"give a fake, tools={{{name!r}: a function of the call's arguments that answers at once}}"


def _used(
    tool: Tool, fake: Callable[..., object] | Tool | None, context: ToolContext, call: CallTool
) -> ToolOutcome:
    most = DEFAULTS.max_tool_output_chars or 0
    try:
        bound = tool.bind(call.arguments, context)
    except InvalidPrompt as error:
        return failed(str(error), most)
    if fake is None and tool.effect != "read":  # a campaign would repeat its effect thousands of times
        return ToolOutcome("ok", text_json(f"{tool.name} {_NOT_RUN}"))
    try:
        arguments = msgspec.json.decode(call.arguments, type=JsonObject)
        value = fake(**arguments) if fake is not tool and callable(fake) else bound()
        found = _at_once(value, f"tool {tool.name}", _fake_for(tool.name))
        if isinstance(found, ToolOutput):
            return replace(unified_outcome(found, context, most, tool.output), telemetry=None)
        return returned(found, most)
    except MisuseError as error:
        if isinstance(error, InvalidState):  # as at the live port: the model reads it
            return failed(describe(error), most)
        raise
    except InputNeeded as needed:
        return ToolOutcome("input_required", text_json(str(needed)), asked=needed.asked)
    except Exception as error:
        return replace(failed(describe(error), most), trace=trace_of(error, NO_SECRETS.redactor))


# --- the schema port, a person --------------------------------------------------------


def checker(types: SessionTypes) -> Check:
    """Return the check of a live session, without its worker: each schema and value is checked once."""
    engine = Engine()

    @lru_cache(KEPT_CHECKS)
    def answer_of(
        task: Literal["accept", "report"], schema: bytes, value: bytes, output_type: str
    ) -> SchemaChecked:
        request = CheckSchema(0, task, Json(schema), Json(value), output_type=output_type)
        answer = engine.check(request)
        kind = types.find(output_type, request.schema)
        if answer.status != "ok" or kind is None:
            return answer
        return validated(request, kind, NO_SECRETS.redactor)

    def check(request: CheckSchema) -> SchemaChecked:
        answer = answer_of(request.task, bytes(request.schema), bytes(request.value), request.output_type)
        return SchemaChecked(request.check, answer.status, answer.problems)

    return check


def approve_of(approver: Approver | None) -> PureApprove:
    """Return a function that answers for a person; without one every call is approved."""

    def approve(address: str, request: RequestApproval) -> ApprovalGiven:
        said = _decided(approver, address, request)
        return ApprovalGiven(
            request.turn,
            request.call,
            "approved" if said.is_approved else "denied",
            said.note,
            is_repeat=request.is_repeat,
            by=said.by,
            arguments=NULL if said.arguments is None else to_json(dict(said.arguments)),
            is_always=said.is_always,
            round=request.round,
            values=checked_values(request.form, said.values) if request.round and said.is_approved else NULL,
        )

    return approve


def _decided(approver: Approver | None, address: str, request: RequestApproval) -> ApprovalAnswer:
    said = True if approver is None else _at_once(approver(address, request), "approve", _ANSWER)
    if isinstance(said, ApprovalAnswer):
        return said
    return ApprovalAnswer(said is True, said if isinstance(said, str) else "")
