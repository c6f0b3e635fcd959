"""The answers of scripted ports: of a policy for the model, of functions for tools and schema checks.

A port answers as a live one does: a policy that raises is a failed call, a tool that raises an error that the
model reads. A fault makes another answer, one that the boundary would not refuse.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeVar

from msgspec.structs import replace

from callboard.actors.protocol import prompts
from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.file_versions import FileVersion
from callboard.actors.protocol.histories import HandedHistory
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.labels import united
from callboard.actors.protocol.layers import Layers
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    BudgetGiven,
    CallModel,
    CallTool,
    CheckSchema,
    ContextMade,
    MakeContext,
    ModelReplied,
    RequestApproval,
    RequestBudget,
    SchemaChecked,
    ToolReturned,
)
from callboard.actors.protocol.prompts import REPORT_BACK
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.protocol.uses import use_refusal
from callboard.actors.protocol.value_types import ModelFailure, SchemaProblem
from callboard.actors.session.contexts import ContextRequest
from callboard.actors.session.file_history import FileHistory
from callboard.actors.session.file_labels import FileLabels
from callboard.actors.session.port_gate import PortGate
from callboard.actors.session.port_table import owner_of
from callboard.actors.session.shared_state import NO_STATE, SharedState
from callboard.replay.testing.sessions.scenario import Scenario
from callboard.replay.testing.sessions.scripted_replies import Reply

T = TypeVar("T")

UNKNOWN_EFFECT: Final = text_json("It was cancelled while it ran; whether it had its effect is not known.")
UNCHECKED: Final = SchemaProblem("", "the check took too long")
HUGE_CHARS: Final = 50_000
"""The length to which the live tool port cuts an output if no limit says otherwise."""

SESSION_ID: Final = "simulated"
"""The id of every simulated session, in the origin of a result that is given again."""

FAILURES: Final = {
    "error": ModelFailure("invalid_request_error", "a fault"),
    "overloaded": ModelFailure("overloaded_error", "a fault", is_retryable=True),
    "timeout": ModelFailure("timeout", "a fault", is_retryable=True),
    "full": ModelFailure("context_full", "a fault"),
}
"""Faults that leave a model call without an answer."""

_NOT_A_REPORT: Final[dict[str, object]] = {"\u2400 no schema asks for this": True}


class Reach(NamedTuple):
    """The uses that a tool is permitted. rights: of its agent. files: the labels of the session's files.

    history: the versions of these files.
    """

    rights: Layers
    files: FileLabels
    history: FileHistory | None = None


_NO_REACH: Final = Reach((), FileLabels())


def reserved(scenario: Scenario, asked: RequestBudget) -> Post:
    """Return the answer of the budgets above the session."""
    call = (asked.agent, asked.turn, asked.attempt)
    if scenario.refuses(asked):
        first, need = scenario.scopes[0], asked.need.tokens
        return Post(
            SUPERVISOR, BudgetGiven(*call, "refused", scope=first, unit="tokens", limit=need, spent=1)
        )
    spans = tuple((scope, "") for scope in scenario.scopes)
    return Post(SUPERVISOR, BudgetGiven(*call, "given", spans=spans))


def _attempt(call: Callable[[], T], failed: Callable[[str], T]) -> T:
    """Call a scripted function; make the answer of `failed` from the text of an exception."""
    try:
        return call()
    except MisuseError:  # a function that cannot be simulated is not a port that failed
        raise
    except Exception as error:
        return failed(f"{type(error).__name__}: {error}")


def policy_reply(scenario: Scenario, request: ModelRequest) -> Reply:
    """Return the policy's reply; a policy that raises makes a failed call, as a live model does."""
    return _attempt(
        lambda: scenario.policy(request),
        lambda why: Reply(failure=ModelFailure("model_crashed", why[:500]), usage=None),
    )


def replied(request: ModelRequest, wish: TurnRequested, reply: Reply) -> Post:
    """Make a model's answer, as it goes into the log."""
    turn, attempt, agent = wish.turn, wish.attempt, request.address
    if reply.is_lost:
        return Post(agent, ModelReplied(turn, attempt, "lost"))
    usage = reply.used(wish.need, request.model.max_tokens)
    if reply.failure is not None:
        return Post(agent, ModelReplied(turn, attempt, "error", usage=usage, failure=reply.failure))
    return Post(agent, ModelReplied(turn, attempt, "ok", reply.blocks(turn), reply.stop_reason, usage))


