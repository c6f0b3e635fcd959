"""The rules of forks, as monitors of the explorer: which answers are reused, what runs, and what is paid.

They read the log of a fork, the recording, and the calls that the ports have really worked on.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from callboard.actors.protocol.client_messages import Ask, AskEnded
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallModel,
    CallTool,
    ModelReplied,
    ToolReturned,
)
from callboard.replay.testing.rules.shared_state import states_at
from callboard.replay.testing.sessions.fork_world import ForkWorld, with_by
from callboard.replay.testing.sessions.monitors import (
    FAILS_BY_FAULT,
    NOTHING_LEFT,
    STATE_IS_FOLD,
    LogRules,
    Replays,
    Requests,
    SessionMonitor,
)
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


def _run_effects(world: ForkWorld) -> Iterator[str]:
    if world.fork.effects != "recorded":
        return
    for one in world.effects:
        if one.effect != "read":
            yield f"{one.tool} of {one.address}, turn {one.turn}, has run"


def _run_twice(world: ForkWorld) -> Iterator[str]:
    ran: set[tuple[str, int, int]] = set()
    for one in world.effects:
        call = (one.address, one.turn, one.call)
        if one.effect == "write" and call in ran:
            yield f"{one.tool} of {one.address}, turn {one.turn}, has run twice"
        ran.add(call)
    for event in world.own_events:
        body = event.body
        if isinstance(body, ToolReturned) and body.reused and (event.recipient, body.turn, body.call) in ran:
            yield f"event {event.seq} is a recorded result of a call that has run"


def _unpaid(world: ForkWorld) -> Iterator[str]:
    live = {event.seq for event in world.live}
    steps = {event.recipient for event in world.log if _is_program(event)}
    for event in world.own_events:
        body = event.body
        if not isinstance(body, ModelReplied) or event.recipient in steps or body.status != "ok":
            continue
        if (event.cause in live) == bool(body.reused):
            yield f"event {event.seq} is {'reused' if body.reused else 'paid'}, and its call was " + (
                "made" if event.cause in live else "not made"
            )


def _is_program(event: Event) -> bool:
    return isinstance(event.body, Begin) and event.body.model.is_program


def _lost(world: ForkWorld) -> Iterator[str]:
    live = {event.seq for event in world.live}
    for event in world.own_events:
        body = event.body
        if isinstance(body, ModelReplied) and body.status == "lost" and event.cause not in live:
            yield f"event {event.seq} is the loss of a call that was not made"
        if isinstance(body, ToolReturned) and body.status == "interrupted" and not body.reused:
            request = world.log[event.cause - 1]
            has_run = any(one.address == request.sender for one in world.effects)
            if request.seq > world.base and not has_run:
                yield f"event {event.seq} is the interruption of a call that has not run"


def _back_in_time(world: ForkWorld) -> Iterator[str]:
    for before, event in zip(world.log, world.log[1:], strict=False):
        if event.at < before.at:
            yield f"event {event.seq} is at {event.at}, and the one before at {before.at}"


def _other_content(world: ForkWorld) -> Iterator[str]:
    origin = world.fork.origin
    changed = {one.replaces: one.value for one in world.fork.planned.changes}
    for event in world.own_events:
        body = event.body
        reused: int = getattr(body, "reused", 0)
        if not reused:
            continue
        was = origin[reused - 1].body
        value = changed.get(reused)
        if isinstance(body, ToolReturned) and isinstance(was, ToolReturned):
            is_same = bytes(body.output) == bytes(was.output if value is None else value)
        else:
            assert isinstance(body, ModelReplied)
            assert isinstance(was, ModelReplied)
            is_same = value is not None or replace(body, reused=0) == was
        if not is_same:
            yield f"event {event.seq} is not what event {reused} of the recording says"


def _other_request(world: ForkWorld) -> Iterator[str]:
    """Yield the recorded answers that were given to another request."""
    origin = world.fork.origin
    for event in world.own_events:
        reused: int = getattr(event.body, "reused", 0)
        if not reused:
            continue
        mine, theirs = world.log[event.cause - 1], origin[origin[reused - 1].cause - 1]
        if _named(mine, world.log) != _named(theirs, origin):
            yield f"event {event.seq} is the answer to another request, event {theirs.seq} of the recording"


def _named(request: Event, log: Sequence[Event]) -> object:
    """Return what a request is: the call of a tool, or the digest of the request of a model."""
    body = request.body
    if isinstance(body, CallTool):
        return request.sender, body.tool, bytes(body.arguments), body.given
    assert isinstance(body, CallModel)
    wish = log[body.request - 1].body
    return body.agent, getattr(wish, "digest", "")


def _reused_steps(world: ForkWorld) -> Iterator[str]:
    programs = {event.recipient for event in world.log if _is_program(event)}
    for event in world.own_events:
        if isinstance(event.body, ModelReplied) and event.recipient in programs and event.body.reused:
            yield f"event {event.seq} is a recorded step of the program {event.recipient}"


def _approved_alone(world: ForkWorld) -> Iterator[str]:
    """Yield the approvals that were given again for a call without a recorded result."""
    live = {event.seq for event in world.live}
    given: set[tuple[str, int, int]] = set()
    for event in world.own_events:
        body = event.body
        if isinstance(body, ApprovalGiven):
            is_again = event.cause not in live and not body.permission
            if is_again and body.verdict == "approved":
                given.add((event.recipient, body.turn, body.call))
        elif isinstance(body, ToolReturned) and not (body.reused or body.status == "cancelled"):
            call = (event.recipient, body.turn, body.call)
            yield from [f"event {event.seq}: no person has approved its call here"] * (call in given)


def _other_state(world: ForkWorld) -> Iterator[str]:
    """Yield the recorded results of tools that would have read another shared state."""
    origin = world.fork.origin
    for event in world.own_events:
        body = event.body
        if isinstance(body, ToolReturned) and body.reused and body.state_read:
            mine = states_at(world.log, [event.cause])[event.cause]
            cause = origin[body.reused - 1].cause
            theirs = states_at(origin, [cause])[cause]
            if any(mine.get(key) != theirs.get(key) for key in body.state_read):
                yield f"event {event.seq} has read {mine} where the recorded result has read {theirs}"


def _other_tail(world: ForkWorld) -> Iterator[str]:
    """Yield the differences of a fork without a change, in which actors took turns as in the recording."""
    if world.fork.changes or not world.is_in_order or world.injected:
        return
    was = [with_by(one.body) for one in world.fork.origin if isinstance(one.body, AskEnded)]
    if len(was) < sum(isinstance(one.body, Ask) for one in world.fork.origin):
        return  # a recording that was cut short goes on with new answers
    if world.live:
        yield f"a port has worked on event {world.live[0].seq}, {world.live[0].kind}"
    if world.asks_ended() != was:
        yield "the outcomes are other ones than in the recording"


def _changes_missing(world: ForkWorld) -> Iterator[str]:
    """Yield the changes that a fork began before, reached, and did not make."""
    for change in world.fork.planned.changes:
        asked = [
            event
            for event in world.own_events
            if isinstance(event.body, ToolReturned) and event.body.reused == change.replaces
        ]
        for event in asked:
            assert isinstance(event.body, ToolReturned)
            if bytes(event.body.output) != bytes(change.value):
                yield f"event {event.seq} has the recorded result in place of the changed one"


def _after_effect(world: ForkWorld) -> Iterator[str]:
    """Yield the recorded results of `read` tools that were asked for after a tool with an effect had run."""
    ran = [
        began
        for one, began in zip(world.live, world.began, strict=True)
        if isinstance(one.body, CallTool) and one.body.effect != "read"
    ]
    for event in world.own_events:
        body, request = event.body, world.log[event.cause - 1]
        is_read = isinstance(request.body, CallTool) and request.body.effect == "read"
        if isinstance(body, ToolReturned) and body.reused and is_read and ran and request.seq > ran[0]:
            yield f"event {event.seq} is a recorded result, and a tool with an effect ran before its call"


def _asks_after_need(world: ForkWorld) -> Iterator[str]:
    """Yield model calls that an ask makes after it needed an effect."""
    need = 0
    for event in world.own_events:
        body = event.body
        if isinstance(body, ToolReturned) and body.status == "needs_effect":
            need = need or event.seq
        elif isinstance(body, AskEnded):
            if need and body.kind in ("answered", "reported"):
                yield f"event {event.seq} ends an ask as {body.kind}, and event {need} needs an effect"
            need = 0
        elif isinstance(body, CallModel) and need and _is_same(world.log, need, body.agent):
            yield f"event {event.seq} is a turn of {body.agent}, after event {need} needs an effect"


def _is_same(log: list[Event], need: int, agent: str) -> bool:
    return log[need - 1].recipient == agent


FORK_RULES: Final = (
    ForkMonitor("no-effect", "A fork of recorded effects runs no tool with an effect.", _run_effects),
    ForkMonitor("effects-once", "No tool with an effect runs twice for one call of a fork.", _run_twice),
    ForkMonitor("billed-apart", "A reply is marked as reused exactly if its call was not made.", _unpaid),
    ForkMonitor("nothing-lost", "No call of a fork is lost that was not made.", _lost),
    ForkMonitor("clock", "The clock of a fork never goes back.", _back_in_time),
    ForkMonitor("recorded-content", "A reused answer is the recorded one, or its change.", _other_content),
    ForkMonitor("same-request", "A recorded answer is given to the same request only.", _other_request),
    ForkMonitor("steps-run", "A step of a program is never taken from the recording.", _reused_steps),
    ForkMonitor("approvals", "An approval is given again only with the result of its call.", _approved_alone),
    ForkMonitor("same-state", "A recorded result is given where its tool would read the same.", _other_state),
    ForkMonitor("same-tail", "A fork without a change repeats the recording and asks nothing.", _other_tail),
    ForkMonitor("changes", "A changed result is given in place of the recorded one.", _changes_missing),
    ForkMonitor("fresh-reads", "After a live effect no result of a read tool is reused.", _after_effect),
    ForkMonitor("needs-effect", "An agent that needs an effect takes no further turn.", _asks_after_need),
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
