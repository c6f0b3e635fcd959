"""The features of callboard, each as a piece of a session, and sessions that use two of them at a time.

A piece changes a `Draft`: what the main agent calls in its three turns, its profile, the other agents, the
tools, the client. All pieces of a session are used in the same turns, by the main agent and by its child, so
two features meet in one reply, in one queue and in one log.

    of_features("tell", "forms")            a session that uses both
    PAIRS                                   all pairs of two, by name
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, Final

from msgspec.structs import replace as with_values

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.bundles import Allowed, Bundle, Denied
from callboard.actors.protocol.client_messages import RULES, Resumed
from callboard.actors.protocol.failures import PASSING
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import ApprovalGiven, CallTool, RequestApproval, ToolReturned
from callboard.actors.protocol.profiles import CacheRules, ToolsChange
from callboard.actors.protocol.prompts import TASK_CANCEL, TASK_WAIT
from callboard.actors.protocol.uses import Use as Reach
from callboard.actors.session.capacity import Capacity
from callboard.actors.session.contexts import ContextRequest
from callboard.replay.testing.sessions.capacity_world import SharedScenario
from callboard.replay.testing.sessions.faults import NO_FAULTS, Faults
from callboard.replay.testing.sessions.scenario import (
    Scenario,
    approves,
    ask,
    counted,
    did,
    profile,
    tell,
    tool_spec,
)
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, task
from callboard.runtime.contexts import WholeHistory
from tests.mutants.campaign import AnyScenario
from tests.mutants.drafts import Draft, Result, State, Wanted, forked, of_orchestrator, of_program
from tests.mutants.scenarios_contracts import GOOD as FOUND
from tests.mutants.scenarios_contracts import WRONG, with_contract
from tests.mutants.scenarios_endings import NOTHING, THOUGHT
from tests.mutants.scenarios_fallback import BUSY, PRICES, SECOND
from tests.mutants.scenarios_rights import BROWSE, FETCH, GUARDED, NET, NO_NETWORK, PAGE
from tests.mutants.scenarios_rounds import asks_twice
from tests.mutants.scenarios_state import KEYS, counting
from tests.mutants.scripts import BAD, DONE, GOOD, LOOK, PAY, PUT, SAVE, SCHEMA, race

# --- agents and their tasks ---------------------------------------------------------


def background(draft: Draft) -> None:
    """Start tasks in the background, and cancel one."""
    draft.is_background = True
    draft.turns[0].append(task("kid", background=True))
    draft.turns[1].append(task("kid", background=True))
    draft.turns[2].append(lambda request: (TASK_CANCEL, {"task": f"{request.address}.2"}))


def task_wait(draft: Draft) -> None:
    """Wait for all tasks, and for any."""
    draft.is_background = True
    draft.turns[0] += [task("kid", background=True), task("kid", background=True), (TASK_WAIT, {"any": True})]
    draft.turns[1].append((TASK_WAIT, {}))


def named_waits(draft: Draft) -> None:
    """Wait for tasks by name, for one that has been waited for, and for one that does not exist."""
    draft.is_background = True
    draft.turns[0] += [task("kid", background=True), task("kid", background=True)]
    draft.turns[1] += [_waits(2, 3), _waits(3)]
    draft.turns[2] += [_waits(2, 99), _waits(2)]


def _waits(*numbers: int) -> Wanted:
    return lambda request: (TASK_WAIT, {"tasks": [f"{request.address}.{number}" for number in numbers]})


def tells(draft: Draft) -> None:
    """Tell the host and its first agent something at any time."""
    draft.fields["tells"] = [
        tell("hurry", "host", "t1"),
        tell("stop", "host.1", "t2"),
        tell("x", "host", "t3"),
    ]


def races(draft: Draft) -> None:
    """Let children race."""
    draft.turns[0].append(race("kid", "kid"))


def reports(draft: Draft) -> None:
    """Report to the client, wrongly at first, and demand a report of a child."""
    draft.schema = SCHEMA
    draft.last[:] = [calls(BAD), calls(GOOD)]
    draft.profiles.append(profile("poor"))
    draft.lines["poor"] = [calls(BAD), calls(GOOD)]
    draft.turns[1].append(task("poor", output_schema=SCHEMA))


def contracts(draft: Draft) -> None:
    """Call an agent by its contract, rightly and wrongly."""
    draft.profiles.append(with_contract(profile("finder", [], ["look"])))
    draft.lines["finder"] = [calls(LOOK), DONE]
    draft.turns[0] += [FOUND, WRONG]
    draft.turns[1].append(("finder", {"query": "b", "form": SCHEMA}))


def contexts(draft: Draft) -> None:
    """Delegate with a context, and hand a history over."""
    draft.profiles += [profile("informed", context="c", context_in="system"), profile("heir", context="h")]
    draft.fields["context"] = _context
    draft.turns[0].append(task("informed"))
    draft.turns[1] += [task("heir"), task("informed")]


def _context(view: ContextRequest) -> Any:
    return WholeHistory()(view) if view.profile == "heir" else counted(view)


def silence(draft: Draft) -> None:
    """Say nothing at first, where words are due."""
    draft.last[:0] = [NOTHING]
    draft.profiles.append(profile("mute"))
    draft.lines["mute"] = [THOUGHT, NOTHING, NOTHING]
    draft.turns[0].append(task("mute"))


# --- tools --------------------------------------------------------------------------


def lines(draft: Draft) -> None:
    """Let the calls of a reply, and those of models, wait in line."""
    draft.own["max_parallel_tools"] = 1
    draft.limits["max_parallel_calls"] = 1
    draft.tools.append(tool_spec("save", "write"))
    draft.turns[0][:0] = [SAVE]
    draft.turns[1][:0] = [SAVE, LOOK, SAVE]


def approvals(draft: Draft) -> None:
    """Ask a person, who denies one call and permits all later ones, or lets questions expire."""
    draft.tools.append(tool_spec("pay", "write", "always"))
    draft.turns[0].append(PAY)
    draft.turns[1] += [PAY, PAY]
    draft.turns[2].append(PAY)
    draft.limits["approval_timeout_s"] = 60
    draft.fields["approve"] = _person


def _person(address: str, asked: RequestApproval) -> ApprovalGiven:
    if not asked.round and asked.turn == 1 and address == HOST:
        return ApprovalGiven(asked.turn, asked.call, "denied", "no")
    return with_values(approves(address, asked), is_always=True)


def forms(draft: Draft) -> None:
    """Ask for input in two rounds."""
    draft.tools.append(tool_spec("form", "write"))
    draft.results["form"] = asks_twice
    draft.turns[0].append(("form", {"text": "x"}))
    draft.turns[2].append(("form", {"text": "y"}))


def changing_tools(draft: Draft) -> None:
    """Change tools by the client, and from inside of a tool."""
    draft.tools.append(tool_spec("put", "idempotent"))

    def put(who: str, call: CallTool) -> ToolReturned:
        every = (*draft.tools, tool_spec("late"))
        return with_values(did(who, call), tools=ToolsChange(every, address=who))

    draft.results["put"] = put
    draft.turns[0].append(PUT)
    draft.turns[1].append(("late", {}))
    draft.fields["changes"] = [ToolsChange((tool_spec("look"), tool_spec("more")), profile="kid")]


def cached_results(draft: Draft) -> None:
    """Give results again."""
    rules = (CacheRules(), CacheRules(over_writes=True), CacheRules(ttl_ms=400, over_writes=True))
    names = ("fresh", "keep", "aged")
    draft.tools += [with_values(tool_spec(name), cache=rule) for name, rule in zip(names, rules, strict=True)]
    for turn in draft.turns:
        turn += [(name, {"path": "x"}) for name in names]


def shared_state(draft: Draft) -> None:
    """Read and update the shared state by every tool."""
    draft.fields["state"] = KEYS

    def update(who: str, call: CallTool, state: State, body: ToolReturned) -> ToolReturned:
        found = counting(who, call, state)
        if body.status != "ok":
            return body
        read, written = found.state_read, found.state_update
        is_read = call.effect == "read"
        return with_values(body, state_read=read, state_update=() if is_read else written)

    draft.more.append(update)
    draft.tools.append(tool_spec("add", "idempotent"))
    draft.turns[0].append(("add", {}))
    draft.turns[1].append(("add", {}))


def memory(draft: Draft) -> None:
    """Use a memory and files, some with labels."""
    draft.tools += [tool_spec("recall"), tool_spec("learn", "write")]

    def use(*reached: Reach) -> Result:
        return lambda who, call: with_values(did(who, call), uses=reached)

    draft.results["recall"] = use(Reach("memory", "shared"), Reach("read", "docs/a", "1"))
    draft.results["learn"] = use(
        Reach("memory", "shared"),
        Reach("write", "docs/a", "1", ("untrusted",)),
        Reach("hosts", "https://a.example:443"),
    )
    draft.turns[0].append(("learn", {}))
    draft.turns[1].append(("recall", {}))


# --- rights -------------------------------------------------------------------------


def permissions(draft: Draft) -> None:
    """Want more than the rights allow, and go on in processes that allow less."""
    draft.tools += [tool_spec("secret"), NET]
    draft.bundle = Bundle(
        do=Allowed(read=("docs",), write=("docs",)),
        deny=Denied(tools=("secret",)),
        delegate=Allowed(effects=("read", "idempotent"), agents=("kid", "poor", "finder", "mute", "heir")),
    )
    draft.turns[0] += [("secret", {}), FETCH]
    draft.turns[2].append(FETCH)
    draft.fields["resumed"] = Resumed(RULES, permissions=(NO_NETWORK,))


def labels(draft: Draft) -> None:
    """Read an untrusted text, and then want to send it."""
    draft.tools += [PAGE, *([] if NET in draft.tools else [NET])]
    draft.layers = (*draft.layers, GUARDED)
    draft.turns[0].append(BROWSE)
    draft.turns[1].append(FETCH)


# --- limits and models --------------------------------------------------------------


def rooms(draft: Draft) -> None:
    """Cut long results to their rooms in a budget."""
    draft.limits["tokens"] = 60_000
    draft.limits["max_result_chars"] = 150
    draft.profiles.append(profile("talker"))
    draft.lines["talker"] = [Reply("Ich habe überall nachgesehen, und da ist: nichts. " * 200)]
    draft.turns[0].append(task("talker"))
    draft.turns[1].append(task("nobody"))


def fallback(draft: Draft) -> None:
    """Ask a second model where the first one is busy."""
    draft.model |= {"prices": PRICES, "fallback": (SECOND,), "fallback_on": PASSING}
    draft.failing.append(
        lambda request: BUSY if request.model.name == "scripted" and request.attempt == 1 else None
    )


def deadlines(draft: Draft) -> None:
    """End one child by its deadline, and perhaps the ask."""
    draft.ask_limits["deadline_s"] = 30
    draft.profiles.append(profile("brisk", [], ["look"], limits=Limits(deadline_s=1)))
    draft.lines["brisk"] = [calls(LOOK), DONE]
    draft.failing.append(lambda request: BUSY if (request.profile, request.turn) == ("brisk", 2) else None)
    draft.turns[0].append(task("brisk"))


def retries(draft: Draft) -> None:
    """Try failed calls of models again."""
    draft.failing.append(lambda request: BUSY if request.attempt == 1 and request.turn % 2 else None)


# --- sessions -----------------------------------------------------------------------


def reopen_and_sleep(draft: Draft) -> None:
    """Ask twice, and close the session after each ask."""
    draft.prompts = 2
    draft.fields |= {"closes": True, "reopens": True}


def capacity(draft: Draft) -> None:
    """Share the place for calls of a model with another session."""
    draft.capacity = {"scripted": Capacity(calls=1)}


def fork_effects(draft: Draft) -> None:
    """Fork the session with another result of its first tool, and ask a person about effects."""
    draft.fork |= {"effects": "ask", "changes": True}


def fork_clock(draft: Draft) -> None:
    """Fork the session early, under a deadline."""
    draft.fork |= {"base": True}
    draft.ask_limits.setdefault("deadline_s", 5)


def programs(draft: Draft) -> None:
    """Let a program use the tools and agents, and delegate to the main agent."""
    draft.main = "main"
    draft.shapes.append(of_program)


def orchestrator(draft: Draft) -> None:
    """Let the main agent, or the program above it, be a specialist of an orchestrator."""
    if draft.shapes:
        draft.top = "tables"
    else:
        draft.main = "tables"
    draft.shapes.append(of_orchestrator)


FEATURES: Final[Mapping[str, Callable[[Draft], None]]] = {
    one.__name__: one
    for one in (
        background, task_wait, named_waits, tells, races, reports, contracts, contexts, silence, lines,
        approvals, forms, changing_tools, cached_results, shared_state, memory, permissions, labels, rooms,
        fallback, deadlines, retries, reopen_and_sleep, capacity, fork_effects, fork_clock, programs,
        orchestrator,
    )
}  # fmt: skip
"""Each feature by name, with the piece that it adds to a session."""

PAIRS: Final[Sequence[tuple[str, str]]] = tuple(combinations(FEATURES, 2))
"""All pairs of features."""

FAULT_RUNS: Final = 4
PAIR_RUNS: Final = 12
"""The runs that the campaign makes of a scenario with one kind of fault, and of a pair of features."""


def of_features(*names: str, chosen: Faults = NO_FAULTS) -> AnyScenario:
    """Build a session that uses these features. chosen: its faults."""
    draft = Draft()
    for name in FEATURES:
        if name in names:
            FEATURES[name](draft)
    if draft.fork:
        return forked(draft, chosen)
    made = draft.scenario(chosen)
    if not draft.capacity:
        return made
    other = Scenario([profile("host")], lambda request: DONE, [ask()])
    is_rough = bool(chosen.kinds)
    leaves = ("a",) if is_rough else ()
    return SharedScenario({"a": made, "b": other}, draft.capacity, crashes=int(is_rough), leaves=leaves)