def returned(
    scenario: Scenario,
    request: Event,
    call: CallTool,
    shared: SharedState = NO_STATE,
    reach: Reach = _NO_REACH,
    run: Callable[[], ToolReturned] | None = None,
) -> Post:
    """Make a tool's answer; a tool that raises makes an error that the model reads.

    shared: the shared state as of the call. An update that does not fit is an error, as at the live port.
    reach: of the agent. A use that its rights withhold is an error, and the uses after it do not happen.
    run: the tool, where it belongs to the process; None for that of the scenario.
    """
    stateful, who = scenario.stateful, request.sender
    if run is None:
        run = partial(scenario.tool, who, call)
        if stateful is not None:
            run = partial(stateful, who, call, shared.values())
    answer = _attempt(run, lambda why: _tool_error(call, why[:2_000]))
    if answer.status == "ok" and (why := shared.why_refused(answer.state_update)):
        answer = _tool_error(call, f"InvalidState: {why}")
    if answer.uses:
        answer = _confined(call, answer, reach)
    if answer.files and reach.history is not None:
        answer = _with_found(answer, reach.history)
    return Post(request.sender, answer)


def _with_found(answer: ToolReturned, history: FileHistory) -> ToolReturned:
    """Return an answer that names the file before each first write, as the live port does: there was none."""
    found = (FileVersion(one.path, is_found=True) for one in answer.files if history.now(one.path) is None)
    return replace(answer, files=(*found, *answer.files))


def _confined(call: CallTool, answer: ToolReturned, reach: Reach) -> ToolReturned:
    """Return an answer with the uses that the rights permit; an error if they withhold one.

    A read brings the labels of its file, and a write gives those of the call to it, as at the live port.
    """
    read, done, refusal = answer.labels, [], ""
    known = united(call.labels, read)
    for use in answer.uses:
        if refusal := use_refusal(reach.rights, use.entry, use.name, known):
            break
        if use.entry == "read":
            use = replace(use, labels=united(use.labels, reach.files.labels_of(use.name, use.digest)))
            read = united(read, use.labels)
        elif use.entry == "write":
            use = replace(use, labels=united(use.labels, known))
            reach.files.note(use.name, use.digest, use.labels)
        known = united(known, use.labels)  # those that a write states are its tool's, which had them before
        done.append(use)
    ended = _tool_error(call, refusal) if refusal else answer
    return replace(ended, uses=tuple(done), labels=read)


def checked(scenario: Scenario, check: CheckSchema, fault: str = "") -> Post:
    """Make the schema port's answer; a check that raises makes a `failed` one."""
    if fault == "unchecked":
        return Post(SUPERVISOR, SchemaChecked(check.check, "failed", (UNCHECKED,)))
    try:
        return Post(SUPERVISOR, scenario.check(check))
    except Exception as error:
        problem = SchemaProblem("", f"the check failed with {type(error).__name__}")
        return Post(SUPERVISOR, SchemaChecked(check.check, "failed", (problem,)))


def context_made(
    scenario: Scenario, wanted: MakeContext, view: ContextRequest | None, fault: str = ""
) -> Post:
    """Make the context port's answer. view: of the parent; None if the delegation has ended."""

    def failed(why: str) -> ContextMade:
        return ContextMade(wanted.parent, wanted.delegation, wanted.profile, "failed", detail=why[:500])

    def made(view: ContextRequest) -> ContextMade:
        if not has_context(scenario, wanted.profile):  # a factory has made it, and that is all
            return ContextMade(wanted.parent, wanted.delegation, wanted.profile)
        return context_of(wanted, scenario.context(view))

    if view is None or fault == "unmade":
        return Post(SUPERVISOR, failed(prompts.CONTEXT_UNWANTED if view is None else "a fault"))
    return Post(SUPERVISOR, _attempt(lambda: made(view), failed))


