"""The rules of forks, as monitors of the explorer: reused answers, tools that run, and costs.

They read the log of a fork, the recording, and the calls that the ports have really worked on.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from callboard.actors.protocol.addresses import CLIENT
from callboard.actors.protocol.client_messages import Ask, AskEnded, Cancel, Forked, Resumed, RevokePermission
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import AnyMessage, Begin, DeciderFailed
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallModel,
    CallTool,
    ModelReplied,
    SetTimer,
    TimerFired,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.session.port_table import owner_of
from callboard.replay.testing.rules.file_versions import Disk
from callboard.replay.testing.rules.tool_results import states_at
from callboard.replay.testing.sessions.fork_world import REFUSAL, ForkWorld, with_by
from callboard.replay.testing.sessions.monitors import (
    FAILS_BY_FAULT,
    NOTHING_LEFT,
    STATE_IS_FOLD,
    LogRules,
    Replays,
    Requests,
    SessionMonitor,
)
from callboard.replay.testing.sessions.scripted_session import Effect
from callboard.replay.testing.sessions.world import SessionWorld

_Finds = Callable[[ForkWorld], Iterator[str]]


class ForkMonitor(SessionMonitor):
    """A rule of forks that holds at rest. find: yields how a fork breaks it."""

    def __init__(self, name: str, rule: str, find: _Finds) -> None:
        def breach(world: SessionWorld) -> str:
            assert isinstance(world, ForkWorld)
            is_over = world.failure is None and world.down is None
            return next(find(world), "") if is_over else ""

        super().__init__(name, rule, breach)


def _results(world: ForkWorld) -> list[tuple[Event, ToolReturned]]:
    """Return the answers of tools of the fork itself."""
    return [(one, one.body) for one in world.own_events if isinstance(one.body, ToolReturned)]


def _replies(world: ForkWorld) -> list[tuple[Event, ModelReplied]]:
    """Return the answers of models of the fork itself."""
    return [(one, one.body) for one in world.own_events if isinstance(one.body, ModelReplied)]


def _programs(world: ForkWorld) -> set[str]:
    """Return the addresses of programs."""
    begins = ((one.recipient, one.body) for one in world.log if isinstance(one.body, Begin))
    return {address for address, begin in begins if begin.model.is_program}


def _effects(world: ForkWorld) -> list[Effect]:
    """Return the runs of tools with an effect."""
    return [one for one in world.effects if one.effect != "read"]


def _live(world: ForkWorld) -> set[int]:
    return {event.seq for event in world.live}


def _run_effects(world: ForkWorld) -> Iterator[str]:
    ran = _effects(world) if world.fork.effects == "recorded" else []
    yield from (f"{one.tool} of {one.address}, turn {one.turn}, has run" for one in ran)


def _run_twice(world: ForkWorld) -> Iterator[str]:
    writes = Counter(one[:3] for one in world.effects if one.effect == "write")
    for event in world.own_events:
        body = event.body
        if isinstance(body, ApprovalGiven) and body.is_repeat and body.verdict == "approved":
            writes[event.recipient, body.turn, body.call] -= 1  # a person wants it, after an interruption
    yield from (f"call {one} has run twice" for one, times in writes.items() if times > 1)
    # A `read` that ran may be lost with its result, and later calls may still be recorded.
    ran = {one[:3] for one in world.effects if one.effect != "read"}
    started = {event.cause for event in world.own_events if isinstance(event.body, ToolStarted)}
    for event, body in _results(world):
        is_no = body.output == REFUSAL and event.cause in started  # not of a new attempt
        if (body.reused or is_no) and _call(event) in ran:
            yield f"event {event.seq} is a {'refusal' if is_no else 'recorded result'} of a call that has run"


def _result_twice(world: ForkWorld) -> Iterator[str]:
    """Yield the recorded results of tools with an effect that two calls of a fork were given."""
    origin, given = world.fork.origin, dict[int, int]()
    for event, body in _results(world):
        call = origin[origin[body.reused - 1].cause - 1].body
        if body.reused and getattr(call, "effect", "read") != "read":
            if body.reused in given:
                yield f"events {given[body.reused]} and {event.seq} are both the recorded event {body.reused}"
            given[body.reused] = event.seq


def _not_in_time(world: ForkWorld) -> Iterator[str]:
    """Yield the firings of timers before their time, and after it unless the recording has one then."""
    was = {one.at for one in world.fork.origin if isinstance(one.body, TimerFired)}
    due: dict[int, int] = {}
    for event in world.log:
        body = event.body
        if isinstance(body, SetTimer):
            due[event.seq] = event.at + body.after_ms if body.until is None else max(event.at, body.until)
        elif isinstance(body, TimerFired) and event.seq > world.base:
            wanted = due.get(event.cause, 0)
            if event.at < wanted or (event.at > wanted and event.at not in was):
                yield f"event {event.seq}, at {event.at}, fires a timer that is due at {wanted}"


def _unpaid(world: ForkWorld) -> Iterator[str]:
    live, programs = _live(world), _programs(world)
    for event, body in _replies(world):
        is_paid = event.cause in live
        if body.status == "ok" and event.recipient not in programs and is_paid == bool(body.reused):
            yield f"event {event.seq}: its call was made: {is_paid}; it is marked as reused: {not is_paid}"


def _lost(world: ForkWorld) -> Iterator[str]:
    live = _live(world)
    for event, reply in _replies(world):
        if reply.status == "lost" and event.cause not in live:
            yield f"event {event.seq} is the loss of a call that was not made"
    # A later attempt or round may repeat the effect of an earlier one, perhaps of the recording.
    before: set[tuple[str, int, int]] = set()
    for event in world.log:
        body = event.body
        if isinstance(body, ToolReturned) and body.status in ("interrupted", "input_required"):
            is_new = body.status == "interrupted" and not body.reused and event.cause > world.base
            if is_new and event.cause not in live and _call(event) not in before:
                yield f"event {event.seq} is the interruption of a call that was not made"
            before.add(_call(event))


def _call(event: Event) -> tuple[str, int, int]:
    """Return the call that an event answers, by agent, turn and number."""
    assert isinstance(event.body, ToolReturned)
    return event.recipient, event.body.turn, event.body.call


def _inputs_again(world: ForkWorld) -> Iterator[str]:
    """Yield the inputs of the client that are posted more often than in the recording."""
    was = Counter(_input(one.body) for one in world.fork.origin[world.base :] if one.sender == CLIENT)
    was.update(_input(body) for body in world.disturbances)
    for event in world.own_events:
        if event.sender == CLIENT and not isinstance(event.body, Forked | Resumed | Cancel):
            was[_input(event.body)] -= 1
            yield from [f"event {event.seq} is posted again"] * (was[_input(event.body)] < 0)


def _input(body: AnyMessage) -> bytes:
    """Return an input for comparisons: a permission has another seq in a fork."""
    return encode(replace(body, permission=0) if isinstance(body, RevokePermission) else body)


def _back_in_time(world: ForkWorld) -> Iterator[str]:
    for before, event in zip(world.log, world.log[1:], strict=False):
        if event.at < before.at:
            yield f"event {event.seq} is at {event.at}, and the one before at {before.at}"


def _other_content(world: ForkWorld) -> Iterator[str]:
    changed = {one.replaces: one.value for one in world.fork.planned.changes}
    for event, body in _results(world):
        was = world.fork.origin[body.reused - 1].body
        if body.reused and isinstance(was, ToolReturned):
            wanted = changed.get(body.reused, was.output)
            if bytes(body.output) != bytes(wanted):
                yield f"event {event.seq} is not what event {body.reused} of the recording says"
    for event, reply in _replies(world):
        is_same = replace(reply, reused=0) == world.fork.origin[reply.reused - 1].body
        if reply.reused and reply.reused not in changed and not is_same:
            yield f"event {event.seq} is not what event {reply.reused} of the recording says"


def _lost_labels(world: ForkWorld) -> Iterator[str]:
    """Yield the recorded results, as they were or changed, that lack a label of the recorded one."""
    for event, body in _results(world):
        was = world.fork.origin[body.reused - 1].body
        if body.reused and isinstance(was, ToolReturned) and (lost := {*was.labels} - {*body.labels}):
            yield f"event {event.seq} has lost the labels {sorted(lost)} of event {body.reused}"


def _other_request(world: ForkWorld) -> Iterator[str]:
    """Yield the recorded answers that were given to another request."""
    origin = world.fork.origin
    given: list[tuple[Event, ToolReturned | ModelReplied]] = [*_results(world), *_replies(world)]
    for event, body in given:
        theirs = origin[origin[body.reused - 1].cause - 1]
        if body.reused and _named(world.log[event.cause - 1], world.log) != _named(theirs, origin):
            yield f"event {event.seq} is the answer to another request, event {theirs.seq} of the recording"


def _named(request: Event, log: Sequence[Event]) -> object:
    """Return what a request is: the call of a tool, or the digest of the request of a model."""
    body = request.body
    if isinstance(body, CallTool):
        return request.sender, body.tool, bytes(body.arguments), body.given
    return getattr(log[getattr(body, "request", 1) - 1].body, "digest", "")


def _reused_steps(world: ForkWorld) -> Iterator[str]:
    programs = _programs(world)
    for event, body in _replies(world):
        if body.reused and event.recipient in programs:
            yield f"event {event.seq} is a recorded step of the program {event.recipient}"


def _approved_alone(world: ForkWorld) -> Iterator[str]:
    """Yield the approvals that were given again for a call without a recorded result."""
    live, own = _live(world), world.own_events
    answers = ((one, one.body) for one in own if isinstance(one.body, ApprovalGiven))
    given = {
        (event.recipient, body.turn, body.call)
        for event, body in answers
        if body.verdict == "approved" and not body.permission and event.cause not in live
    }
    for event, body in _results(world):
        # A stop answers a call whose earlier round had run as `interrupted`: it has not run here.
        is_stopped = body.status == "cancelled" or (body.status == "interrupted" and event.cause not in live)
        if not body.reused and not is_stopped and (event.recipient, body.turn, body.call) in given:
            yield f"event {event.seq}: no person has approved its call here"


def _other_state(world: ForkWorld) -> Iterator[str]:
    """Yield the recorded results of tools that would have read another shared state."""
    origin = world.fork.origin
    for event, body in _results(world):
        read = body.state_read if body.reused else ()
        mine = states_at(world.log, [event.cause] if read else [])
        cause = origin[body.reused - 1].cause
        theirs = states_at(origin, [cause] if read else [])
        if any(mine[event.cause].get(key) != theirs[cause].get(key) for key in read):
            yield f"event {event.seq} has read another state than the recorded result"


def _other_tail(world: ForkWorld) -> Iterator[str]:
    """Yield the differences of a fork without a change, in which actors took turns as in the recording."""
    if world.fork.changes or not world.is_in_order or world.injected or _lacks_files(world):
        return
    was = [with_by(one.body) for one in world.fork.origin if isinstance(one.body, AskEnded)]
    if len(was) < sum(isinstance(one.body, Ask) for one in world.fork.origin):
        return  # a recording that was cut short goes on with new answers
    programs = _programs(world)
    for one in world.live:
        if owner_of(one) not in programs or not isinstance(one.body, CallModel | RunStep):  # a step runs
            yield f"a port has worked on event {one.seq}, {one.kind}"
    if world.asks_ended() != was:
        yield "the outcomes are other ones than in the recording"


def _lacks_files(world: ForkWorld) -> bool:
    """Return True if a copy cannot have all files of the recording, so that some results do not fit."""
    bodies = (one.body for one in world.fork.origin)
    files = (one for body in bodies if isinstance(body, ToolReturned) for one in body.files)
    return world.fork.has_copy and not world.fork.skips_lost and any(one.left_out for one in files)


def _after_effect(world: ForkWorld) -> Iterator[str]:
    """Yield the recorded results of `read` tools that were asked for after a tool with an effect had run."""
    calls = zip(world.live, world.began, strict=True)
    ran = [began for one, began in calls if getattr(one.body, "effect", "read") != "read"]
    first = min(ran, default=len(world.log))
    for event, body in _results(world):
        is_read = getattr(world.log[event.cause - 1].body, "effect", "") == "read"
        if body.reused and is_read and event.cause > first:
            yield f"event {event.seq} is a recorded result, and a tool with an effect ran before its call"


def _marks(world: ForkWorld) -> Iterator[str]:
    """Yield the unmarked results of `read` tools that ran in the fork, and the marked ones of other calls."""
    live = _live(world)
    for event, body in _results(world):
        call = world.log[event.cause - 1]
        is_read = getattr(call.body, "effect", "") == "read"
        has_run = {event.cause} <= live and body.status not in ("cancelled", "interrupted")
        if body.after_origin != all((is_read, has_run, not body.reused)):
            yield f"event {event.seq}: its tool has run: {has_run}; it is marked: {body.after_origin}"


def _turns_after_need(world: ForkWorld) -> Iterator[str]:
    """Yield the turns of agents that need an effect, in the same ask, and the asks that end well."""
    need: dict[str, int] = {}
    for event in world.own_events:
        body = event.body
        match body:
            case ToolReturned(status="needs_effect"):
                need.setdefault(event.recipient, event.seq)
            case DeciderFailed():
                need.pop(event.sender, None)  # it may not have taken the answer in
            case CallModel() | RunStep() if event.cause >= need.get(agent := owner_of(event), event.seq):
                yield f"event {event.seq} is a turn of {agent}, after event {need[agent]} needs an effect"
            case AskEnded():
                if need and body.kind in ("answered", "reported"):
                    yield f"event {event.seq} ends an ask as {body.kind}, which needs an effect"
                need.clear()
            case _:
                pass


def _files(world: ForkWorld) -> Iterator[str]:
    """Yield the recorded results whose files are not those of the recording, or did not fit the copy."""
    origin = world.fork.origin
    here, start = Disk(), _start_of(origin, world.base)
    for event in world.log:
        body = event.body
        if not isinstance(body, ToolReturned):
            continue
        was = origin[body.reused - 1].body
        if body.reused and event.seq > world.base and isinstance(was, ToolReturned):
            if body.files != was.files:
                yield f"event {event.seq} has other files than event {body.reused} of the recording"
            if world.fork.has_copy:
                yield from _unfit_files(event, body, world, here, start)
        here.take(body.files)


def _unfit_files(
    event: Event, body: ToolReturned, world: ForkWorld, here: Disk, start: Disk
) -> Iterator[str]:
    there = Disk()
    for one in world.fork.origin[: body.reused - 1]:
        if isinstance(one.body, ToolReturned):
            there.take(one.body.files)
    for path, final in {one.path: one for one in body.files if not one.is_late}.items():
        if final.left_out and not world.fork.skips_lost:
            yield f"event {event.seq} is a recorded result, and the copy lacks the bytes of {path}"
        mine = here.digest(path) if path in here.now else start.digest(path)
        if path in there.now and mine != there.digest(path):
            yield f"event {event.seq} is a recorded result of a call that found another {path}"


def _start_of(origin: Sequence[Event], base: int) -> Disk:
    """Return the files of a copy at its base, also of those that the recording found later."""
    found = Disk()
    for event in origin:
        if isinstance(event.body, ToolReturned) and event.seq <= base:
            found.take(event.body.files)
    for event in origin[base:]:
        if isinstance(event.body, ToolReturned):
            for one in event.body.files:
                found.first.setdefault(one.path, one)
    return found


FORK_RULES: Final = (
    ForkMonitor("no-effect", "A fork of recorded effects runs no tool with an effect.", _run_effects),
    ForkMonitor("effects-once", "No tool with an effect runs twice for one call of a fork.", _run_twice),
    ForkMonitor("results-once", "The recorded result of an effect is given to one call.", _result_twice),
    ForkMonitor("due", "A timer of a fork fires at its time, or as recorded.", _not_in_time),
    ForkMonitor("billed-apart", "A reply is marked as reused exactly if its call was not made.", _unpaid),
    ForkMonitor("nothing-lost", "No call of a fork is lost that was not made.", _lost),
    ForkMonitor("inputs-once", "An input of the client is posted again once.", _inputs_again),
    ForkMonitor("clock", "The clock of a fork never goes back.", _back_in_time),
    ForkMonitor("recorded-content", "A reused answer is the recorded one, or its change.", _other_content),
    ForkMonitor("kept-labels", "A reused result keeps its labels, with a change too.", _lost_labels),
    ForkMonitor("same-request", "A recorded answer is given to the same request only.", _other_request),
    ForkMonitor("steps-run", "A step of a program is never taken from the recording.", _reused_steps),
    ForkMonitor("approvals", "An approval is given again only with the result of its call.", _approved_alone),
    ForkMonitor("same-state", "A recorded result is given where its tool would read the same.", _other_state),
    ForkMonitor("same-tail", "A fork without a change repeats the recording and asks nothing.", _other_tail),
    ForkMonitor("fresh-reads", "After a live effect no result of a read tool is reused.", _after_effect),
    ForkMonitor("after-origin", "A result is marked exactly if its `read` tool ran in the fork.", _marks),
    ForkMonitor(
        "files", "A recorded result keeps its files, and is given where the copy has what it found.", _files
    ),
    ForkMonitor("needs-effect", "An agent that needs an effect takes no further turn.", _turns_after_need),
)


def fork_monitors(replay_every: int = 5) -> list[SessionMonitor]:
    """Return all rules of forks, with those of all sessions that hold for them."""
    return [
        LogRules(),
        NOTHING_LEFT,
        FAILS_BY_FAULT,
        STATE_IS_FOLD,
        Requests(),
        Replays(replay_every),
        *FORK_RULES,
    ]
