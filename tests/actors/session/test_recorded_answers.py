"""Recorded answers: which one fits which request of a fork, what changes in it, and how often it is given."""

from typing import Any

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.addresses import MODEL
from callboard.actors.protocol.client_messages import (
    Ask,
    AskEnded,
    Close,
    Forked,
    Resumed,
    RevokePermission,
    SessionOpened,
    Tell,
)
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.file_versions import FileVersion
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import AnyMessage, Begin, TurnRequested
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    BudgetGiven,
    CallModel,
    CallTool,
    CheckSchema,
    ModelReplied,
    RequestApproval,
    RequestBudget,
    SchemaChecked,
    SetTimer,
    TimerFired,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.shared_state import StateKey, StateUpdate
from callboard.actors.protocol.usage import Need
from callboard.actors.session.permissions import Permissions
from callboard.actors.session.recorded_answers import RecordedAnswers, Reusable, answer_to, is_same_input
from callboard.actors.session.request_keys import Key, RequestKeys
from callboard.actors.session.shared_state import NO_STATE, SharedState
from tests.tables import table

NEW = text_json("new")
Posts = tuple[str, str, int, AnyMessage]
OPENED: Posts = (
    "client",
    "supervisor",
    0,
    SessionOpened(2, "host", (), ModelSpec("m"), state=(StateKey("n", "replace", Json(b"1")),)),
)


def session(*posts: Posts) -> list[Event]:
    return [Event(seq, 10 * seq, *post) for seq, post in enumerate(posts, 1)]


def tool(turn: int, call: int = 0, effect: str = "read", arguments: bytes = b"{}") -> Posts:
    body = CallTool(turn, call, "look", effect, Json(arguments))  # type: ignore[arg-type]  # an effect
    return "host", "tools", 0, body


def returned(cause: int, turn: int, text: str = "seen", **more: object) -> Posts:
    body = ToolReturned(turn, 0, output=text_json(text), **more)  # type: ignore[arg-type]  # its fields
    return "tools", "host", cause, body


def keys_of(events: list[Event]) -> dict[int, Key]:
    """Return the keys of the requests among these events, by seq."""
    keys = RequestKeys()
    found = {event.seq: keys.take(event) for event in events}
    return {seq: key for seq, key in found.items() if key is not None}


def found_in(recorded: RecordedAnswers, key: Key, shared: SharedState = NO_STATE) -> int:
    found = recorded.find(key, shared)
    return found.seq if found else 0


def told(found: Reusable | None) -> ToolReturned:
    assert found is not None
    assert isinstance(found.body, ToolReturned)
    return found.body


def test_an_answer_behind_the_base_is_found_by_the_key_of_its_request() -> None:
    events = session(OPENED, tool(1), returned(2, 1), tool(2), returned(4, 2))
    key = keys_of(events)
    recorded = RecordedAnswers(events, 3)
    assert recorded.known(key[2], NO_STATE) is None, "its answer stands before the base"
    assert recorded.inputs == [], "only those behind the base come again"
    assert recorded.known(key[4], NO_STATE)
    found = recorded.find(key[4], NO_STATE)
    assert found is not None
    assert (found.seq, found.at, told(found).reused) == (5, 50, 5)
    assert found_in(recorded, ("tool", "host", 9, 0, "look", b"{}", b"")) == 0


def test_a_request_that_is_open_at_the_base_has_its_answer_by_its_seq() -> None:
    events = session(OPENED, tool(1), tool(2), returned(2, 1), returned(3, 2))
    assert {base: set(RecordedAnswers(events, base).open_at_base) for base in (1, 2, 3, 4)} == {
        1: set(),
        2: {2},
        3: {2, 3},
        4: {3},
    }


def test_of_several_answers_to_one_key_the_first_goes_and_the_last_stays() -> None:
    events = session(OPENED, tool(1), returned(2, 1, "a"), tool(1), returned(4, 1, "b"))
    key = keys_of(events)[2]
    recorded = RecordedAnswers(events, 1)
    assert [found_in(recorded, key) for _ in range(3)] == [3, 5, 5]
    again = RecordedAnswers(events, 1)
    again.use_up(3)
    assert [found_in(again, key) for _ in range(2)] == [5, 5]
    again.use_up(5)
    assert found_in(again, key) == 5, "the last one stays"


