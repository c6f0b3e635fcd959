"""What must hold of every session's log, whatever its plan and schedule.

Each rule is computed from the log, in other words than the deciders use. `check_all` applies those that hold
of every world that has come to rest; the others say of which worlds they hold.
"""

from collections import Counter
from functools import reduce

from callboard.actors.accounts import charge_of
from callboard.actors.addresses import is_decider
from callboard.actors.codec import encode
from callboard.actors.events import Event
from callboard.actors.limits import fill
from callboard.actors.messages import (
    Ask,
    AskEnded,
    Begin,
    CallModel,
    CallTool,
    CheckSchema,
    DeciderFailed,
    Delegate,
    DelegationEnded,
    Finished,
    ModelReplied,
    ReportBack,
    ReportJudged,
    SchemaChecked,
    Stop,
    Stopped,
    ToolReturned,
    TurnRequested,
)
from callboard.actors.request import ModelRequest
from callboard.actors.step import ActorState, failed, initial, step
from callboard.actors.usage import NOTHING, ZERO, plus, priced
from tests.story import read_story
from tests.world import World


def check_all(world: World) -> None:
    """Every rule that holds of a world that has come to rest."""
    one_answer_for_each_request(world.log)
    one_end_for_each_ask_delegation_and_report(world.log)
    every_life_ends_once(world.log)
    nothing_is_granted_after_stop(world.log)
    the_stopped_only_drain(world.log)
    ends_come_deepest_first(world.log)
    the_first_valid_report_wins(world.log)
    for request in world.requests.values():
        the_conversation_can_be_sent(request)
    requests_are_append_only(world)
    it_replays_to_the_byte(world.log)
    nothing_is_left(world)
    usage_is_what_the_calls_cost(world)


def one_answer_for_each_request(log: list[Event]) -> None:
    answers = Counter(e.cause for e in log if isinstance(e.body, ModelReplied | ToolReturned | SchemaChecked))
    requests = Counter(e.seq for e in log if isinstance(e.body, CallModel | CallTool | CheckSchema))
    assert answers == requests, "every port request has one answer"


def one_end_for_each_ask_delegation_and_report(log: list[Event]) -> None:
    asked = Counter(e.body.request_id for e in log if isinstance(e.body, Ask))
    ended = Counter(e.body.request_id for e in log if isinstance(e.body, AskEnded))
    assert asked == ended, "every ask has one outcome"
    assert _calls_of(log, Delegate) == _calls_to(log, DelegationEnded), "every delegation has one end"
    assert _calls_of(log, ReportBack) == _calls_to(log, ReportJudged), "every report has one judgement"


def _calls_of(log: list[Event], kind: type[Delegate | ReportBack]) -> Counter[tuple[str, int, int]]:
    return Counter((e.sender, e.body.turn, e.body.call) for e in log if isinstance(e.body, kind))


def _calls_to(log: list[Event], kind: type[DelegationEnded | ReportJudged]) -> Counter[tuple[str, int, int]]:
    return Counter((e.recipient, e.body.turn, e.body.call) for e in log if isinstance(e.body, kind))


def every_life_ends_once(log: list[Event]) -> None:
    """An agent that began says once that it has finished or drained, and not before."""
    alive: set[str] = set()
    for event in log:
        if isinstance(event.body, Begin):
            assert event.recipient not in alive, f"{event.recipient} begins while it lives"
            alive.add(event.recipient)
        elif isinstance(event.body, Finished | Stopped):
            assert event.sender in alive, f"{event.sender} ends twice"
            alive.remove(event.sender)
    assert not alive, f"never ended: {alive}"


def nothing_is_granted_after_stop(log: list[Event]) -> None:
    stopped: set[str] = set()
    for event in log:
        if isinstance(event.body, Stop):
            stopped.add(event.recipient)
        elif isinstance(event.body, Begin):
            stopped.discard(event.recipient)
        elif isinstance(event.body, CallModel):
            assert event.body.agent not in stopped, f"event {event.seq} grants a turn to a stopped agent"


def the_stopped_only_drain(log: list[Event]) -> None:
    """What an agent posts in answer to its Stop, or to anything later, until it begins again."""
    stops: dict[str, int] = {}
    for event in log:
        if isinstance(event.body, Stop):
            stops[event.recipient] = event.seq
        elif isinstance(event.body, Begin):
            stops.pop(event.recipient, None)
        elif event.sender in stops and event.cause >= stops[event.sender]:
            is_drain = isinstance(event.body, Stopped | DeciderFailed)
            assert is_drain, f"{event.sender} posts {event.kind} after it was stopped"


def ends_come_deepest_first(log: list[Event]) -> None:
    stopped_by: dict[int, list[str]] = {}
    for event in log:
        if isinstance(event.body, Stop):
            stopped_by.setdefault(event.cause, []).append(event.recipient)
    for addresses in stopped_by.values():
        for place, address in enumerate(addresses):
            below = [one for one in addresses[place:] if one.startswith(address + ".")]
            assert not below, f"{address} is stopped before {below}"


def the_first_valid_report_wins(log: list[Event]) -> None:
    """A report counts if it precedes the event that ended its sender; only a cancel leaves it unjudged."""
    story = read_story(log)
    for call, end in story.ends.items():
        reports = story.reports.get(call, [])
        accepted = [report for report in reports if report.verdict == "accepted"]
        assert all(report.is_eligible for report in accepted), "a late report won"
        if end.kind == "reported":
            assert [report.value for report in accepted] == [end.value], "one report wins"
        else:
            assert not accepted, f"{call} ended as {end.kind} although a report was accepted"
        for report in reports:
            if report.is_eligible and end.kind != "cancelled":
                is_before = not accepted or report.seq <= accepted[0].seq
                assert (report.verdict != "late") == is_before, f"report {report.seq} is passed over"


