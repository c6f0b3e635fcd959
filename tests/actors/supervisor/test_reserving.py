"""What a parent keeps for results: how much, who has to leave it, and what the parent reads of them."""

import pytest
from msgspec.structs import replace

from callboard.actors.protocol import prompts
from callboard.actors.protocol.client_messages import RULES, AskEnded, Resumed
from callboard.actors.protocol.conversation import text_block, text_json
from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.folded_results import json_bytes
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.limits import DEFAULTS, Limits
from callboard.actors.protocol.messages import (
    Begin,
    Delegate,
    DelegationEnded,
    ReportBack,
    TurnRequested,
    TurnSettled,
)
from callboard.actors.protocol.port_messages import CallModel, SchemaChecked
from callboard.actors.protocol.profiles import ModelSpec, Prices, Profile
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import NOTHING, ZERO, Need, Usage
from callboard.actors.protocol.value_types import Settled
from callboard.actors.supervisor.reserve import NO_RESERVE, Reserve, add
from callboard.actors.supervisor.reserving import (
    PARTS,
    RESULT_BYTES_MIN,
    at_end,
    at_new_turn,
    bytes_of_result,
    excess,
    for_delegation,
)
from callboard.actors.supervisor.state import Budget, Delegation, Record
from callboard.replay.testing.sessions.monitors import breaches_of
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, task
from callboard.replay.testing.sessions.world import SessionWorld
from tests.actors.harness import SessionHarness, raw, said
from tests.tables import table

PROMPT = text_json("help")


def session(limits: Limits, prices: Prices | None = None) -> SessionHarness:
    people = profile("host", ["kid"], prices=prices), profile("kid", ["kid"], prices=prices)
    head = SessionHarness(*people, limits=limits).opens()
    head.asks()
    return head


def delegate(
    head: SessionHarness,
    call: int = 0,
    *,
    closing: int = 10,
    room: int = 8_000,
    of: int = 1,
    who: str = "host",
) -> Delegate:
    request = Delegate(1, call, ("kid",), PROMPT, closing=Need(closing), room=room, delegations=of)
    head.hears("host", request)
    return request


def room_of(head: SessionHarness, who: str = "host", nth: int = 0) -> int:
    record = head.record(who)
    assert record is not None
    return [one.room for one in record.delegations.values()][nth]


def reserve(head: SessionHarness, who: str = "host") -> tuple[int, int]:
    record = head.record(who)
    assert record is not None
    return record.kept.total.tokens, add(record.kept.results, record.kept.ends).tokens


@table(
    ("tokens", "of", "room"),
    [
        (200_000, 1, 8_000),
        (200_000, 32, 1_562),  # a quarter, in equal parts
        (32_000, 1, 8_000),
        (31_999, 1, 7_999),
        (4_000, 2, 500),
        (2_000, 32, 500),
    ],
)
def test_a_room_is_an_even_part_of_a_quarter_of_the_budget_and_at_least_500_bytes(
    tokens: int, of: int, room: int
) -> None:
    head = session(Limits(tokens=tokens))
    delegate(head, of=of)
    assert room_of(head) == room
    assert reserve(head) == (10 + room, room)


def test_without_a_limit_the_room_is_what_the_parent_wants_and_nothing_is_reserved() -> None:
    head = session(Limits())
    delegate(head)
    assert room_of(head) == 8_000
    assert reserve(head) == (10, 0)


def test_a_parent_that_wants_no_room_reads_all_and_keeps_no_room() -> None:
    head = session(Limits(tokens=1_000))
    delegate(head, 0, room=0)
    delegate(head, 1, room=0)
    assert reserve(head) == (10, 0)
    (end, *_) = head.ends("host.1", text="x" * 5_000)
    assert isinstance(end.body, DelegationEnded)
    assert end.body.room == 0
    assert reserve(head) == (10, 0)


def test_a_users_own_limit_may_be_below_500() -> None:
    head = session(Limits(tokens=100_000))
    delegate(head, room=20)
    assert room_of(head) == 20


def test_a_budget_of_dollars_is_counted_in_bytes_at_the_highest_price_of_input() -> None:
    prices = Prices(input_usd=3, output_usd=15, cache_write_usd=4)
    head = session(Limits(cost_usd=0.04), prices)  # 40,000 micro-dollars: 10,000 bytes
    delegate(head)
    record = head.record("host")
    assert record is not None
    assert room_of(head) == 2_500
    assert record.kept.results == Need(2_500, 10_000)


def test_free_input_needs_no_part_of_a_budget_of_dollars() -> None:
    head = session(Limits(cost_usd=0.04), Prices(input_usd=0, output_usd=15))
    delegate(head)
    assert room_of(head) == 8_000