def test_a_step_has_a_place_a_budget_is_the_forks_own_and_a_firing_is_no_answer() -> None:
    program = Begin(Json(b"{}"), NULL, ModelSpec("m", kind="program"), Limits(), NULL, 0, ())
    events = session(
        OPENED,
        ("supervisor", "host", 0, program),
        ("host", "supervisor", 2, TurnRequested(1, 1, Need(), "d", ())),
        ("supervisor", "budgets", 3, RequestBudget("host", 1, 1, Need())),
        ("budgets", "supervisor", 4, BudgetGiven("host", 1, 1, "given")),
        ("supervisor", "model", 5, CallModel("host", 3)),
        (MODEL, "host", 6, ModelReplied(1, 1, "ok", Json(b"[]"))),
        tool(2),
        returned(8, 2),
        ("supervisor", "clock", 9, SetTimer(1, 5)),
        ("clock", "supervisor", 10, TimerFired(1)),
    )
    recorded = RecordedAnswers(events, 1)
    known = {key[0]: [(one.seq, one.is_step) for one in found] for key, found in recorded.answers.items()}
    assert known == {"step": [(7, True)], "tool": [(9, False)]}
    assert [one.seq for one in recorded.fired[1]] == [11]
    assert recorded.inputs == [], "only the client's events are inputs"


def test_the_first_answer_of_a_request_decides_whether_it_fits() -> None:
    update = StateUpdate("n", Json(b"2"))
    write = tool(2, effect="write")
    events = session(
        OPENED,
        tool(1),
        returned(2, 1, state_read=("n",)),
        write,
        returned(4, 2, state_update=(update,)),
        tool(1),
        returned(6, 1, state_read=("n",)),
    )
    key, now = keys_of(events)[2], NO_STATE
    for event in events:
        now = now.after(event)
    recorded = RecordedAnswers(events, 1)
    assert (bool(recorded.known(key, now)), found_in(recorded, key, now)) == (False, 0)
    recorded.use_up(3)
    assert (bool(recorded.known(key, now)), found_in(recorded, key, now)) == (True, 7)


def test_an_answer_knows_the_files_that_its_call_found_and_a_change_keeps_them() -> None:
    found, first, second = FileVersion("a", "0", 1, is_found=True), *(FileVersion("a", d, 1) for d in "12")
    content = Json(b'{"digest":"0","base":""}')
    more: Any = {"files": (second,), "contents": (content,), "files_gap": "some are not known"}
    events = session(
        OPENED,
        tool(1, effect="write"),
        returned(2, 1, files=(found, first), contents=(content,)),
        tool(2, effect="write"),
        returned(4, 2, status="error", **more),
    )
    key = keys_of(events)[4]
    same = RecordedAnswers(events, 1).find(key, NO_STATE)
    assert same is not None
    assert same.bases == {"a": first.state}
    assert same.body == replace(events[4].body, reused=5)
    changed = RecordedAnswers(events, 1, {5: NEW}).find(key, NO_STATE)
    assert told(changed) == ToolReturned(2, 0, output=NEW, reused=5, **more)


def test_a_result_fits_only_the_state_that_its_tool_has_read() -> None:
    update = StateUpdate("n", Json(b"2"))
    events = session(
        OPENED,
        tool(1),
        returned(2, 1, state_read=("n",)),
        tool(2, effect="write"),
        returned(4, 2, state_update=(update,)),
        tool(3),
        returned(6, 3, state_read=("n",)),
    )
    key, states = keys_of(events), [NO_STATE]
    for event in events:
        states.append(states[-1].after(event))
    for call, answer, fitting in ((2, 3, states[1]), (6, 7, states[5])):
        recorded = RecordedAnswers(events, 1)
        others = [states[5] if fitting is states[1] else states[1], NO_STATE]
        assert [found_in(recorded, key[call], other) for other in others] == [0, 0]
        found = [recorded.known(key[call], other) for other in (fitting, *others)]
        assert [one is not None for one in found] == [True, False, False]
        assert found_in(recorded, key[call], fitting) == answer


@pytest.mark.parametrize("effect", ["read", "idempotent", "write"])
def test_the_same_call_in_another_turn_is_known_for_effects_only_and_offered_once(effect: str) -> None:
    events = session(OPENED, tool(1, effect=effect), returned(2, 1))
    recorded = RecordedAnswers(events, 1)
    other = Event(9, 0, *tool(7, effect=effect))
    same = recorded.same_call(other, RequestKeys())
    assert (same.seq if same else 0) == (0 if effect == "read" else 3)
    assert recorded.same_call(Event(9, 0, *tool(7, effect=effect, arguments=b"[]")), RequestKeys()) is None
    found_in(recorded, keys_of(events)[2])
    assert recorded.same_call(other, RequestKeys()) is None, "its result is given where it was recorded"