def the_conversation_can_be_sent(request: ModelRequest) -> None:
    """Every tool_use is answered in the next message, in call order, before anything else."""
    owed: list[object] = []
    for message in request.conversation:
        content = message["content"]
        blocks = content if isinstance(content, list) else []
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert results == owed, f"{request.address} turn {request.turn}: results {results} for calls {owed}"
        assert [b["type"] for b in blocks[: len(results)]] == ["tool_result"] * len(results)
        assert content, "services refuse empty messages"
        owed = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert message["role"] == ("assistant" if owed else message["role"])
    assert not owed, "a request ends with a user's message"


def gave_up(log: list[Event]) -> set[str]:
    """Agents whose decider failed even while it drained: they forgot their conversation and what it cost."""
    failed_on = {(e.sender, e.cause) for e in log if isinstance(e.body, DeciderFailed)}
    return {e.sender for e in log if isinstance(e.body, Stopped) and (e.sender, e.cause) in failed_on}


def requests_are_append_only(world: World) -> None:
    """Within one ask or delegation; another ask may bring another schema, which is another system prompt."""
    forgetful = gave_up(world.log)
    lives: Counter[str] = Counter()
    last: dict[str, tuple[int, ModelRequest]] = {}
    for event in world.log:
        if isinstance(event.body, Begin):
            lives[event.recipient] += 1
        request = world.requests.get(event.seq)
        if request is None or request.address in forgetful:
            continue
        life, before = last.get(request.address, (0, request))
        if life == lives[request.address]:
            assert (before.system, before.tools) == (request.system, request.tools)
        kept = request.messages[: before.length]
        assert kept == before.messages, f"{request.address} rewrote its conversation"
        last[request.address] = lives[request.address], request


def it_replays_to_the_byte(log: list[Event]) -> None:
    """Every decision, made anew in the order of the log, posts what was posted then."""
    outputs: dict[tuple[int, str], list[Event]] = {}
    for event in log:
        if is_decider(event.sender):
            outputs.setdefault((event.cause, event.sender), []).append(event)
    states: dict[str, ActorState] = {}
    for event in log:
        address = event.recipient
        if not is_decider(address):
            continue
        logged = outputs.pop((event.seq, address), [])
        before = states.get(address) or initial(address)
        first = logged[0].body if logged else None
        if isinstance(first, DeciderFailed):
            states[address], posts = failed(before, event, first.error)
        else:
            states[address], posts = step(before, event)
        now = [(post.recipient, encode(post.body)) for post in posts]
        assert now == [(e.recipient, encode(e.body)) for e in logged], (
            f"event {event.seq} replays differently"
        )
    assert not outputs, "a decider posted without having received anything"


def nothing_is_left(world: World) -> None:
    """At rest no agent lives, nothing is reserved, nobody waits, no timer is set."""
    state = world.supervisor
    assert (state.live, state.in_flight, state.ask) == (0, 0, None)
    left = [state.queue.size, state.timers.size, len(world.timers), len(world.desk.open)]
    if state.phase != "closed":  # after the end, the answer to a check is ignored
        left.append(state.checks.size)
    host = state.host
    if host is not None:
        assert host.account.reserved == NOTHING
        left += [host.children.size, host.delegations.size, host.waiting.size]
    assert not any(left), f"left: {left}"
    agents = {e.recipient for e in world.log if isinstance(e.body, Begin)}
    assert all(world.agent(address).phase == "idle" for address in agents)


def usage_is_what_the_calls_cost(world: World) -> None:
    """The session's usage is the sum over its calls, and so is that of its asks if none was given up on."""
    if gave_up(world.log):
        return  # charged all that was reserved
    answers = {e.cause: e.body for e in world.log if isinstance(e.body, ModelReplied)}
    prices = {e.recipient: e.body.model.prices for e in world.log if isinstance(e.body, Begin)}
    spent = ZERO
    for event in world.log:
        if isinstance(event.body, CallModel):
            usage = answers[event.seq].usage
            usage = usage and priced(usage, prices[event.body.agent])
            spent = plus(spent, charge_of(event.body.need, usage))
    host = world.supervisor.host
    assert spent == (host.account.spent if host else ZERO)
    if not any(ended.in_doubt for ended in world.of(AskEnded)):
        assert spent == reduce(plus, (ended.usage for ended in world.of(AskEnded)), ZERO)


def no_cap_is_exceeded(world: World) -> None:
    """Turns of a life, agents of the session, depth, calls in flight."""
    caps = fill(world.limits)
    turns: Counter[str] = Counter()
    limit: dict[str, int] = {}
    in_flight = 0
    agents: set[str] = set()
    for event in world.log:
        body = event.body
        if isinstance(body, Begin):
            turns[event.recipient] = 0
            limit[event.recipient] = body.limits.max_iterations or 0
            agents.add(event.recipient)
            assert body.depth <= (caps.max_depth or 0)
        elif isinstance(body, TurnRequested) and body.attempt == 1:
            turns[event.sender] += 1
            assert turns[event.sender] <= limit[event.sender], f"{event.sender} has too many turns"
        in_flight += isinstance(body, CallModel) - isinstance(body, ModelReplied)
        assert in_flight <= (caps.max_parallel_calls or 0)
    assert len(agents) <= (caps.max_agents or 0)
