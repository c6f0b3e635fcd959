"""The policy of capacity, by hand and against a model that keeps no clever books."""

from collections import Counter
from typing import Final

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.session.capacity import Capacity, CapacityPolicy, Demand, limited_among
from tests.tables import table

MINUTE = 60_000


def policy(calls: int | None = None, tokens: int | None = None) -> CapacityPolicy:
    return CapacityPolicy({"m": Capacity(calls, tokens)}, 0)


def ask(line: CapacityPolicy, *places: str, tokens: int = 1, now: int = 0) -> None:
    """Request places: `a1` is agent 1 of session a."""
    for place in places:
        line.request(place[0], place[1:], "m", tokens, now)


def gives(line: CapacityPolicy, now: int = 0) -> list[str]:
    return [session + agent for session, agent in line.give(now)]


def back(line: CapacityPolicy, place: str, used: int | None = None, now: int = 0) -> None:
    line.give_back(place[0], place[1:], used, now)


def needs(line: CapacityPolicy, tag: str = "") -> Demand:
    return line.demands("m")[tag]


# --- calls in flight, and turns ---------------------------------------------------


def test_no_more_calls_are_in_flight_than_the_limit() -> None:
    line = policy(calls=2)
    ask(line, "a1", "b1", "c1")
    assert gives(line) == ["a1", "b1"]
    assert gives(line) == []
    back(line, "a1")
    assert gives(line) == ["c1"]


def test_sessions_take_turns_and_each_has_its_requests_in_order() -> None:
    line = policy(calls=1)
    ask(line, "a1", "a2", "a3", "b1", "b2", "c1")
    order = []
    while given := gives(line):
        order += given
        back(line, given[0])
    assert order == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_a_session_that_asks_again_goes_behind_those_that_wait() -> None:
    line = policy(calls=1)
    ask(line, "a1", "b1")
    assert gives(line) == ["a1"]
    ask(line, "a2")
    back(line, "a1")
    assert gives(line) == ["b1"]


def test_a_request_that_is_taken_out_of_the_line_is_never_given() -> None:
    line = policy(calls=1)
    ask(line, "a1", "b1", "c1")
    gives(line)
    back(line, "b1")
    back(line, "a1")
    assert gives(line) == ["c1"]


def test_a_session_that_leaves_frees_its_places_and_its_turns() -> None:
    line = policy(calls=2)
    ask(line, "a1", "a2", "a3", "b1")
    assert gives(line) == ["a1", "b1"]
    line.leave("a", 0)
    ask(line, "c1")
    assert gives(line) == ["c1"]
    back(line, "a1")
    ask(line, "d1")
    assert gives(line) == []


def test_each_model_has_a_line_of_its_own() -> None:
    line = CapacityPolicy({"m": Capacity(1), "n": Capacity(1)}, 0)
    line.request("a", "1", "m", 1, 0)
    line.request("a", "2", "m", 1, 0)
    line.request("b", "1", "n", 1, 0)
    assert gives(line) == ["a1", "b1"]


def test_a_model_without_limits_has_places_without_end() -> None:
    line = policy(calls=1)
    for agent in range(100):
        line.request("a", str(agent), "other", 10**9, 0)
    assert len(gives(line)) == 100
    assert limited_among({"m": Capacity(1)}, ["z", "m", "other"]) == ("m",)


# --- the bucket -------------------------------------------------------------------


def test_the_bucket_is_full_at_first_and_fills_in_a_minute() -> None:
    line = policy(tokens=600)
    ask(line, "a1", "b1", tokens=600)
    assert gives(line) == ["a1"]
    assert line.wait_ms(0) == MINUTE
    assert gives(line, MINUTE - 1) == []
    assert line.wait_ms(MINUTE - 1) == 1
    assert gives(line, MINUTE) == ["b1"]


def test_a_bucket_never_holds_more_than_a_minute() -> None:
    line = policy(tokens=600)
    ask(line, "a1", "b1", tokens=400)
    assert gives(line, 10 * MINUTE) == ["a1"]