def test_only_a_good_result_is_offered_for_the_same_call() -> None:
    for status in ("error", "interrupted"):
        events = session(OPENED, tool(1, effect="write"), returned(2, 1, status=status))
        assert RecordedAnswers(events, 1).same_call(Event(9, 0, *tool(7)), RequestKeys()) is None


def test_a_write_that_never_started_is_told_from_one_that_did() -> None:
    started: Posts = ("tools", "host", 2, ToolStarted(1, 0))
    for effect, posts, was_started in (
        ("write", (), False),
        ("write", (started,), True),
        ("read", (), True),
    ):
        events = session(OPENED, tool(1, effect=effect), *posts, returned(2, 1, status="cancelled"))
        found = RecordedAnswers(events, 1).find(keys_of(events)[2], NO_STATE)
        assert told(found).status == "cancelled"
        assert found is not None
        assert found.was_started is was_started, effect


def test_a_call_that_a_fork_did_not_run_has_no_recorded_answer() -> None:
    events = session(OPENED, tool(1, effect="write"), returned(2, 1, status="needs_effect"))
    assert not RecordedAnswers(events, 1).answers


# --- changes --------------------------------------------------------------------------


def test_a_changed_result_is_a_good_one_and_keeps_the_labels() -> None:
    events = session(OPENED, tool(1), returned(2, 1, status="error", labels=("web",), trace="it broke"))
    body = told(RecordedAnswers(events, 1, {3: NEW}).find(keys_of(events)[2], NO_STATE))
    assert body == ToolReturned(1, 0, "ok", NEW, reused=3, labels=("web",))


def test_a_result_that_was_given_again_changes_with_its_origin() -> None:
    events = session(OPENED, tool(1), returned(2, 1), tool(2), returned(4, 2, cached_from="s#3"))
    recorded = RecordedAnswers(events, 1, {3: NEW})
    assert told(recorded.find(keys_of(events)[4], NO_STATE)).output == NEW
    own = RecordedAnswers(events, 1, {3: NEW, 5: text_json("own")})
    assert told(own.find(keys_of(events)[4], NO_STATE)).output == text_json("own")


@pytest.mark.parametrize(
    ("value", "content"),
    [(b'"Hi."', b'[{"type":"text","text":"Hi."}]'), (b' [{"type":"text","text":"a"}]', None)],
)
def test_a_changed_reply_is_a_text_or_blocks_and_no_reply_keeps_its_body(
    value: bytes, content: bytes | None
) -> None:
    said = Json(b'[{"type":"text","text":"old"}]')
    events = session(OPENED, (MODEL, "host", 9, ModelReplied(1, 1, "ok", said, body=(Json(b"1"),))))
    recorded = RecordedAnswers(events, 1, {2: Json(value)})
    changed = recorded._changed(events[1])  # its key needs a whole turn
    assert isinstance(changed, ModelReplied)
    assert (changed.content, changed.body, changed.reused) == (Json(content or value), (), 2)
    same = RecordedAnswers(events, 1)._changed(events[1])
    assert isinstance(same, ModelReplied)
    assert (same.content, same.body, same.reused) == (said, (), 2)


@pytest.mark.parametrize(
    ("said", "verdict", "note"), [("approved", "approved", ""), ("too much", "denied", "too much")]
)
def test_a_person_s_answer_changes_to_an_approval_or_to_the_reason_for_a_refusal(
    said: str, verdict: str, note: str
) -> None:
    asked = RequestApproval(1, 0, "pay", "write", Json(b"{}"), is_repeat=True, round=2)
    given = ApprovalGiven(
        1, 0, "denied", "no", "digest", is_repeat=True, is_always=True, by="me", round=2, labels=("web",)
    )
    events = session(OPENED, ("host", "approvals", 0, asked), ("approvals", "host", 2, given))
    key = keys_of(events)[2]
    found = RecordedAnswers(events, 1, {3: text_json(said)}).find(key, NO_STATE)
    assert found is not None
    changed = ApprovalGiven(1, 0, "denied", note, "digest", is_repeat=True, round=2, labels=("web",))
    assert found.body == replace(changed, verdict=verdict)
    kept = RecordedAnswers(events, 1).find(key, NO_STATE)
    assert kept is not None
    assert kept.body == given