def test_amounts_spent_and_reserves_above_are_not_left() -> None:
    head = session(Limits(tokens=10_000))
    delegate(head, closing=1_000)  # and 2,500 for its result
    head.wants("host.1", 500)
    head.hears("host.1", Delegate(1, 0, ("kid",), PROMPT, closing=Need(10), room=8_000, settled=settled(500)))
    assert room_of(head, "host.1") == (10_000 - 500 - 3_500) // 4


def settled(tokens: int) -> Settled:
    return Settled(Usage(tokens))


def test_every_delegation_of_a_reply_has_a_room() -> None:
    head = session(Limits(tokens=100_000))
    delegate(head, 0, of=2)
    delegate(head, 1, of=2)
    assert reserve(head) == (16_010, 16_000)


def test_the_reserve_ends_with_the_turn_that_it_was_kept_for() -> None:
    head = session(Limits(tokens=100_000))
    delegate(head)
    head.ends("host.1")
    head.wants("host", turn=2)
    record = head.record("host")
    assert record is not None
    assert record.kept is NO_RESERVE


@pytest.mark.parametrize(("tokens", "may"), [(1_511, True), (1_510, False)])
def test_a_delegation_for_whose_result_nothing_is_left_is_refused_with_both_figures(
    tokens: int, may: bool
) -> None:
    head = session(Limits(tokens=tokens))
    request = Delegate(1, 0, ("kid",), PROMPT, closing=Need(1_010), room=8_000)
    (post,) = head.hears("host", request)
    assert isinstance(post.body, Begin) == may
    if isinstance(post.body, DelegationEnded):
        assert (post.body.kind, post.body.room) == ("budget", 0)
        assert post.body.detail == (
            "the budget of host leaves nothing for a sub-agent: 0 of 1,510 tokens are spent, "
            "the next turn needs up to 1,010, and the results of its delegations up to 500"
        )


def test_a_delegation_leaves_the_reserves_of_all_agents_above_its_parent() -> None:
    head = session(Limits(tokens=2_200))
    delegate(head, closing=1_000)  # and a room of 550
    (post,) = head.hears("host.1", Delegate(1, 0, ("kid",), PROMPT, closing=Need(150), room=8_000))
    assert isinstance(post.body, DelegationEnded)
    assert post.body.detail == (
        "the budget of host leaves nothing for a sub-agent: 0 of 2,200 tokens are spent, "
        "the next turn needs up to 150, and the results of its delegations up to 500, "
        "closing turns above it up to 1,550"
    )


def test_a_report_that_exceeds_its_room_is_left_by_the_children_that_still_run() -> None:
    head = session(Limits(tokens=100_000))
    schema = raw({"type": "object"})
    for call in (0, 1):
        head.hears(
            "host",
            Delegate(1, call, ("kid",), PROMPT, schema, closing=Need(10), room=500, delegations=2),
        )
    head.accepts()
    value = raw({"text": "x" * 700})
    head.hears("host.1", ReportBack(1, 0, value))
    head.accepts(2)
    assert reserve(head) == (10 + 1_000 + 215, 1_000 + 215)  # 711 bytes, and 4 marks that are escaped


def test_a_denial_counts_as_it_is() -> None:
    head = session(Limits(tokens=100_000))
    delegate(head, 0, of=2)
    head.hears("host", Delegate(1, 1, ("nobody",), PROMPT, closing=Need(10), room=8_000, delegations=2))
    told = "The delegation failed (denied): there is no agent 'nobody' to delegate to; there are: kid."
    assert reserve(head) == (10 + 8_000 + len(told), 8_000 + len(told))


def in_background(head: SessionHarness, turn: int = 1, call: int = 0) -> None:
    wanted = Delegate(turn, call, ("kid",), PROMPT, closing=Need(10), room=8_000, mode="background")
    head.hears("host", wanted)


def test_the_room_of_an_end_that_crossed_a_request_is_given_back_once_the_end_is_heard() -> None:
    head = session(Limits(tokens=100_000))
    in_background(head)
    head.ends("host.1")
    asks_for_turn(head, 2)  # before the end came, so its room is still kept
    assert reserve(head)[1] > 8_000
    asks_for_turn(head, 3, ends=1)
    assert reserve(head) == (0, 0)


def asks_for_turn(head: SessionHarness, turn: int, ends: int = 0, need: int = 100) -> list[Post]:
    used = Settled(Usage(0))
    return head.hears("host", TurnRequested(turn, 1, Need(need), "d", ends=ends, settled=used))