def context_of(
    wanted: MakeContext, made: str | list[dict[str, object]] | HandedHistory | None
) -> ContextMade:
    """Return the answer with a context that a script has made."""
    given = made if isinstance(made, HandedHistory) else HandedHistory(note=Json(encode(made)))
    about = (wanted.parent, wanted.delegation, wanted.profile)
    return ContextMade(
        *about, content=given.note, history=given.messages, makers=given.makers, repairs=given.repairs
    )


def has_context(scenario: Scenario, name: str) -> bool:
    """Return whether agents of this profile begin with a context."""
    return any(one.name == name and one.context for one in scenario.profiles)


def given(scenario: Scenario, request: Event, asked: RequestApproval, fault: str = "") -> Post:
    """Make a person's answer; one that raises is a denial, as at the live port."""

    def denied(note: str) -> ApprovalGiven:
        return ApprovalGiven(asked.turn, asked.call, "denied", note[:500], is_repeat=asked.is_repeat)

    said = denied("a fault")
    if fault != "denied":
        said = _attempt(lambda: scenario.approve(request.sender, asked), denied)
    # The round is the port's to state, so a script need not know of rounds.
    return Post(request.sender, replace(said, round=asked.round) if asked.round else said)


def given_up(request: Event, gate: PortGate) -> Post:
    """Make the answer to a call that was under way when its agent was stopped."""
    body = request.body
    if isinstance(body, CallModel | RunStep):  # without `usage`: it may have started, so that is unknown
        turn, attempt = gate.repeated_in(request)
        return Post(owner_of(request), ModelReplied(turn, attempt, "cancelled"))
    if isinstance(body, CallTool) and body.effect != "read":
        return Post(request.sender, ToolReturned(body.turn, body.call, "interrupted", UNKNOWN_EFFECT))
    return gate.cancelled(request)


# --- answers that a fault changes -------------------------------------------------


def faulty_reply(fault: str, reply: Reply) -> Reply:
    """Return the model's reply under this fault."""
    if fault in FAILURES:
        return Reply(failure=FAILURES[fault], usage=None)
    change = _FAULTY.get(fault)
    return change(reply) if change else reply


def faulty_tool_answer(fault: str, request: Event, call: CallTool, timeout_s: float) -> Post | None:
    """Return the tool's answer under this fault; None if the fault does not change it."""
    if fault == "raises":
        return Post(request.sender, _tool_error(call, "RuntimeError: a fault"))
    if fault == "never":
        return Post(request.sender, _tool_error(call, f"{call.tool} timed out after {timeout_s:g} s"))
    if fault == "huge":
        return Post(request.sender, ToolReturned(call.turn, call.call, "ok", text_json("x" * HUGE_CHARS)))
    return None


def _tool_error(call: CallTool, text: str) -> ToolReturned:
    return ToolReturned(call.turn, call.call, "error", text_json(text))


def _invalid_report(reply: Reply) -> Reply:
    uses = tuple((name, _NOT_A_REPORT if name == REPORT_BACK else value) for name, value in reply.calls)
    if uses == reply.calls:
        uses = ((REPORT_BACK, _NOT_A_REPORT),)
    return replace(reply, calls=uses, stop_reason="tool_use")


def _many_reports(reply: Reply) -> Reply:
    """Put an invalid report first, then the reply's own reports twice."""
    own = [use for use in reply.calls if use[0] == REPORT_BACK] or [(REPORT_BACK, {"value": reply.text})]
    return replace(reply, calls=((REPORT_BACK, _NOT_A_REPORT), *own, *own), stop_reason="tool_use")


_FAULTY: Final[dict[str, Callable[[Reply], Reply]]] = {
    "garbage": lambda reply: Reply(content=b'{"no": "list of blocks"}', usage=reply.usage),
    "refusal": lambda reply: Reply("I will not.", stop_reason="refusal"),
    "blank": lambda reply: Reply(""),
    "greedy": lambda reply: replace(reply, percent=100),
    "unmetered": lambda reply: replace(reply, usage=None, percent=None),
    "invalid_report": _invalid_report,
    "many_reports": _many_reports,
    "unknown_tool": lambda reply: replace(
        reply, calls=(*reply.calls, ("no-such-tool", {})), stop_reason="tool_use"
    ),
    "bad_arguments": lambda reply: replace(
        reply, calls=tuple((name, {"\u2400": [name]}) for name, _ in reply.calls)
    ),
}
