"""Recorded answers are given in their order, and the result of an effect to one call of a fork."""

import pytest

from callboard.actors.protocol.addresses import CLIENT, SUPERVISOR, TOOLS
from callboard.actors.protocol.client_messages import Ask, AskEnded
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    RequestApproval,
    SchemaChecked,
    TimerFired,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.session.recorded_answers import RecordedAnswers, Reusable, answer_to
from callboard.actors.session.request_keys import RequestKeys
from callboard.actors.session.shared_state import NO_STATE
from tests.actors.session.hand_written import Log


def key_of(event: Event) -> tuple[object, ...]:
    key = RequestKeys().take(event)
    assert key is not None
    return key


def found(recorded: RecordedAnswers, event: Event) -> int:
    """Return the seq of the recorded answer to a request; 0 for none."""
    one = recorded.find(key_of(event), NO_STATE)
    return one.seq if one else 0


def same(recorded: RecordedAnswers, event: Event) -> int:
    """Return the seq of the result that is offered for a call; 0 for none."""
    one = recorded.same_call(event, RequestKeys())
    return one.seq if one else 0


# --- answers of one request in their order -----------------------------------------------------


def test_the_answers_to_one_request_come_in_their_order_and_the_last_one_stays() -> None:
    log = Log()
    given = [log.checked(log.checks(number)).seq for number in range(3)]
    recorded = RecordedAnswers(log.events, 0)
    assert [found(recorded, log.checks(9)) for _ in range(5)] == [*given, given[-1], given[-1]]


def test_an_answer_that_an_earlier_process_gave_is_not_given_before_the_others() -> None:
    log = Log()
    first, second, third = (log.checked(log.checks(number)).seq for number in range(3))
    recorded = RecordedAnswers(log.events, 0)
    recorded.use_up(second)
    assert [found(recorded, log.checks(9)) for _ in range(3)] == [first, third, third]


def test_answers_up_to_the_base_are_not_given_and_open_requests_have_theirs() -> None:
    log = Log()
    before = log.checked(log.checks(1))
    under_way = log.checks(2)
    late = log.checked(under_way)
    recorded = RecordedAnswers(log.events, under_way.seq)
    assert recorded.open_at_base.keys() == {under_way.seq}
    assert recorded.open_at_base[under_way.seq].seq == late.seq
    assert found(recorded, log.checks(9)) == late.seq != before.seq


def test_an_answer_names_the_check_and_the_call_that_it_answers() -> None:
    log = Log()
    check = log.checks(1)
    log.checked(check)
    recorded = RecordedAnswers(log.events, 0)
    other = log.checks(7)
    one = recorded.find(key_of(other), NO_STATE)
    assert one is not None
    assert answer_to(other, one, SUPERVISOR).body == SchemaChecked(7, "ok")
    call = log.calls("send", 4, 2)
    result = Reusable(1, 0, ToolReturned(2, 0, "ok", text_json("did")))
    assert answer_to(call, result, "host").body == ToolReturned(4, 2, "ok", text_json("did"))


# --- results of tools with an effect -------------------------------------------------------------


@pytest.mark.parametrize("effect", ["write", "idempotent"])
def test_the_result_of_an_effect_counts_for_one_call(effect: Effect) -> None:
    """It is offered to the same call in another turn until a call has it, by its place or by a choice."""
    log = Log()
    result = log.returns(log.calls("send", 2, effect=effect)).seq
    by_place, by_choice = RecordedAnswers(log.events, 0), RecordedAnswers(log.events, 0)

    assert same(by_place, log.calls("send", 5, effect=effect)) == result
    assert found(by_place, log.calls("send", 2, effect=effect)) == result
    assert found(by_place, log.calls("send", 2, effect=effect)) == 0
    assert same(by_place, log.calls("send", 5, effect=effect)) == 0

    assert [by_choice.is_left(result) for _ in range(2)] == [True, True], "a look does not use it up"
    assert by_choice.choose(result)
    assert not by_choice.is_left(result)
    assert not by_choice.choose(result)
    assert same(by_choice, log.calls("send", 6, effect=effect)) == 0
    assert found(by_choice, log.calls("send", 2, effect=effect)) == 0


def test_the_result_that_an_earlier_process_gave_is_neither_offered_nor_given() -> None:
    log = Log()
    result = log.returns(log.calls("send", 2)).seq
    recorded = RecordedAnswers(log.events, 0)
    recorded.use_up(result)
    assert found(recorded, log.calls("send", 2)) == 0
    assert same(recorded, log.calls("send", 3)) == 0
    assert not recorded.is_left(result)
    assert not recorded.choose(result)


def test_the_earliest_unused_result_of_the_same_call_is_offered() -> None:
    log = Log()
    results = [log.returns(log.calls("send", turn)).seq for turn in (2, 3, 4)]
    log.returns(log.calls("send", 5, text="other"))
    recorded = RecordedAnswers(log.events, 0)
    for result in results:
        assert same(recorded, log.calls("send", 9)) == result
        assert recorded.choose(result)
    assert same(recorded, log.calls("send", 9)) == 0


