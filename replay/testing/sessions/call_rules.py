"""Rules of calls and contexts that the explorer checks beside those of the log.

Rules of calls: the effects of tools, stopped agents, and what a crash or a polite end leaves open.

The rule of contexts that a log alone cannot show: each is a pure function of the log.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, TypeVar

from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.addresses import is_decider
from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.errors import StoreFailed
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Begin, DeciderFailed, Delegate, Stop, Stopped
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallModel,
    CallTool,
    ContextMade,
    MakeContext,
    ModelReplied,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.protocol.usage import NOTHING, ZERO
from callboard.actors.session.contexts import ContextRequest, view_of
from callboard.actors.session.core import SessionCore
from callboard.actors.session.port_table import owner_of
from callboard.actors.supervisor.state import SupervisorState
from callboard.replay.testing.rules.tool_results import states_at
from callboard.replay.testing.sessions.injection import ENDS
from callboard.replay.testing.sessions.ports import context_of, has_context
from callboard.replay.testing.sessions.scenario import Scenario
from callboard.replay.testing.sessions.scripted_session import is_closed
from callboard.replay.testing.sessions.world import SessionWorld

_Call: TypeAlias = tuple[str, int, int]
_CALLS: Final = (CallModel, RunStep, CallTool)
_OfCall = TypeVar("_OfCall", ToolStarted, ToolReturned, ApprovalGiven)


def _calls(
    world: SessionWorld, kind: type[_OfCall], which: Callable[[_OfCall], bool] = lambda body: True
) -> list[_Call]:
    """Return the agent, turn and call of the messages of a kind."""
    found = [(event.recipient, event.body) for event in world.log if isinstance(event.body, kind)]
    return [(who, body.turn, body.call) for who, body in found if which(body)]


def wrong_effect(world: SessionWorld) -> str:
    """Return a write that ran twice or unannounced, or an effect that the log denies."""
    ran = Counter((e.address, e.turn, e.call) for e in world.effects if e.effect == "write")
    # A person may allow a call to run again that was interrupted. After each form it has another round.
    goes_on = _calls(world, ApprovalGiven, _goes_on)
    ran.subtract(call for call in goes_on if call in ran)
    started = _calls(world, ToolStarted)
    for (who, turn, call), times in ran.items():
        if times > 1:
            return f"call {turn}.{call} of {who} ran {times} times"
        if (who, turn, call) not in started:
            return f"call {turn}.{call} of {who} ran, and the log does not know"
    acted = {(e.address, e.turn, e.call) for e in world.effects if e.effect != "read"}
    for who, turn, call in _calls(world, ToolReturned, lambda one: one.status == "cancelled"):
        if (who, turn, call) in acted:
            return f"call {turn}.{call} of {who} ran and is told as not started"
    return ""


def _goes_on(given: ApprovalGiven) -> bool:
    return given.goes_on and (given.is_repeat or given.round > 0)


def has_kept_call(world: SessionWorld) -> bool:
    """Return whether a call of a stopped agent is not given up."""
    gate, aborted = world.gate, world.aborted
    # A loop: this runs after every step, and a comprehension made campaigns 5 % slower.
    for request in world.requests.values():
        event = request.event
        if event.seq not in aborted and not gate.is_wanted(event.seq):
            return True
    return False


def is_badly_resumed(world: SessionWorld) -> bool:
    """Look once, right after a resume, at the calls that were open in the log and at those made again."""
    made = world.made[-1] if world.made else None
    if made is None or made.move.strand != "resume" or world.is_closed:
        return False
    found, added = world.log[: made.start], world.log[made.start :]
    answered, answers = _answers_in(found), _answers_in(added)
    started = {event.cause for event in found if isinstance(event.body, ToolStarted)}
    cut, behind = _may_have_acted(found), _behind_stops(found)
    is_settled = [
        _is_settled(request, answers.get(request.seq), request.seq in started, _call_of(request) in cut)
        for request in found
        if request.seq not in answered and isinstance(request.body, _CALLS) and request.seq not in behind
    ]
    left = [request for request in found if request.seq in behind and request.seq not in answered]
    # Requests that recovery adds cannot have started.
    denied = [*left, *(request for request in added if request.seq in answers)]
    is_denied = [
        _is_denied(answers.get(request.seq), _call_of(request) in cut)
        for request in denied
        if isinstance(request.body, _CALLS)
    ]
    return not all(is_settled + is_denied)


def is_badly_detached(world: SessionWorld) -> bool:
    """Look at each step of a polite end: no actor may decide, and no model call may be left open."""
    made = world.made[-1] if world.made else None
    if made is None:
        return False
    if world.is_detaching:
        return any(is_decider(event.sender) for event in world.log[made.start :])
    is_end = made.move.strand == ENDS
    return is_end and any(isinstance(one.event.body, CallModel | RunStep) for one in world.gate.open.values())


def _answers_in(log: list[Event]) -> dict[int, ModelReplied | ToolReturned]:
    """Return the answers to calls, by the seq of the request."""
    return {event.cause: event.body for event in log if isinstance(event.body, ModelReplied | ToolReturned)}


def _may_have_acted(log: list[Event]) -> set[_Call | None]:
    """Return the calls with an earlier round or run that may have had its effect."""
    reads = {event.seq for event in log if isinstance(event.body, CallTool) and event.body.effect == "read"}
    return {_call_of(event) for event in log if _goes_on_later(event, reads)}


def _goes_on_later(event: Event, reads: set[int]) -> bool:
    status = getattr(event.body, "status", "")
    return status == "interrupted" or (status == "input_required" and event.cause not in reads)


def _call_of(event: Event) -> _Call | None:
    """Return the tool call that this event requests or answers; an interrupted call has several events."""
    body = event.body
    if isinstance(body, CallTool):
        return event.sender, body.turn, body.call
    return (event.recipient, body.turn, body.call) if isinstance(body, ToolReturned) else None


def _behind_stops(log: list[Event]) -> set[int]:
    """Return the calls behind the `Stop` of their agent, and those of agents that drained without one.

    Agents post such calls before they have read their `Stop`, and the gate lets none of them start.
    """
    found: set[int] = set()
    stopped: set[str] = set()
    for event in log:
        match event.body:
            case Stop():
                stopped.add(event.recipient)
            case Begin():
                stopped.discard(event.recipient)
            case Stopped() if event.sender in stopped:
                stopped.discard(event.sender)
            case Stopped():
                stopped.add(event.sender)
            case CallModel() | RunStep() | CallTool() if owner_of(event) in stopped:
                found.add(event.seq)
            case _:
                pass
    return found


def _is_denied(answer: ModelReplied | ToolReturned | None, was_cut: bool) -> bool:
    """Return whether a call that has not started is answered so. was_cut: it was interrupted before."""
    if isinstance(answer, ModelReplied):
        return (answer.status, answer.usage) == ("cancelled", ZERO)
    return answer is not None and answer.status == ("interrupted" if was_cut else "cancelled")


def _is_settled(
    request: Event, answer: ModelReplied | ToolReturned | None, has_started: bool, was_cut: bool
) -> bool:
    """Return whether an old call has the answer that a crash leaves. was_cut: it was interrupted before."""
    if isinstance(request.body, CallModel | RunStep):
        is_lost = answer is not None and answer.status in ("lost", "cancelled")
        return is_lost and isinstance(answer, ModelReplied) and answer.usage is None
    status = answer.status if isinstance(answer, ToolReturned) else ""
    if has_started or (was_cut and status):
        return status == "interrupted"
    is_write = isinstance(request.body, CallTool) and request.body.effect == "write"
    return not (is_write and status == "interrupted")


FROM_LOG: Final = "A context is made from the parent's state at its `Delegate`, whenever the port acts."


def other_context(scenario: Scenario, log: list[Event]) -> str:
    """Return the first context that its function would not make of the log, or an empty text."""
    made = [event for event in log if isinstance(event.body, ContextMade) and event.body.status == "ok"]
    parents = _parents(log) if made else {}
    for event in made:
        wanted = log[event.cause - 1].body
        assert isinstance(wanted, MakeContext)
        if not has_context(scenario, wanted.profile):
            continue  # a factory made an instance, of which the log holds nothing
        if event.body != context_of(wanted, scenario.context(_view(log, parents, wanted))):
            return f"event {event.seq} is not made of the state at event {wanted.request}"
    return ""


def _view(
    log: list[Event], parents: Mapping[tuple[str, int], AgentState], wanted: MakeContext
) -> ContextRequest:
    asked = log[wanted.request - 1]
    assert isinstance(asked.body, Delegate)
    view = view_of(parents[wanted.parent, asked.cause], asked.body, wanted)
    assert view is not None
    return view


def _parents(log: list[Event]) -> dict[tuple[str, int], AgentState]:
    """Return the state of each agent that delegates, after the decision that did, by its cause."""
    core, found = SessionCore(), {}
    failures = {event.cause: event.body.error for event in log if isinstance(event.body, DeciderFailed)}
    for event in log:
        if not is_decider(event.recipient):
            continue
        posts = core.decide(event, failures.get(event.seq, ""))
        state = core.states[event.recipient]
        if isinstance(state, AgentState) and any(isinstance(post.body, Delegate) for post in posts):
            found[event.recipient, event.seq] = state
    return found


# --- at rest --------------------------------------------------------------------------


def work_left(world: SessionWorld) -> str:
    """Describe the work that is left at rest."""
    if world.failure is not None or world.down is not None:
        return ""
    # Agents that had not drained when the session closed: the supervisor ignores them from then on.
    is_over = world.supervisor.phase == "closed"
    doubtful = {who for ended in world.of(AskEnded) for who in ended.in_doubt} if is_over else set()
    busy = [who for who in world.agents() if who not in doubtful and world.agent(who).phase not in RESTING]
    left = {"timers": len(world.timers), "port requests": len(world.gate.open)}
    if not doubtful:
        left |= _in_the_books(world.supervisor)
    return ", ".join([*(f"{count} {what}" for what, count in left.items() if count), *busy])


def _in_the_books(state: SupervisorState) -> dict[str, int]:
    left = {
        "agents": state.live,
        "model calls": state.in_flight,
        "asks": int(state.ask is not None),
        "in line": state.queue.size,
        "timers set": state.timers.size,
        "checks": state.checks.size if state.phase != "closed" else 0,  # after the end, answers are ignored
    }
    host = state.host
    if host is not None:
        left["reservations"] = int(host.reserved != NOTHING)
        left["children"] = host.children.size + host.delegations.size + host.waiting.size
    return left


def other_state(world: SessionWorld) -> str:
    """Return the first call whose tool was given another state than the log folds to."""
    given = world.states_given
    folded = states_at(world.log, [seq for seq, _ in given])
    wrong = (f"event {seq}: {values}, not {folded.get(seq)}" for seq, values in given)
    return next(
        (how for (seq, values), how in zip(given, wrong, strict=True) if values != folded.get(seq)), ""
    )


def opened_again(world: SessionWorld) -> str:
    """Return how a session is open that its log says is closed."""
    if world.failure is not None or world.down is not None:  # its actors have handled what the log has not
        return ""
    is_open = is_closed(world.log) and world.supervisor.phase != "closed"
    return (
        f"the log ends in a closed session, and its supervisor is {world.supervisor.phase}" if is_open else ""
    )


def own_failure(world: SessionWorld) -> str:
    """Return the error that ended the session, unless a fault caused it."""
    error = world.failure
    return "" if error is None or isinstance(error, StoreFailed) else f"{type(error).__name__}: {error}"


RESTING: Final = ("idle", "new")
"""The phases of an agent that does nothing and waits for nothing."""