def test_a_call_that_waits_is_granted_when_its_parent_has_heard_an_end_and_needs_less_room() -> None:
    head = session(Limits(tokens=40_000))
    for call in (0, 1, 2):
        in_background(head, call=call)
    asks_for_turn(head, 2)
    head.hears("host", TurnSettled(Usage(0), closing=Need(10)))
    assert "model:CallModel" in said(head.wants("host.1", 15_000))  # the call that makes others wait
    assert said(head.wants("host.2", 2_000)) == []
    head.ends("host.3")
    posts = asks_for_turn(head, 3, ends=1)
    assert next(one.body for one in posts if isinstance(one.body, CallModel)).agent == "host.2"


def tasks_of(head: SessionHarness) -> Need:
    record = head.record("host")
    assert record is not None
    return record.kept.ends


@pytest.mark.parametrize(
    ("before", "after"),
    [(Limits(), Limits(tokens=100_000)), (Limits(tokens=100_000), Limits())],
    ids=["added", "lifted"],
)
@pytest.mark.parametrize("is_denied", [False, True])
def test_the_room_of_a_task_is_given_back_as_it_was_kept_also_under_other_limits(
    before: Limits, after: Limits, is_denied: bool
) -> None:
    head = session(before)
    schema = Json(b'{"type":"object"}') if is_denied else NULL
    wanted = Delegate(1, 0, ("kid",), PROMPT, schema, closing=Need(10), room=8_000, mode="background")
    head.hears("host", wanted)
    head.hears("client", Resumed(RULES, limits=after))
    if is_denied:
        head.hears("schema", SchemaChecked(1, "invalid"))
    else:
        head.ends("host.1")
        asks_for_turn(head, 2, ends=1)
    assert tasks_of(head) == NOTHING


@pytest.mark.parametrize(("rules", "left"), [(1, "less than nothing"), (2, "nothing")])
def test_sessions_of_earlier_rules_give_back_the_room_under_the_limits_of_that_time(
    rules: int, left: str
) -> None:
    head = session(Limits())
    head.state = replace(head.state, rules=rules)
    in_background(head)
    head.hears("client", Resumed(rules, limits=Limits(tokens=100_000)))
    head.ends("host.1")
    asks_for_turn(head, 2, ends=1)
    assert (tasks_of(head).tokens < 0) == (left == "less than nothing")


# --- whole sessions -------------------------------------------------------------------------


def one_child(request: ModelRequest) -> Reply:
    if request.profile == "host":
        return calls(task("kid")) if request.turn == 1 else Reply("done")
    return replace(calls(("look", {}), text="x" * 900), percent=100)


def test_a_child_that_spends_all_it_may_leaves_its_parent_the_turn_to_answer() -> None:
    people = [profile("host", ["kid"]), profile("kid", [], ["look"])]
    made = SessionWorld(Scenario(people, one_child, [ask()], Limits(tokens=5_000))).run()
    (end,) = made.of(DelegationEnded)
    assert (end.kind, len(end.text)) == ("budget", 900)
    assert [one.kind for one in made.of(AskEnded)] == ["answered"]
    assert breaches_of(made) == []


@pytest.mark.parametrize("children", [26, 32])
def test_many_children_in_one_budget_all_answer(children: int) -> None:
    def policy(request: ModelRequest) -> Reply:
        if request.profile == "host":
            return calls(*[task("kid")] * children) if request.turn == 1 else Reply("done")
        return Reply("y" * 900)

    people = [profile("host", ["kid"]), profile("kid", [], ["look"])]
    made = SessionWorld(Scenario(people, policy, [ask()], Limits(tokens=200_000))).run()
    assert [end.kind for end in made.of(DelegationEnded)] == ["answered"] * children
    assert [one.kind for one in made.of(AskEnded)] == ["answered"]
    assert breaches_of(made) == []


def test_a_parent_reads_no_more_of_an_answer_than_its_room_and_the_log_has_all_of_it() -> None:
    def policy(request: ModelRequest) -> Reply:
        if request.profile == "host":
            return calls(task("kid")) if request.turn == 1 else Reply("done")
        return Reply("é\n" * 3_000)

    limits = Limits(max_result_chars=1_000)
    made = SessionWorld(Scenario([profile("host", ["kid"]), profile("kid")], policy, [ask()], limits)).run()
    (end,) = made.of(DelegationEnded)
    assert (len(end.text), end.room) == (6_000, 1_000)
    wish = next(one for one in made.of(TurnRequested) if one.turn == 2)
    assert wish.need.tokens < 1_300
    assert breaches_of(made) == []


# --- amounts below several budgets ------------------------------------------------------