def test_neither_errors_nor_results_of_other_agents_are_offered() -> None:
    log = Log()
    log.returns(log.calls("send", 2), status="error")
    log.returns(log.calls("look", 3, effect="read"))
    call = log.calls("send", 4)
    log.returns(call)
    recorded = RecordedAnswers(log.events, 0)
    other = Event(99, 99_000, "host.1", TOOLS, 0, call.body)
    assert same(recorded, other) == 0
    assert same(recorded, log.calls("look", 9, effect="read")) == 0
    assert same(recorded, log.calls("send", 9)) == call.seq + 1


def test_the_result_of_a_read_tool_may_be_given_again() -> None:
    log = Log()
    result = log.returns(log.calls("look", 2, effect="read")).seq
    recorded = RecordedAnswers(log.events, 0)
    assert [found(recorded, log.calls("look", 2, effect="read")) for _ in range(2)] == [result, result]


def test_an_interrupted_call_has_its_second_result_after_the_first() -> None:
    """A person has let it run again, so its place has two results."""
    log = Log()
    cut = log.returns(log.calls("send", 2), status="interrupted").seq
    done = log.returns(log.calls("send", 2)).seq
    recorded = RecordedAnswers(log.events, 0)
    assert [found(recorded, log.calls("send", 2)) for _ in range(3)] == [cut, done, 0]


def test_a_call_that_a_fork_did_not_run_has_no_recorded_result() -> None:
    log = Log()
    log.returns(log.calls("send", 2), status="needs_effect")
    recorded = RecordedAnswers(log.events, 0)
    assert found(recorded, log.calls("send", 2)) == 0


def test_a_write_that_never_started_says_so() -> None:
    log = Log()
    first, second, third = (
        log.calls("send", 1),
        log.calls("send", 2),
        log.calls("put", 3, effect="idempotent"),
    )
    log.add(TOOLS, "host", ToolStarted(2, 0), second.seq)
    for call in (first, second, third):
        log.returns(call)
    recorded = RecordedAnswers(log.events, 0)
    started = {call.seq: recorded.find(key_of(call), NO_STATE) for call in (first, second, third)}
    assert [one is not None and one.was_started for one in started.values()] == [False, True, True]


# --- approvals -------------------------------------------------------------------------------------


def approval_of(log: Log, turn: int, arguments: bytes = b'{"text":"x"}') -> tuple[Event, ApprovalGiven]:
    asked = log.add("host", "approvals", RequestApproval(turn, 0, "send", "write", Json(arguments)))
    return asked, ApprovalGiven(turn, 0, "approved")


def test_an_approval_goes_with_the_unused_result_of_its_call_only() -> None:
    log = Log()
    asked, given = approval_of(log, 2)
    result = log.returns(log.calls("send", 2)).seq
    recorded, keys = RecordedAnswers(log.events, 0), RequestKeys()
    assert recorded.has_result(asked, given, keys)
    assert not recorded.has_result(approval_of(log, 3)[0], given, keys)
    assert not recorded.has_result(approval_of(log, 2, b'{"text":"y"}')[0], given, keys)
    assert recorded.choose(result)
    assert not recorded.has_result(asked, given, keys)


# --- changes, inputs, timers -----------------------------------------------------------------------


def test_a_change_replaces_the_words_of_a_result_and_keeps_its_labels() -> None:
    log = Log()
    call = log.calls("look", 1, effect="read")
    result = log.returns(call, "was", labels=("web",))
    changed = RecordedAnswers(log.events, 0, {result.seq: text_json("is")}).find(key_of(call), NO_STATE)
    assert changed is not None
    body = changed.body
    assert isinstance(body, ToolReturned)
    assert (body.output, body.reused, body.labels) == (text_json("is"), result.seq, ("web",))


def test_inputs_behind_the_base_are_posted_again_and_those_between_asks_wait_for_their_end() -> None:
    log = Log()
    asks = [log.add(CLIENT, SUPERVISOR, Ask(f"r{at}", text_json("go"))) for at in range(3)]
    log.add(SUPERVISOR, CLIENT, AskEnded("r0", "answered"))
    late = log.add(CLIENT, SUPERVISOR, Ask("r3", text_json("go")))
    recorded = RecordedAnswers(log.events, 1)
    assert [one.seq for one in recorded.inputs] == [asks[1].seq, asks[2].seq, late.seq]
    assert recorded.idle == {asks[0].seq, late.seq}


def test_firings_behind_the_base_are_kept_by_timer() -> None:
    log = Log()
    for timer in (1, 2, 1):
        log.add("clock", SUPERVISOR, TimerFired(timer))
    recorded = RecordedAnswers(log.events, 1)
    assert {timer: [one.seq for one in fired] for timer, fired in recorded.fired.items()} == {2: [2], 1: [3]}