def test_no_smaller_need_passes_the_head() -> None:
    line = policy(tokens=100)
    ask(line, "a1", tokens=60)
    ask(line, "b1", tokens=60)
    ask(line, "c1", tokens=1)
    assert gives(line) == ["a1"]
    assert gives(line, MINUTE // 5 - 1) == []
    assert gives(line, MINUTE // 5) == ["b1"]


def test_a_need_above_the_bucket_waits_until_it_is_full_and_leaves_a_debt() -> None:
    line = policy(tokens=100)
    ask(line, "a1", tokens=1)
    ask(line, "b1", tokens=300)
    ask(line, "c1", tokens=1)
    assert gives(line) == ["a1"]
    assert line.wait_ms(0) == 600
    assert gives(line, 599) == []
    assert gives(line, 600) == ["b1"]
    assert line.states(600)[0].tokens_left == -200
    assert line.wait_ms(600) == 2 * MINUTE + 600
    assert gives(line, 2 * MINUTE + 1_199) == []
    assert gives(line, 2 * MINUTE + 1_200) == ["c1"]


@pytest.mark.parametrize(("used", "left"), [(10, 90), (None, 40), (0, 100), (80, 20)])
def test_a_place_that_is_given_back_corrects_the_bucket(used: int | None, left: int) -> None:
    line = policy(tokens=100)
    ask(line, "a1", tokens=60)
    gives(line)
    back(line, "a1", used)
    assert line.states(0)[0].tokens_left == left


def test_tokens_that_come_back_do_not_overfill_the_bucket() -> None:
    line = policy(tokens=100)
    ask(line, "a1", tokens=60)
    gives(line)
    back(line, "a1", 0, MINUTE // 2)
    assert line.states(MINUTE // 2)[0].tokens_left == 100


def test_a_clock_that_goes_back_takes_no_tokens_away() -> None:
    line = policy(tokens=100)
    ask(line, "a1", tokens=100)
    gives(line, MINUTE)
    assert line.states(0)[0].tokens_left == 0


def test_time_without_a_waiting_head_is_no_time_to_wait() -> None:
    line = policy(calls=1, tokens=100)
    assert line.wait_ms(0) is None
    ask(line, "a1", "b1", tokens=90)
    gives(line)
    assert line.wait_ms(0) is None, "b1 waits for a call, and that comes with an event"


# --- looking ----------------------------------------------------------------------


def test_what_waits_says_for_what() -> None:
    line = CapacityPolicy({"m": Capacity(calls=1), "n": Capacity(tokens_per_minute=10)}, 0)
    ask(line, "a1", "a2", "a3", "b1", tokens=5)
    line.request("c", "1", "n", 9, 0)
    line.request("d", "1", "n", 9, 0)
    gives(line)
    assert [(one.session + one.agent, one.model, one.reason, one.ahead) for one in line.waiting(0)] == [
        ("b1", "m", "calls", 0),
        ("a2", "m", "line", 1),
        ("a3", "m", "line", 2),
        ("d1", "n", "tokens", 0),
    ]
    (calls, tokens) = line.states(6_000)
    assert (calls.in_flight, calls.tokens_left, calls.waiting) == (1, None, 3)
    assert (tokens.in_flight, tokens.tokens_left, tokens.waiting) == (1, 2, 1)


@table("limit", [0, -1, True, 1.5, "8"])
@table("name", ["calls", "tokens_per_minute"])
def test_a_limit_is_a_number_above_0(name: str, limit: object) -> None:
    with pytest.raises(MisuseError, match=f"{name}="):
        Capacity(**{name: limit})  # type: ignore[arg-type]  # a wrong value on purpose


# --- against a model --------------------------------------------------------------

SESSIONS: Final = "abcd"
RATE: Final = 50
CALLS: Final = 3


class Lines(RuleBasedStateMachine):
    """A line beside plain books: lists, and the exact number of token-milliseconds."""

    def __init__(self) -> None:
        super().__init__()
        self.line = policy(CALLS, RATE)
        self.now = self.number = 0
        self.level = RATE * MINUTE
        self.held: dict[str, int] = {}
        self.waiting: list[tuple[str, int]] = []
        self.passed: Counter[str] = Counter()  # places given since a session's head waits
        self.rivals: dict[str, int] = {}  # sessions that waited when it did

    def heads(self) -> dict[str, tuple[str, int]]:
        return {place[0]: (place, tokens) for place, tokens in reversed(self.waiting)}

    @rule(session=st.sampled_from(SESSIONS), tokens=st.integers(0, 2 * RATE))
    def asks(self, session: str, tokens: int) -> None:
        place = f"{session}{(number := self.number)}"
        self.number = number + 1
        if session not in self.heads():
            self.passed[session] = 0
            self.rivals[session] = len(self.heads()) + 1
        self.waiting.append((place, tokens))
        ask(self.line, place, tokens=tokens, now=self.now)

    @rule()
    def gives(self) -> None:
        for place in gives(self.line, self.now):
            session = place[0]
            assert self.heads()[session][0] == place, "first in, first out within a session"
            tokens = self.heads()[session][1]
            assert len(self.held) < CALLS
            assert self.level >= min(tokens, RATE) * MINUTE, "never over the bucket"
            self.level -= tokens * MINUTE
            self.waiting.remove((place, tokens))
            self.held[place] = tokens
            for other in self.heads():
                self.passed[other] += other != session
                assert self.passed[other] <= 2 * max(self.rivals[other], 1)
                assert self.passed[other] < max(self.rivals[other], 1), "one place for each other session"
            self.passed[session], self.rivals[session] = 0, len({*self.heads(), session})
        if self.waiting:
            (head, *_) = self.line.waiting(self.now)
            is_full = len(self.held) == CALLS
            assert is_full or self.level < min(head.tokens, RATE) * MINUTE, "the head never waits idly"

    @precondition(lambda self: self.held)
    @rule(data=st.data(), used=st.none() | st.integers(0, 2 * RATE))
    def ends(self, data: st.DataObject, used: int | None) -> None:
        place = data.draw(st.sampled_from(sorted(self.held)))
        tokens = self.held.pop(place)
        if used is not None:
            self.level = min(RATE * MINUTE, self.level + (tokens - used) * MINUTE)
        back(self.line, place, used, self.now)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def stops(self, data: st.DataObject) -> None:
        place, tokens = data.draw(st.sampled_from(self.waiting))
        self.waiting.remove((place, tokens))
        back(self.line, place, None, self.now)

    @rule(session=st.sampled_from(SESSIONS))
    def leaves(self, session: str) -> None:
        self.waiting = [one for one in self.waiting if one[0][0] != session]
        self.held = {place: tokens for place, tokens in self.held.items() if place[0] != session}
        self.line.leave(session, self.now)

    @rule(ms=st.integers(0, 2 * MINUTE))
    def waits(self, ms: int) -> None:
        self.now += ms
        self.level = min(RATE * MINUTE, self.level + ms * RATE)

    @precondition(lambda self: self.line.wait_ms(self.now) is not None)
    @rule()
    def waits_until_the_head_fits(self) -> None:
        wait = self.line.wait_ms(self.now)
        assert wait is not None
        self.waits(wait - 1)
        assert gives(self.line, self.now) == []
        self.waits(1)
        before = len(self.held)
        self.gives()
        assert len(self.held) > before

    @invariant()
    def the_books_agree(self) -> None:
        (state,) = self.line.states(self.now)
        assert (state.in_flight, state.waiting) == (len(self.held), len(self.waiting))
        assert state.tokens_left == self.level // MINUTE


TestLines = Lines.TestCase
TestLines.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(1, 4))
def test_every_request_is_given_in_the_end_whatever_it_needs(needs: list[int], calls: int) -> None:
    line = policy(calls, 10)
    for agent, tokens in enumerate(needs):
        line.request("ab"[agent % 2], str(agent), "m", tokens, 0)
    now, done = 0, 0
    for _ in range(4 * len(needs)):
        for place in gives(line, now):
            back(line, place, None, now)
            done += 1
        now += line.wait_ms(now) or 0
    assert done == len(needs)


# --- looking, and the last tokens -----------------------------------------------------------


def test_a_call_that_used_more_than_it_asked_for_takes_it_from_a_bucket_that_has_refilled() -> None:
    line = policy(tokens=60)
    ask(line, "a1", tokens=60)
    assert gives(line) == ["a1"]
    back(line, "a1", used=90, now=2 * MINUTE)
    assert line.states(2 * MINUTE)[0].tokens_left == 30


def test_each_look_counts_the_time_that_has_passed() -> None:
    line = policy(tokens=60)
    ask(line, "a1", "b1", tokens=60)
    assert gives(line) == ["a1"]
    assert line.wait_ms(MINUTE // 2) == MINUTE // 2
    assert [one.reason for now in (MINUTE - 1, MINUTE) for one in line.waiting(now)] == ["tokens", "calls"]
    assert line.states(MINUTE)[0].tokens_left == 60
    assert line.states(0)[0].tokens_left == 60, "a clock that went back takes nothing"


def test_requests_wait_in_the_order_in_which_they_are_given_places() -> None:
    line = policy(calls=1)
    ask(line, "a1", "a2", "a3", "b1", "b2")
    order = [one.session + one.agent for one in line.waiting(0)]
    assert order == ["a1", "b1", "a2", "b2", "a3"]
    assert [one.ahead for one in line.waiting(0)] == [0, 1, 2, 3, 4]


def test_of_several_models_the_first_to_have_its_tokens_is_waited_for() -> None:
    line = CapacityPolicy({"m": Capacity(tokens_per_minute=60), "n": Capacity(None, 120)}, 0)
    for model in ("m", "n"):
        for agent in ("1", "2"):
            line.request("a" + model, agent, model, 60 if model == "m" else 120, 0)
    assert len(line.give(0)) == 2
    assert line.wait_ms(0) == MINUTE
    line.give_back("am", "1", 30, 0)
    assert line.wait_ms(0) == MINUTE // 2
    assert [(one.model, one.limits) for one in line.states(0)] == [
        ("m", Capacity(None, 60)),
        ("n", Capacity(None, 120)),
    ]


def test_nothing_is_kept_of_a_session_without_requests_and_places() -> None:
    line = policy(calls=1)
    ask(line, "a1", "a2", "b1")
    gives(line)
    for place in ("a1", "a2", "b1", "c1"):
        back(line, place)
    assert line._places == {}
    assert not line._lines["m", ""]._ring
    assert line.states(0)[0].in_flight == line.states(0)[0].waiting == 0


def test_a_leased_line_gives_what_its_worker_was_given_and_says_what_it_lacks() -> None:
    line = policy(calls=5, tokens=1_000)
    line.lease("m", 0, 0)
    ask(line, "a1", "a2", "b1", tokens=100)
    assert gives(line) == []
    assert needs(line) == Demand(0, 3, 2, 100)  # for the head alone: the others have no place
    line.lease("m", 2, 150)
    assert gives(line) == ["a1"]
    assert needs(line) == Demand(1, 2, 2, 50)
    assert line.wait_ms(10**6) is None  # only the home gives tokens
    line.lease("m", 2, 50)
    assert gives(line, 10**6) == ["b1"]
    back(line, "a1", used=30)
    line.give_back("a", "2", None, 0)
    assert needs(line) == Demand(1, 0, 1, 0, 70)
    line.lease("m", 1, -70)
    assert needs(line) == Demand(1, 0, 1)


def test_a_lease_of_a_line_without_a_limit_of_calls_gives_tokens_alone() -> None:
    line = policy(tokens=1_000)
    line.lease("m", 0, 250)
    ask(line, "a1", "b1", "c1", tokens=100)
    assert gives(line) == ["a1", "b1"]
    assert needs(line) == Demand(2, 1, 3, 50)


# --- tags ---------------------------------------------------------------------------


def by_tag(calls: int | None = None, tokens: int | None = None) -> CapacityPolicy:
    return CapacityPolicy({"m": Capacity(calls, tokens, fair_by="of:*")}, 0)


def ask_as(line: CapacityPolicy, tag: str, *places: str, tokens: int = 1) -> None:
    for place in places:
        line.request(place[0], place[1:], "m", tokens, 0, ("other", tag))


def test_tags_take_turns_and_the_sessions_of_each_tag_do() -> None:
    line = by_tag(calls=1)
    ask_as(line, "of:x", "a1", "a2", "b1", "c1", "c2")
    ask_as(line, "of:y", "d1", "d2")
    ask_as(line, "none", "e1")
    expected = ["a1", "d1", "e1", "b1", "d2", "c1", "a2", "c2"]
    assert [one.session + one.agent for one in line.waiting(0)] == expected
    assert [one.tag for one in line.waiting(0)][:3] == ["of:x", "of:y", ""]
    order = []
    while given := gives(line):
        order += given
        back(line, given[0])
    assert order == expected


def test_a_session_counts_for_the_first_of_its_tags_that_the_pattern_names() -> None:
    limits = Capacity(fair_by="of:*")
    assert limits.tag_among(["of:y", "x", "of:x", "of"]) == "of:x"
    assert limits.tag_among(["x", "offer:x"]) == ""
    assert Capacity(1).tag_among(["of:x"]) == ""


@table("pattern", ["", "*", ":*", "of", "of*", "o*f:*", "of:*:*", "\n:*", 3, b"of:*"])
def test_another_pattern_than_a_prefix_of_tags_is_refused(pattern: object) -> None:
    with pytest.raises(MisuseError, match="give a prefix of tags"):
        Capacity(1, fair_by=pattern)  # type: ignore[arg-type]  # a wrong value on purpose


def test_a_leased_line_has_a_part_for_each_tag_and_forgets_one_that_is_done() -> None:
    line = by_tag(calls=5, tokens=1_000)
    line.lease("m", 0, 0)
    ask_as(line, "of:x", "a1", "b1", tokens=100)
    ask_as(line, "of:y", "c1", tokens=100)
    assert gives(line) == []
    assert (needs(line, "of:x"), needs(line, "of:y")) == (Demand(0, 2, 2, 100), Demand(0, 1, 1, 100))
    line.lease("m", 1, 100, "of:y")
    assert gives(line) == ["c1"]
    line.lease("m", 0, 0, "of:y")
    line.forget("m", "of:y")  # not while a place is held
    assert [(one.tag, one.in_flight) for one in line.states(0)] == [("", 0), ("of:x", 0), ("of:y", 1)]
    back(line, "c1")
    line.forget("m", "of:y")
    line.forget("m", "")
    line.forget("m", "of:z")
    line.lease("m", 3, 0, "of:y")
    assert [one.tag for one in line.states(0)] == ["", "of:x"]
    line.leave("a", 0)
    line.lease("m", 1, 100, "of:x")
    assert gives(line) == ["b1"]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("xyz"), st.integers(0, 9), st.booleans()), min_size=1, max_size=60),
    st.integers(1, 3),
)
def test_while_a_tag_waits_each_other_tag_is_given_one_place_before_it(
    steps: list[tuple[str, int, bool]], calls: int
) -> None:
    line, held = by_tag(calls), list[tuple[str, str]]()
    waiting, passed = Counter[str](), dict[str, Counter[str]]()
    for number, (tag, session, is_ask) in enumerate(steps):
        if is_ask:
            line.request(f"{tag}{session}", f"{number}", "m", 1, 0, (f"of:{tag}",))
            if not waiting[tag]:
                passed[tag] = Counter()
            waiting[tag] += 1
        elif held:
            line.give_back(*held.pop(0), None, 0)
        for place in line.give(0):
            given = place[0][0]
            held.append(place)
            waiting[given] -= 1
            passed[given] = Counter()
            for other in +waiting:
                if other != given:
                    passed[other][given] += 1
                    assert passed[other][given] == 1
        assert len(held) == min(calls, len(held) + waiting.total())
