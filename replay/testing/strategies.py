"""Hypothesis strategies for sessions: agents, limits, replies, messages, faults and orders.

@given(delegation_plans(), fault_plans(), orders())
def test_no_session_breaks_a_rule(plan, wrong, order):
    world = SessionWorld(plan.scenario(wrong)).run(order)
    assert breaches_of(world) == []
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.client_messages import Tell
from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.profiles import OnFinish, Prices, Profile
from callboard.actors.protocol.prompts import REPORT_BACK, TASK, TASK_CANCEL, TASK_WAIT
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.value_types import ModelFailure
from callboard.replay.testing.sessions.faults import KINDS, Faults
from callboard.replay.testing.sessions.scenario import (
    NO_LIMITS,
    Check,
    Scenario,
    ask,
    check_required,
    profile,
    tell,
)
from callboard.replay.testing.sessions.scripted_replies import Reply, Use

try:
    from hypothesis import strategies as st
    from hypothesis.strategies import SearchStrategy
except ImportError as error:
    raise ImportError("strategies need Hypothesis: pip install 'callboard[testing]'") from error

TOOLS: dict[str, Effect] = {"look": "read", "put": "idempotent", "save": "write"}
"""The tools that agents may have, and their effects."""

PRICES = Prices(input_usd=3, output_usd=15)

FAILURES = (
    ModelFailure("overloaded_error", is_retryable=True),
    ModelFailure("rate_limit_error", is_retryable=True, retry_after_ms=20),
    ModelFailure("garbage", is_retryable=True, digest="d1"),
    ModelFailure("invalid_request_error"),
    ModelFailure("context_full"),
)

REPORTS: tuple[dict[str, object], ...] = ({"n": 1}, {"m": 1})
"""Two values to report: the first matches `SCHEMA`, the second does not."""

SCHEMA: dict[str, object] = {"type": "object", "required": ["n"]}

_TASKS: dict[str, dict[str, object]] = {
    "task": {},
    "task with schema": {"output_schema": SCHEMA},
    "race": {"copies": 2},
    "background task": {"background": True},
    "background race": {"background": True, "copies": 2},
}

_WAITS: dict[str, dict[str, object]] = {"wait for all": {}, "wait for one": {"any": True}}

_ADDRESSES = (HOST, f"{HOST}.1", f"{HOST}.2", f"{HOST}.1.1")

_texts = st.sampled_from(["done", "", "hm", "I have looked everywhere."])


# --- limits, schemas ----------------------------------------------------------------


@cache
def limits(*, budgets: bool = True, deadlines: bool = True) -> SearchStrategy[Limits]:
    """Bounds, most of them small enough to be met. budgets, deadlines: whether there may be any."""
    bounds: dict[str, SearchStrategy[int]] = {
        "max_iterations": st.integers(1, 6),
        "max_steps": st.integers(1, 12),
        "max_depth": st.integers(0, 3),
        "max_children": st.integers(0, 4),
        "max_agents": st.integers(1, 8),
        "max_parallel_calls": st.integers(1, 3),
        "max_report_attempts": st.integers(1, 3),
        "max_model_attempts": st.integers(1, 3),
        "max_tool_calls": st.integers(1, 4),
        "max_parallel_tools": st.integers(1, 2),
        "max_result_chars": st.integers(1, 600),
    }
    if budgets:
        bounds["tokens"] = st.integers(0, 30_000)
    if deadlines:
        bounds["deadline_s"] = st.integers(1, 60)
        bounds["cancel_grace_s"] = st.integers(0, 10)
    stated = st.one_of([st.tuples(st.just(name), value) for name, value in bounds.items()])
    return st.lists(stated, max_size=4).map(lambda found: Limits(**dict[str, Any](found)))


class SchemaCase(NamedTuple):
    """A JSON schema, a value that matches it, and one that does not."""

    schema: dict[str, object]
    right: object
    wrong: object


_numbers = st.builds(
    lambda least, more: SchemaCase({"type": "integer", "minimum": least}, least + more, least - 1),
    st.integers(-5, 5),
    st.integers(0, 5),
)
_words = st.lists(st.sampled_from("abcde"), min_size=1, max_size=3, unique=True).map(
    lambda words: SchemaCase({"enum": words}, words[0], "none of these")
)
_flags = st.booleans().map(lambda flag: SchemaCase({"type": "boolean"}, flag, "true"))


def _object(cases: dict[str, SchemaCase]) -> SchemaCase:
    """Make an object schema; a wrong value lacks its only property, or has the last one wrong."""
    properties = {name: case.schema for name, case in cases.items()}
    right = {name: case.right for name, case in cases.items()}
    last = list(cases)[-1]
    wrong = {**right, last: cases[last].wrong} if len(cases) > 1 else {}
    return SchemaCase({"type": "object", "properties": properties, "required": list(cases)}, right, wrong)


def _list(case: SchemaCase) -> SchemaCase:
    schema = {"type": "array", "items": case.schema, "minItems": 1}
    return SchemaCase(schema, [case.right], [case.right, case.wrong])


def _nested(inner: SearchStrategy[SchemaCase]) -> SearchStrategy[SchemaCase]:
    objects = st.dictionaries(st.sampled_from(["n", "name", "found"]), inner, min_size=1, max_size=3)
    return objects.map(_object) | inner.map(_list)


def schema_cases() -> SearchStrategy[SchemaCase]:
    """Draw schemas with a report that matches and one that does not."""
    return st.just(_object({"n": SchemaCase({"type": "integer"}, 1, "1")})) | st.recursive(
        _numbers | _words | _flags, _nested, max_leaves=4
    )


# --- the agents and their replies ----------------------------------------------------


class Script(msgspec.Struct, frozen=True):
    """A policy that prints: what each profile says, turn by turn; after that, "done"."""

    replies: dict[str, tuple[Reply, ...]]

    def __call__(self, request: ModelRequest) -> Reply:
        """Return the reply of this turn. An attempt after a failed one is answered."""
        own = self.replies.get(request.profile, ())
        says = own[request.turn - 1] if request.turn <= len(own) else Reply("done")
        return Reply("done") if request.attempt > 1 and (says.failure or says.is_lost) else says


class _Member(NamedTuple):
    """An agent, before it is known who else is there: others are numbers, taken modulo how many there are."""

    tools: list[str]
    may: list[int]
    limits: Limits
    says: list[Reply | list[tuple[str, int]]]
    background: bool = False
    on_finish: OnFinish = "wait"


_CALLS = ("nonsense", "tool", "task", "task with schema", "race", "report", "wrong report")
_BACKGROUND_CALLS = ("background task", "background race", *_WAITS, "cancel task")


@cache
def _members(
    reports: bool, tools: bool, delegates: bool, background: bool = False
) -> SearchStrategy[_Member]:
    """Draw agents. delegates: the first reply of each delegates. background: so that they go on meanwhile."""
    calls = [call for call in _CALLS if (tools or call != "tool") and (reports or "report" not in call)]
    calls += _BACKGROUND_CALLS if background else ()
    acts = st.lists(st.tuples(st.sampled_from(calls), st.integers(0, 3)), min_size=1, max_size=3)
    fails = st.sampled_from(FAILURES).map(lambda failure: Reply(failure=failure, usage=None))
    unmetered = st.just(Reply("unmetered", usage=None))
    says = st.lists(st.one_of(_texts.map(Reply), acts, fails, unmetered), max_size=4)
    if delegates:
        names = [name for name in _TASKS if name.startswith("background") == background]
        tasks = st.lists(st.tuples(st.sampled_from(names), st.integers(0, 3)), min_size=1, max_size=2)
        says = st.builds(lambda first, rest: [first, *rest[:3]], tasks, says)
    return st.builds(
        _Member,
        st.lists(st.sampled_from(list(TOOLS)), unique=True) if tools else st.just([]),
        st.lists(st.integers(0, 3), min_size=int(delegates), max_size=3),
        st.one_of(st.just(NO_LIMITS), limits(deadlines=False)),
        says,
        st.just(background),
        st.sampled_from(["wait", "wait", "cancel"]) if background else st.just("wait"),
    )


@cache
def _casts(most: int, reports: bool, tools: bool, background: bool) -> SearchStrategy[list[_Member]]:
    """Draw some agents, the host first."""
    # In seven of eight there is an agent to ask, and the host does so at once; in four the second does too.
    # A third of those that do so may do it in the background.
    asks = _members(reports, tools, True)
    if background:
        asks = st.one_of(asks, asks, _members(reports, tools, True, True))
    one = st.one_of(_members(reports, tools, False), asks)
    firsts = [[one], *[[asks, one]] * 3 * (most > 1), *[[asks, asks, one]] * 4 * (most > 2)]
    return st.sampled_from([_cast(first, one, most) for first in firsts]).flatmap(lambda shape: shape)


def _cast(
    first: list[SearchStrategy[_Member]], other: SearchStrategy[_Member], most: int
) -> SearchStrategy[list[_Member]]:
    """Draw these agents, then up to `most` in all."""
    others = st.lists(other, max_size=most - len(first))
    return st.builds(lambda known, more: [*known, *more], st.tuples(*first), others)


@st.composite
def _parties(
    draw: st.DrawFn, most: int, reports: bool, tools: bool, background: bool
) -> tuple[tuple[Profile, ...], Script]:
    members = draw(_casts(most, reports, tools, background))
    names = ["host", *map("agent{}".format, range(1, len(members)))]
    profiles, replies = [], {}
    for index, (name, member) in enumerate(zip(names, members, strict=True)):
        later = names[index + 1 :]
        may = sorted({later[number % len(later)] for number in member.may}) if later else []
        profiles.append(_profile(name, may, member))
        replies[name] = tuple(_reply(one, may, member.tools) for one in member.says)
    return tuple(profiles), Script(replies)


def _profile(name: str, may: list[str], member: _Member) -> Profile:
    effects: tuple[Effect, ...] = ("read", "write", "idempotent")
    reads, writes, repeats = ([one for one in member.tools if TOOLS[one] == effect] for effect in effects)
    return profile(
        name,
        may,
        reads,
        writes=writes,
        repeats=repeats,
        limits=member.limits,
        prices=PRICES,
        background=member.background,
        on_finish=member.on_finish,
    )


def _reply(made: Reply | list[tuple[str, int]], may: list[str], tools: list[str]) -> Reply:
    if isinstance(made, Reply):
        return made
    return Reply("I act", tuple(_use(call, number, may, tools) for call, number in made), "tool_use")


def _use(call: str, number: int, may: list[str], tools: list[str]) -> Use:
    """Return a call of an existing agent or tool; of an unknown tool if the profile has none."""
    match call:
        case "report" | "wrong report":
            return REPORT_BACK, dict(REPORTS[call.startswith("wrong")])
        case "tool" if tools:
            return tools[number % len(tools)], {"path": "x"}
        case "cancel task":
            return TASK_CANCEL, {"task": _ADDRESSES[number]}
        case _ if call in _WAITS:
            return TASK_WAIT, _WAITS[call]
        case _ if call in _TASKS and may:
            return TASK, {"agent": may[number % len(may)], "prompt": "work", **_TASKS[call]}
    return "nonsense", {}


def rosters(
    most: int = 4, *, tools: bool = True, background: bool = True
) -> SearchStrategy[tuple[Profile, ...]]:
    """Draw up to `most` agents, the host first; each delegates to later ones only, so that it ends.

    background: some of them may delegate in the background.
    """
    return _parties(most, True, tools, background).map(lambda party: party[0])


def policies(
    most: int = 4, *, reports: bool = True, background: bool = True
) -> SearchStrategy[tuple[tuple[Profile, ...], Script]]:
    """Draw agents and their replies.

    reports: some of them report, rightly or wrongly. background: some delegate in the background, and wait
    for such tasks or cancel them.
    """
    return _parties(most, reports, True, background)


def tells(most: int = 3) -> SearchStrategy[tuple[Tell, ...]]:
    """Draw up to `most` texts of the client, for the host and for agents that may run or not."""
    words = st.tuples(st.sampled_from(["hurry", "stop"]), st.sampled_from(_ADDRESSES))
    return st.lists(words, max_size=most).map(
        lambda found: tuple(tell(text, who, f"t{at}") for at, (text, who) in enumerate(found, 1))
    )


# --- whole sessions ---------------------------------------------------------------------


class DelegationPlan(msgspec.Struct, frozen=True):
    """A whole session: its agents, their replies, the client's prompts and words for agents, the limits."""

    profiles: tuple[Profile, ...]
    policy: Script
    prompts: tuple[str, ...] = ("go",)
    schema: dict[str, object] | None = None
    limits: Limits = NO_LIMITS
    closes: bool = False
    tells: tuple[Tell, ...] = ()

    def scenario(self, faults: Faults | None = None, check: Check = check_required) -> Scenario:
        """Return the scenario to make worlds of. faults: the possible ones. check: the schema port."""
        asks = [ask(prompt, self.schema, NO_LIMITS, f"r{n}") for n, prompt in enumerate(self.prompts, 1)]
        faults = faults or Faults()
        return Scenario(
            self.profiles,
            self.policy,
            asks,
            self.limits,
            check=check,
            closes=self.closes,
            faults=faults,
            tells=self.tells,
        )


