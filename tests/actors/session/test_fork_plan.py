"""Plans of forks: where a fork begins, which answers may change, and the words for any other wish."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from callboard.actors.protocol.client_messages import Ask, AskEnded, Close, Forked, Resumed, SessionOpened
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.errors import MisuseError, UnknownName
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AnyMessage, Begin, Finished
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallModel,
    CallTool,
    ModelReplied,
    RequestApproval,
    SchemaChecked,
    ToolReturned,
)
from callboard.actors.protocol.profiles import ModelSpec, read_profile
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.session.fork_plan import (
    Place,
    base_for_agents,
    begun_by_profile,
    call_at,
    calls_of,
    plan,
    plan_changed,
    planned_again,
    refuse_idle,
)
from callboard.actors.session.place_names import named
from callboard.actors.session.recorded_answers import OF_MODEL
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, task
from callboard.replay.testing.sessions.world import SessionWorld
from tests.tables import table

NEW = text_json("new")


def session(*posts: tuple[str, str, int, AnyMessage]) -> list[Event]:
    return [Event(seq, 10 * seq, *post) for seq, post in enumerate(posts, 1)]


EVENTS = session(
    ("client", "supervisor", 0, SessionOpened(2, "host", (), ModelSpec("m"))),
    ("client", "supervisor", 0, Ask("r1", text_json("Go."))),
    ("supervisor", "model", 2, CallModel("host", 2)),
    ("model", "host", 3, ModelReplied(1, 1, "ok", text_json("I look."))),
    ("host", "tools", 4, CallTool(1, 0, "look", "read", Json(b"{}"))),
    ("host", "approvals", 4, RequestApproval(1, 1, "pay", "write", Json(b"{}"))),
    ("tools", "host", 5, ToolReturned(1, 0, "ok", text_json("seen"))),
    ("approvals", "host", 6, ApprovalGiven(1, 1, "denied", "no")),
    ("model", "host", 3, ModelReplied(2, 1, "lost")),
    ("host", "supervisor", 7, Finished("answered", "Done.")),
    ("schema", "supervisor", 0, SchemaChecked(1, "ok")),
    ("client", "supervisor", 0, Close()),
)
CALLS = {("host", 1, OF_MODEL): 4, ("host", 1, 0): 7}


def planned(changes: Mapping[Place, Json], at: int | None = None, **wish: Any) -> Any:
    return plan("s", EVENTS, at, changes, **wish)


def test_the_results_of_tools_and_the_good_replies_of_models_are_known_by_their_calls() -> None:
    assert calls_of(EVENTS) == CALLS


def test_a_fork_begins_before_its_first_change_and_without_one_at_the_end() -> None:
    changed = planned({("host", 1, 0): NEW, ("host", 1, OF_MODEL): NEW})
    assert (changed.base, [one.replaces for one in changed.changes]) == (3, [4, 7])
    assert [(one.agent, one.turn, one.call) for one in changed.changes] == [("host", 1, -1), ("host", 1, 0)]
    assert planned({}).base == len(EVENTS)
    assert planned({("host", 1, 0): NEW}, at=5).base == 5
    assert planned({7: NEW}).changes == planned({("host", 1, 0): NEW}).changes


@pytest.mark.parametrize("at", [0, len(EVENTS) + 1])
def test_a_fork_begins_behind_an_event_of_its_origin(at: int) -> None:
    with pytest.raises(MisuseError, match=rf"events 1 to {len(EVENTS)}; a fork begins .* not {at}$"):
        planned({}, at)
    assert [planned({}, at).base for at in (1, len(EVENTS))] == [1, len(EVENTS)]


def test_an_answer_that_the_fork_shares_cannot_change() -> None:
    for at in (7, 8):
        with pytest.raises(MisuseError, match=rf"event 7, which a fork at {at} shares: fork at 6 or before"):
            planned({7: NEW}, at)
    assert planned({7: NEW}, 6).base == 6


def test_inputs_up_to_the_last_one_wanted_are_posted_again_also_by_a_later_process() -> None:
    assert [one.seq for one in planned({}, at=1).recorded.inputs] == [2, 12]
    assert planned({}, at=1).until == planned({}, at=1, until=99).until == len(EVENTS)
    first = planned({}, at=1, until=2)
    assert ([one.seq for one in first.recorded.inputs], first.until) == ([2], 2)
    forked = Forked("s", 1, "", Resumed(2), until=2)
    assert planned_again(EVENTS, forked).inputs == first.recorded.inputs


@table(
    ("place", "error", "said"),
    [
        (("host", 9, 0), UnknownName, "session s has no answer of host:9:0; there are: host:1, host:1:0"),
        (("kid", 1, OF_MODEL), UnknownName, "session s has no answer of kid:1; there are"),
        (0, UnknownName, "session s has events 1 to 12; there is no 0"),
        (13, UnknownName, "session s has events 1 to 12; there is no 13"),
        (9, MisuseError, "event 9, ModelReplied, cannot be changed: only answers"),
        (11, MisuseError, "event 11, SchemaChecked, cannot be changed: only answers"),
        (12, MisuseError, "event 12, Close, cannot be changed: only answers"),
        (10, MisuseError, "event 10, Finished, was decided by host and cannot be changed; change the input "
         "that it follows from: event 7, ToolReturned, which is host:1:0"),
        (3, MisuseError, "was decided by supervisor and .* follows from: event 2, Ask$"),
    ],
)  # fmt: skip
def test_only_inputs_change_and_the_refusal_says_which_ones_there_are(
    place: Place, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        planned({place: NEW})


def test_one_answer_has_one_new_value() -> None:
    with pytest.raises(MisuseError, match="event 7 is changed twice"):
        planned({7: NEW, ("host", 1, 0): NEW})


@pytest.mark.parametrize("value", [b'""', b"{}", b"1"])
def test_a_person_answers_with_words(value: bytes) -> None:
    with pytest.raises(MisuseError, match="event 8 is a person's answer"):
        planned({8: Json(value)})
    assert planned({8: text_json("approved")}).changes[0].replaces == 8


def test_the_place_of_an_input_is_that_of_its_call_and_a_prompt_has_none() -> None:
    places = {seq: call_at("s", EVENTS, seq) for seq in (2, 4, 7, 8)}
    assert places == {2: ("", 0, 0), 4: ("host", 1, OF_MODEL), 7: ("host", 1, 0), 8: ("host", 1, 1)}
    assert [named(call) for call in places.values()][1:] == ["host:1", "host:1:0", "host:1:1"]


def test_at_most_twelve_answers_are_named() -> None:
    def returned(count: int) -> list[Event]:
        return session(*(("tools", "host", 0, ToolReturned(1, call)) for call in range(count)))

    for count, told in ((12, "host:1:11"), (13, "host:1:11, ...")):
        with pytest.raises(UnknownName, match=rf"{re.escape(told)}$"):
            plan("s", returned(count), None, {("kid", 1, 0): NEW})
    with pytest.raises(UnknownName, match=r"there are: none$"):
        plan("s", returned(0), None, {("kid", 1, 0): NEW})


def test_a_fork_in_which_no_ask_runs_is_refused_with_the_places_that_remain() -> None:
    ask, end = Ask("r", text_json("Go.")), AskEnded("r", "answered")
    asks: list[tuple[str, str, int, AnyMessage]] = [
        ("client", "supervisor", 0, SessionOpened(2, "host", (), ModelSpec("m"))),
        *(("client", "supervisor", 0, ask), ("supervisor", "client", 0, end)) * 2,
        ("client", "supervisor", 0, Close()),
    ]
    events = session(*asks)

    def refused(log: list[Event], at: int) -> str:
        try:
            refuse_idle("s", log, plan("s", log, at, {}))
        except MisuseError as error:
            return str(error)
        return ""

    none_left = "no prompt is left after event 5, so nothing runs there: name a change, or fork at 3, before "
    none_left += "the last prompt, or at any event up to 4"
    assert [refused(events, at) for at in range(1, 6)] == ["", "", "", "", none_left]
    no_prompt = "session s has no prompt, so nothing runs in a fork of it"
    assert refused([events[0], events[-1]], 1) == no_prompt


def family() -> list[Event]:
    """Return the log of a host that asks its kid twice, one after the other, and an aunt after that."""

    def policy(request: ModelRequest) -> Reply:
        if request.profile != "host" or request.turn > 3:
            return Reply("done")
        return calls(task("aunt" if request.turn == 3 else "kid"))

    people = [profile("host", ["kid", "aunt"]), profile("kid"), profile("aunt")]
    return list(SessionWorld(Scenario(people, policy, [ask()])).run().log)


def test_a_fork_for_other_profiles_begins_before_the_first_of_their_agents() -> None:
    log = family()
    begun: dict[str, list[Event]] = {"host": [], "kid": [], "aunt": [], "uncle": []}
    for event in log:
        if isinstance(event.body, Begin):
            begun[read_profile(bytes(event.body.profile)).name].append(event)
    assert [len(found) for found in begun.values()] == [1, 2, 1, 0]
    assert begun_by_profile(log, list(begun)) == begun
    (aunt,), (first, last) = ([event.cause - 1 for event in begun[name]] for name in ("aunt", "kid"))

    def base(at: int | None, *names: str) -> int | None:
        return base_for_agents("s", log, at, {name: begun[name] for name in names})

    assert base(None) is None
    assert base(4) == 4
    assert base(None, "aunt") == aunt
    assert base(None, "aunt", "kid") == first < aunt
    assert base(last, "kid") == last
    with pytest.raises(MisuseError, match=f"since all 2 agents of kid begin before it: fork at {last} or"):
        base(last + 1, "kid")
    with pytest.raises(MisuseError, match=f"since aunt begins before it: fork at {aunt} or before"):
        base(aunt + 1, "aunt")
    with pytest.raises(MisuseError, match="no uncle began in session s"):
        base(None, "uncle")


def test_a_fork_of_changed_agents_and_answers_begins_before_the_first_of_both() -> None:
    log = family()
    begun = begun_by_profile(log, ["kid", "aunt"])
    kid, aunt = ({name: begun[name]} for name in ("kid", "aunt"))
    base_of_kid, base_of_aunt = (base_for_agents("s", log, None, one) for one in (kid, aunt))
    assert base_of_kid is not None
    assert base_of_aunt is not None
    first, late = ("host", 1, OF_MODEL), ("host", 3, OF_MODEL)
    replies = calls_of(log)
    reply, last_reply = replies[first], replies[late]
    assert reply - 1 < base_of_kid < last_reply - 1 <= base_of_aunt
    cases: list[tuple[int | None, dict[Place, Json], dict[str, list[Event]], int]] = [
        (None, {}, kid, base_of_kid),
        (None, {late: NEW}, kid, base_of_kid),
        (None, {late: NEW}, {}, last_reply - 1),
        (None, {first: NEW}, kid, reply - 1),
        (None, {first: NEW}, aunt, reply - 1),
        (3, {first: NEW}, kid, 3),
    ]
    for at, changes, changed, base in cases:
        made = plan_changed("s", log, at, changes, changed)
        assert (made.base, [one.value for one in made.changes]) == (base, [NEW] * len(changes))
    assert plan_changed("s", log, 3, {}, {}, 3).until == 3


def test_a_change_to_what_was_recorded_is_refused_in_every_kind_of_answer() -> None:
    looked, paid = Json(b'[{"type":"text","text":"Hm."}]'), text_json("seen")
    log = session(
        ("client", "supervisor", 0, SessionOpened(2, "host", (), ModelSpec("m"))),
        ("client", "supervisor", 0, Ask("r1", NEW)),
        ("supervisor", "model", 2, CallModel("host", 2)),
        ("model", "host", 3, ModelReplied(1, 1, "ok", looked)),
        ("host", "tools", 4, CallTool(1, 0, "look", "read", Json(b"{}"))),
        ("tools", "host", 5, ToolReturned(1, 0, "ok", paid)),
    )
    for seq, same in ((2, NEW), (4, looked), (6, paid)):
        with pytest.raises(MisuseError, match=f"the new answer for event {seq} is the recorded one"):
            plan_changed("s", log, None, {seq: same}, {})