def test_an_approved_call_goes_on_only_with_a_recorded_result() -> None:
    asked = RequestApproval(1, 0, "look", "write", Json(b"{}"))
    request = Event(2, 0, "host", "approvals", 0, asked)
    posts = (("host", "approvals", 0, asked), tool(1, effect="write"), returned(3, 1))
    given = ApprovalGiven(1, 0, "approved")
    other = ApprovalGiven(1, 0, "approved", arguments=Json(b'{"a":1}'))
    recorded = RecordedAnswers(session(OPENED, *posts), 1)
    assert recorded.has_result(request, given, RequestKeys())
    assert not recorded.has_result(request, other, RequestKeys()), "a person has changed the arguments"
    assert not RecordedAnswers(session(OPENED, *posts[:2]), 1).has_result(request, given, RequestKeys())


# --- inputs and timers ----------------------------------------------------------------


def test_the_inputs_of_the_client_behind_the_base_come_again_and_a_prompt_may_change() -> None:
    asks: list[Posts] = [("client", "supervisor", 0, Ask(f"r{n}", text_json("Go."))) for n in range(3)]
    forked = Forked("s", 1, "", Resumed(2))
    close: Posts = ("client", "supervisor", 0, Close())
    events = session(OPENED, *asks, ("client", "supervisor", 0, forked), ("client", "x", 0, Close()), close)
    recorded = RecordedAnswers(events, 2, {3: NEW, 7: NEW})
    assert [(one.seq, one.body.prompt) for one in recorded.inputs if isinstance(one.body, Ask)] == [
        (3, NEW),
        (4, text_json("Go.")),
    ]
    assert [one.seq for one in recorded.inputs] == [3, 4, 7]
    assert recorded.inputs[-1].body == Close(), "only a prompt changes"
    assert recorded.input_for(recorded.inputs[0], Permissions()) == recorded.inputs[0]
    assert [(one.at, one.sender, one.recipient, one.cause) for one in recorded.inputs[:1]] == [
        (30, "client", "supervisor", 0)
    ]


def test_a_revocation_ends_the_forks_own_permission_for_the_same_calls() -> None:
    asked = RequestApproval(1, 0, "pay", "write", Json(b"{}"), False, "clerk")
    always = ApprovalGiven(1, 0, "approved", is_always=True)
    revoke = ("client", "supervisor", 0, RevokePermission(3))
    other = ("client", "supervisor", 0, RevokePermission(2))
    recorded = RecordedAnswers(
        session(
            OPENED, ("host", "approvals", 0, asked), ("approvals", "host", 2, always), revoke, revoke, other
        ),
        1,
        {},
    )
    own = Permissions()
    own.give(asked, Event(70, 0, "approvals", "host", 69, always))
    posted = [recorded.input_for(one, own).body for one in recorded.inputs]
    assert posted == [RevokePermission(70), RevokePermission(0), RevokePermission(0)]
    assert recorded.input_for(recorded.inputs[0], Permissions()).body == RevokePermission(0)


def test_only_a_revocation_is_the_recorded_input_with_another_permission() -> None:
    revoked, other, ask, same, another = session(
        *(
            ("client", "supervisor", 0, body)
            for body in (
                RevokePermission(3),
                RevokePermission(9),
                Ask("r", NEW),
                Ask("r", NEW),
                Ask("s", NEW),
            )
        )
    )
    assert is_same_input(revoked, other)
    assert is_same_input(ask, same)
    assert not is_same_input(ask, another)
    assert not is_same_input(ask, revoked)
    assert not is_same_input(revoked, ask)


@table(
    ("body", "is_permitted", "is_cancelled"),
    [
        (ApprovalGiven(1, 0, "approved", permission=3), True, False),
        (ApprovalGiven(1, 0, "approved"), False, False),
        (ApprovalGiven(1, 0, "cancelled"), False, True),
        (ToolReturned(1, 0), False, False),
        (ToolReturned(1, 0, "cancelled"), False, True),
        (ModelReplied(1, 1, "cancelled"), False, True),
        (TimerFired(1), False, False),
    ],
)
def test_answers_of_permissions_and_to_cancelled_requests_are_told_from_others(
    body: Any, is_permitted: bool, is_cancelled: bool
) -> None:
    one = Reusable(4, 0, body)
    assert (one.is_permitted, one.is_cancelled) == (is_permitted, is_cancelled)
    assert (one.read, one.is_step, one.was_started, one.bases) == ({}, False, True, {})