CHEAP, DEAR = ModelSpec("cheap", 100, prices=Prices(1, 1)), ModelSpec("dear", 100, prices=Prices(2, 1))


def lineage(
    above: tuple[Budget, Usage, Reserve], own: tuple[Budget, Usage, Reserve], model: ModelSpec = DEAR
) -> list[Record]:
    """Make a host with a cheap model and its child, with these budgets, amounts spent and kept."""
    return [
        Record(address, 1, 1, Profile("p"), spec, DEFAULTS, 0, budget, spent, NOTHING, kept)
        for address, spec, (budget, spent, kept) in (("host", CHEAP, above), ("host.1", model, own))
    ]


NONE = Budget(), ZERO, NO_RESERVE
KEPT = Reserve(turn=Need(300, 4_000))


@table(
    ("above", "own", "left"),
    [
        (NONE, NONE, None),
        ((Budget(30_000), Usage(2_000), NO_RESERVE), NONE, 28_000),
        ((Budget(30_000), Usage(2_000), KEPT), NONE, 27_700),
        ((Budget(30_000), ZERO, NO_RESERVE), (Budget(20_000), Usage(1_000), KEPT), 19_000),
        ((Budget(None, 60_000), Usage(micro_usd=6_000), KEPT), NONE, 25_000),
        ((Budget(30_000, 40_000), ZERO, NO_RESERVE), NONE, 20_000),
        ((Budget(30_000, 90_000), ZERO, NO_RESERVE), NONE, 30_000),
        ((Budget(2_000), Usage(2_000), NO_RESERVE), NONE, 0),
        ((Budget(2_000), Usage(9_000), NO_RESERVE), NONE, 0),
    ],
)
def test_the_room_of_a_result_is_a_part_of_the_least_that_a_budget_has_left(
    above: tuple[Budget, Usage, Reserve], own: tuple[Budget, Usage, Reserve], left: int | None
) -> None:
    request = Delegate(1, 0, ("kid",), PROMPT, room=80_000, delegations=2)
    room = 80_000 if left is None else max(RESULT_BYTES_MIN, left // (2 * PARTS))
    assert bytes_of_result(lineage(above, own), request) == room


LIMITED = Budget(10**6), ZERO, NO_RESERVE


def test_what_is_kept_for_a_background_task_is_that_of_its_parent_and_model() -> None:
    kept = Reserve(turn=Need(5), results=Need(6), ends=Need(7))
    ancestry = lineage(LIMITED, (Budget(), ZERO, kept))
    request = Delegate(1, 0, ("kid",), PROMPT, closing=Need(9), mode="background")
    then, end = for_delegation(ancestry, request, "host.1.1", 1_000, NOTHING)
    frame = len(text_block(prompts.task_ended_with("host.1.1", "")))
    assert end == Need(1_000 + frame, 2 * (1_000 + frame))
    assert (then.turn, then.ends) == (Need(9), add(kept.ends, end))
    assert then.results.tokens > kept.results.tokens
    task = Delegation(1, 1, 0, (1,), is_background=True, kept=end, room=1_000)
    over = DelegationEnded(1, 0, "answered", address="host.1.1", room=1_000)
    assert at_end(ancestry, task, over, is_last=True, rules=2) == (kept, end)
    assert at_end(ancestry, task, over, is_last=True, rules=1) == (kept, end)
    assert at_end(lineage(NONE, NONE), task, over, is_last=True, rules=1) == (NO_RESERVE, NOTHING)


@table(
    ("kind", "room", "is_over"),
    [
        ("answered", 0, True),
        ("answered", 1, False),
        ("reported", 1, True),
        ("reported", 10_000, False),
        ("reported", 0, True),
    ],
)
def test_a_result_exceeds_its_room_if_it_is_a_report_or_has_none(
    kind: OutcomeKind, room: int, is_over: bool
) -> None:
    end = DelegationEnded(1, 0, kind, value=Json(b'"' + b"x" * 500 + b'"'), room=room)
    size = json_bytes(prompts.delegation_result(end)[0]) - room
    assert excess(lineage(LIMITED, NONE), end) == (Need(size, 2 * size) if is_over else NOTHING)


def test_a_heard_end_is_given_back_once() -> None:
    ended = IntMap[Need]().put(1, Need(30)).put(2, Need(40))
    record = replace(lineage(NONE, NONE)[1], kept=Reserve(ends=Need(70)), ended=ended)
    for ends, left in ((1, 40), (1, 0), (1, 0)):
        record = at_new_turn(record, TurnRequested(1, 1, Need(5), "d", ends=ends))
        assert record.kept.ends == Need(left)