@st.composite
def delegation_plans(
    draw: st.DrawFn, most: int = 4, *, bounded: bool = True, background: bool = True
) -> DelegationPlan:
    """Draw sessions of up to `most` kinds of agents.

    bounded: whether they have limits. background: whether there are background tasks, and words for agents.
    """
    roster, script = draw(policies(most, background=background))
    schema = draw(st.sampled_from([None, SCHEMA]))
    prompts = tuple(draw(st.lists(st.sampled_from(["go", "go on"]), min_size=1, max_size=2)))
    bounds = draw(st.one_of(st.just(NO_LIMITS), limits())) if bounded else NO_LIMITS
    words = draw(tells()) if background else ()
    return DelegationPlan(roster, script, prompts, schema, bounds, draw(st.booleans()), words)


def fault_plans(*kinds: str, most: int = 4) -> SearchStrategy[Faults]:
    """Draw faults: some of these kinds, or of all; offered all the time, up to `most` in a run."""
    chosen = st.frozensets(st.sampled_from(sorted(kinds or KINDS)), max_size=6)
    return st.builds(Faults, chosen, st.integers(0, most), st.just(0))


class Order:
    """Picks one of n moves, for `SessionWorld.run`: each pick in turn, then always the oldest move."""

    def __init__(self, picks: Sequence[int] = ()) -> None:
        self.picks = tuple(picks)
        self._left = list(reversed(self.picks))

    def __call__(self, n: int) -> int:
        """Return the next pick."""
        return self._left.pop() % n if self._left else 0

    def __repr__(self) -> str:
        return f"Order({list(self.picks)})"


def orders(most: int = 200) -> SearchStrategy[Order]:
    """Orders in which moves are made. The simplest is first come, first served."""
    return st.lists(st.integers(0, 63), max_size=most).map(Order)