def test_a_resume_comes_again_without_its_agents() -> None:
    resumed = Resumed(2, "host", (Json(b"{}"),), ModelSpec("other"), extend_ms=5)
    model_only, plain = Resumed(2, model=ModelSpec("other"), reopens=True), Resumed(2, extend_ms=7)
    bare = Resumed(2, "host", (Json(b"{}"),))
    bodies = [resumed, model_only, plain, bare]
    events = session(OPENED, *(("client", "supervisor", 0, body) for body in bodies))
    again = [one.body for one in RecordedAnswers(events, 1).inputs]
    assert again == [Resumed(2, extend_ms=5), Resumed(2, reopens=True), plain, Resumed(2)]


def test_a_fork_of_a_fork_repeats_the_changes_of_the_first_as_those_of_a_resume() -> None:
    bare = Forked("s", 1, "", Resumed(2, "host", (Json(b"{}"),), format="0.9"))
    events = session(OPENED, ("client", "supervisor", 0, bare))
    assert RecordedAnswers(events, 1).inputs == [], "it changes only the agents, which are the fork's own"
    more = Forked("s", 1, "", Resumed(2, "host", (Json(b"{}"),), extend_ms=5))
    events = session(OPENED, ("client", "supervisor", 0, more))
    assert [one.body for one in RecordedAnswers(events, 1).inputs] == [Resumed(2, extend_ms=5)]


def test_an_input_while_no_ask_ran_is_told_from_one_beside_an_ask() -> None:
    def client(body: AnyMessage) -> Posts:
        return "client", "supervisor", 0, body

    events = session(
        OPENED,
        tool(1),
        client(Ask("r1", NEW)),
        client(Tell("t1", "host", "Hm.")),
        ("supervisor", "client", 0, AskEnded("r1", "answered")),
        client(Tell("t2", "host", "Hm.")),
        client(Ask("r2", NEW)),
        client(Close()),
    )
    assert RecordedAnswers(events, 1).idle == {1, 3, 6, 7}


def test_the_firings_of_timers_behind_the_base_are_known_by_their_timer() -> None:
    events = session(OPENED, *(("clock", "supervisor", 0, TimerFired(timer)) for timer in (1, 1, 2)))
    fired = RecordedAnswers(events, 2).fired
    assert {timer: [one.seq for one in found] for timer, found in fired.items()} == {1: [3], 2: [4]}


# --- giving one -----------------------------------------------------------------------


def test_an_answer_carries_the_numbers_of_the_request_that_gets_it() -> None:
    checks: list[Posts] = [
        ("supervisor", "schema", 0, CheckSchema(3, "accept", NULL, NULL, 5)),
        ("schema", "supervisor", 2, SchemaChecked(3, "ok")),
    ]
    events = session(OPENED, *checks)
    checked = RecordedAnswers(events, 1, {3: NEW}).find(keys_of(events)[2], NO_STATE)
    assert checked == Reusable(3, 30, SchemaChecked(3, "ok")), "a verdict on a schema does not change"
    check = Event(9, 0, "supervisor", "schema", 0, CheckSchema(7, "accept", NULL, NULL, 5))
    assert answer_to(check, checked, "supervisor").body == SchemaChecked(7, "ok")
    result = Reusable(5, 0, ToolReturned(1, 2, output=NEW))
    post = answer_to(Event(9, 0, *tool(4, 6)), result, "host")
    assert (post.recipient, post.body) == ("host", ToolReturned(4, 6, output=NEW))


def test_a_budget_of_a_call_with_a_recorded_answer_is_given_and_reserves_nothing() -> None:
    request = Event(9, 0, "supervisor", "budgets", 8, RequestBudget("host", 2, 1, Need(5)))
    grant = Event(9, 0, "supervisor", "model", 8, CallModel("host", 8))
    key: Key = ("model", "host", 2, 1)
    good, cut = (Reusable(4, 40, ModelReplied(2, 1, status)) for status in ("ok", "cancelled"))
    for known, asked, is_given in (
        ([good], request, True),
        ([good, cut], request, True),
        ([cut, good], request, False),
        ([cut], request, False),
        ([], request, False),
        ([good], grant, False),
    ):
        answers = RecordedAnswers([], 0)
        answers.answers[key] = known
        post = answers.free_budget(asked, ("budget", *key))
        given = Post("supervisor", BudgetGiven("host", 2, 1, "given"))
        assert post == (given if is_given else None)
        assert answers.answers[key] == known
