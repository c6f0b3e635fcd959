"""The policy of budgets above sessions: rules by example, and properties over random interleavings."""

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.usage import NOTHING, Need
from callboard.actors.session.budget_keys import CallKey, Reservation, Settlement
from callboard.actors.session.budget_limits import Budget
from callboard.actors.session.budget_scope import BudgetState, Refused, Spent
from callboard.actors.session.budgets import BudgetPolicy, Given
from tests.tables import table

DAY = 86_400_000


def key(session: str, agent: str = "host", turn: int = 1, epoch: int = 1) -> CallKey:
    return CallKey(session, epoch, agent, turn, 1)


def policy(limit: int = 100, per: object = None, *sessions: str) -> BudgetPolicy:
    made = BudgetPolicy({"*": Budget(tokens=limit, per=per)}, 0)  # type: ignore[arg-type]  # a period
    for name in sessions or ("a", "b", "c"):
        made.begin(name, 1, ())
    return made


def asks(of: BudgetPolicy, session: str, tokens: int, now: int = 0, turn: int = 1) -> object:
    return of.request(key(session, turn=turn), ("*",), Need(tokens), now)


def pays(of: BudgetPolicy, session: str, need: int, used: int, now: int = 0, period: str = "") -> None:
    one = Reservation(key(session), Need(need), (("*", period),))
    of.settle(Settlement(one, Need(used)))


def state(of: BudgetPolicy, now: int = 0) -> BudgetState:
    (found,) = of.states(now)
    return found


def test_a_call_is_reserved_and_its_charge_takes_the_place_of_the_reservation() -> None:
    found = policy()
    assert asks(found, "a", 60) == Given((("*", ""),))
    assert (state(found).spent_tokens, state(found).reserved_tokens) == (0, 60)
    pays(found, "a", 60, 25)
    assert (state(found).spent_tokens, state(found).reserved_tokens) == (25, 0)


def test_a_call_waits_for_the_reservation_of_another_session_and_is_given_its_rest() -> None:
    found = policy()
    asks(found, "a", 60)
    assert asks(found, "b", 60) is None
    assert found.give(0) == []
    pays(found, "a", 60, 30)
    assert found.give(0) == [(key("b"), Given((("*", ""),)))]


def test_a_call_is_refused_once_the_amount_spent_leaves_it_no_room() -> None:
    found = policy()
    asks(found, "a", 60)
    assert asks(found, "b", 60) is None
    pays(found, "a", 60, 60)
    assert found.give(0) == [(key("b"), Refused("*", "", "tokens", 100, 60, 0, ()))]
    assert asks(found, "c", 41) == Refused("*", "", "tokens", 100, 60, 0, ())
    assert asks(found, "c", 40) == Given((("*", ""),))


def test_no_later_call_passes_one_that_waits_in_its_scope() -> None:
    found = policy()
    asks(found, "a", 60)
    assert asks(found, "b", 60) is None
    assert asks(found, "c", 1) is None  # it would fit
    found.cancel(key("b"))
    assert found.give(0) == [(key("c"), Given((("*", ""),)))]


def test_calls_of_other_scopes_pass_one_that_waits() -> None:
    found = BudgetPolicy({"tenant:*": Budget(tokens=100), "*": Budget(tokens=1_000)}, 0)
    one, other = ("*", "tenant:*=tenant:a"), ("*", "tenant:*=tenant:b")
    for name in "abc":
        found.begin(name, 1, ())
    found.request(key("a"), one, Need(60), 0)
    assert found.request(key("b"), one, Need(60), 0) is None
    assert isinstance(found.request(key("c"), other, Need(60), 0), Given)


def test_a_reservation_that_no_process_holds_counts_as_spent_and_is_named() -> None:
    found = policy()
    asks(found, "a", 60)
    assert asks(found, "b", 60) is None
    found.leave("a")
    assert found.give(0) == [(key("b"), Refused("*", "", "tokens", 100, 0, 60, ("a",)))]
    assert (state(found).elsewhere_tokens, state(found).sessions) == (60, ("a",))


def test_a_resumed_session_takes_its_reservation_up_and_others_are_charged_once() -> None:
    found = policy()
    asks(found, "a", 20)
    found.request(key("a", "host.1"), ("*",), Need(30), 0)
    found.leave("a")
    kept = Reservation(key("a", epoch=2), Need(20), (("*", ""),))
    lost = found.begin("a", 2, [kept])
    assert lost == [Reservation(key("a", "host.1"), Need(30), (("*", ""),))]
    assert (state(found).spent_tokens, state(found).reserved_tokens) == (30, 20)
    assert found.begin("a", 3, [kept._replace(key=key("a", epoch=3))]) == []
    found.settle(Settlement(kept._replace(key=key("a", epoch=3)), Need(5)))
    assert (state(found).spent_tokens, state(found).reserved_tokens) == (35, 0)


def test_a_settlement_counts_once() -> None:
    found = policy()
    asks(found, "a", 60)
    pays(found, "a", 60, 60)
    pays(found, "a", 60, 60)
    assert (state(found).spent_tokens, state(found).reserved_tokens) == (60, 0)


def test_a_session_that_leaves_waits_no_more() -> None:
    found = policy()
    asks(found, "a", 100)
    assert asks(found, "b", 100) is None
    assert asks(found, "c", 100) is None
    found.leave("b")
    pays(found, "a", 100, 0)
    assert found.give(0) == [(key("c"), Given((("*", ""),)))]


def test_a_waiting_call_is_looked_at_again_when_its_period_ends() -> None:
    found = policy(100, "day")
    asks(found, "a", 60, DAY - 10)
    assert asks(found, "b", 60, DAY - 10) is None
    assert found.wait_ms(DAY - 10) == 10
    assert found.give(DAY) == [(key("b"), Given((("*", "1970-01-02"),)))]
    assert state(found, DAY).reserved_tokens == 60
    # The call of the day before is charged to that day.
    pays(found, "a", 60, 60, DAY, "1970-01-01")
    assert state(found, DAY).spent_tokens == 0


def test_a_call_that_waits_over_the_end_of_a_day_is_counted_with_those_of_the_new_day() -> None:
    found = BudgetPolicy({"*": Budget(tokens=100, per="day"), "t:*": Budget(tokens=60)}, 0)
    for name in "ab":
        found.begin(name, 1, ())
    scopes = ("*", "t:*=t:x")
    found.request(key("a"), scopes, Need(20), 0)
    assert found.request(key("a", turn=2), scopes, Need(50), 0) is None  # for the scope without a day
    assert isinstance(found.request(key("b"), ("*",), Need(52), DAY), Given)
    spans = (("*", "1970-01-01"), ("t:*=t:x", ""))
    found.settle(Settlement(Reservation(key("a"), Need(20), spans), Need(1)))
    assert found.give(DAY) == []
    assert {one.scope: one.reserved_tokens for one in found.states(DAY)} == {"*": 52, "t:*=t:x": 0}


def test_a_refused_call_is_not_kept_for_the_next_period() -> None:
    found = policy(100, "day")
    asks(found, "a", 60, 0)
    pays(found, "a", 60, 60, 0, "1970-01-01")
    assert isinstance(asks(found, "b", 60), Refused)
    assert found.wait_ms(0) is None
    assert found.give(DAY) == []


def test_a_period_does_not_open_again_when_the_clock_is_set_back() -> None:
    found = policy(100, "day")
    asks(found, "a", 60, DAY)
    pays(found, "a", 60, 60, DAY, "1970-01-02")
    assert asks(found, "b", 60, 5) == Refused("*", "1970-01-02", "tokens", 100, 60, 0, ())


def test_a_row_of_a_later_day_than_the_clock_says_is_the_current_period() -> None:
    found = policy(100, "day")
    found.load(["*"], [Spent("*", "1970-01-03", Need(70)), Spent("*", "1970-01-02", Need(99))], [], 0)
    assert (state(found).period, state(found).spent_tokens) == ("1970-01-03", 70)


@table(("spent", "left"), [((), 0), ((Spent("*", "1970-01-03", Need(10)),), 10)])
def test_a_reservation_of_a_later_day_than_the_clock_says_counts_in_the_current_period(
    spent: tuple[Spent, ...], left: int
) -> None:
    found = policy(100, "day")
    spans = (("*", "1970-01-03"),)
    found.load(["*"], spent, [Reservation(key("z"), Need(60), spans)], 0)
    now = state(found)
    assert (now.period, now.spent_tokens, now.elsewhere_tokens) == ("1970-01-03", left, 60)
    assert isinstance(asks(found, "a", 50), Refused)


def test_amounts_of_another_kind_of_period_do_not_count() -> None:
    found = policy(100, "month")
    found.load(["*"], [Spent("*", "1970-01-01", Need(70)), Spent("*", "", Need(70))], [], 0)
    assert (state(found).period, state(found).spent_tokens) == ("1970-01", 0)


def test_what_is_known_is_not_loaded_again() -> None:
    found = policy()
    asks(found, "a", 60)
    found.load(["*"], [Spent("*", "", Need(7))], [Reservation(key("a"), Need(60), (("*", ""),))], 0)
    assert (state(found).spent_tokens, state(found).reserved_tokens) == (0, 60)


def test_a_stored_reservation_counts_in_each_scope_that_is_loaded_one_after_the_other() -> None:
    found = BudgetPolicy({"tenant:*": Budget(tokens=100), "*": Budget(tokens=1_000)}, 0)
    spans = (("*", ""), ("tenant:*=tenant:b", ""))
    one = Reservation(key("b"), Need(60), spans)
    found.load(["*", "tenant:*=tenant:a"], [], [one], 0)
    found.load(["tenant:*=tenant:b"], [], [one], 0)
    held = {each.scope: (each.elsewhere_tokens, each.reserved_tokens) for each in found.states(0)}
    assert held == {"*": (60, 0), "tenant:*=tenant:a": (0, 0), "tenant:*=tenant:b": (60, 0)}
    found.begin("b", 2, [one._replace(key=key("b", epoch=2))])
    held = {each.scope: (each.elsewhere_tokens, each.reserved_tokens) for each in found.states(0)}
    assert held == {"*": (0, 60), "tenant:*=tenant:a": (0, 0), "tenant:*=tenant:b": (0, 60)}


def test_a_scope_without_a_budget_here_binds_nothing() -> None:
    found = policy()
    assert found.request(key("a"), ("batch",), Need(1_000), 0) == Given(())


def test_a_limit_below_the_amount_spent_refuses_every_call() -> None:
    found = policy(50)
    found.load(["*"], [Spent("*", "", Need(70))], [], 0)
    assert asks(found, "a", 1) == Refused("*", "", "tokens", 50, 70, 0, ())


def test_cost_is_limited_beside_tokens() -> None:
    found = BudgetPolicy({"*": Budget(cost_usd=0.5, tokens=1_000)}, 0)
    found.begin("a", 1, ())
    refused = found.request(key("a"), ("*",), Need(10, 500_001), 0)
    assert refused == Refused("*", "", "micro_usd", 500_000, 0, 0, ())


# --- any interleaving -----------------------------------------------------------------

PATTERNS = {
    "*": Budget(tokens=100, per="day"),
    "tenant:*": Budget(tokens=60, cost_usd=0.000_05, per="month"),
    "batch": Budget(tokens=40),
}
SESSIONS = {
    "a": ("*", "tenant:*=tenant:x"),
    "b": ("*", "batch", "tenant:*=tenant:x"),
    "c": ("*", "batch", "tenant:*=tenant:y"),
    "d": ("*",),
}


class Step(NamedTuple):
    what: str
    session: str
    amount: int


STEPS = st.builds(
    Step,
    st.sampled_from(["request", "request", "request", "settle", "settle", "cancel", "crash", "day", "back"]),
    st.sampled_from(sorted(SESSIONS)),
    st.integers(1, 70),
)


class Books:
    """A second opinion: items instead of sums, and the log that a session would hold."""

    def __init__(self) -> None:
        self.policy = BudgetPolicy(PATTERNS, 0)
        self.epochs = dict.fromkeys(SESSIONS, 1)
        self.now = 0
        self.turn = 0
        self.spent: list[Spent] = []
        self.open: dict[CallKey, Reservation] = {}
        self.line: list[tuple[CallKey, Need]] = []
        for name in SESSIONS:
            self.policy.begin(name, 1, ())

    def do(self, step: Step) -> None:
        own = [one for one in self.open.values() if one.key.session == step.session]
        waiting = [one for one, _ in self.line if one.session == step.session]
        match step.what:
            case "request":
                self.turn += 1
                new = CallKey(step.session, self.epochs[step.session], "host", self.turn, 1)
                need = Need(step.amount, step.amount)
                answer = self.policy.request(new, SESSIONS[step.session], need, self.now)
                self.line.append((new, need))
                if answer is not None:
                    self.answered(new, answer)
            case "settle" if own:
                used = Need(min(step.amount, own[0].need.tokens), min(step.amount, own[0].need.micro_usd))
                self.close(own[0], used)
                self.policy.settle(Settlement(own[0], used))
            case "cancel" if waiting:
                self.line = [one for one in self.line if one[0] != waiting[0]]
                self.policy.cancel(waiting[0])
            case "crash":
                self.crash(step, own)
            case "day" | "back":
                self.now += DAY if step.what == "day" else -DAY
            case _:
                pass
        for who, answer in self.policy.give(self.now):
            self.answered(who, answer)

    def crash(self, step: Step, own: list[Reservation]) -> None:
        """Lose the newest reservation from the log, and resume."""
        self.line = [one for one in self.line if one[0].session != step.session]
        self.policy.leave(step.session)
        self.epochs[step.session] += 1
        for one in own:
            del self.open[one.key]
        kept, lost = own[: step.amount % 3], own[step.amount % 3 :]
        again = [one._replace(key=one.key._replace(epoch=self.epochs[step.session])) for one in kept]
        self.open.update((one.key, one) for one in again)
        charged = self.policy.begin(step.session, self.epochs[step.session], again)
        assert charged == lost
        for one in lost:
            self.spent += [Spent(*span, one.need) for span in one.spans]

    def close(self, one: Reservation, used: Need) -> None:
        del self.open[one.key]
        self.spent += [Spent(*span, used) for span in one.spans]

    def answered(self, who: CallKey, answer: object) -> None:
        at, need = next((at, need) for at, (one, need) in enumerate(self.line) if one == who)
        scopes = SESSIONS[who.session]
        del self.line[at]
        if isinstance(answer, Given):
            assert [scope for scope, _ in answer.spans] == list(scopes)
            self.open[who] = Reservation(who, need, answer.spans)
        else:
            assert isinstance(answer, Refused)
            spent = self.total(answer.scope, answer.period, NOTHING)
            over = getattr(spent, answer.unit) + getattr(need, answer.unit)
            assert over > answer.limit, "refused a call that fits beside the amount spent"

    def total(self, scope: str, period: str, more: Need) -> Need:
        amounts = [one.amount for one in self.spent if (one.scope, one.period) == (scope, period)]
        return Need(
            sum(one.tokens for one in amounts) + more.tokens,
            sum(one.micro_usd for one in amounts) + more.micro_usd,
        )

    def check(self) -> None:
        """Compare all sums, and every scope with its limit, in each of its periods."""
        spans = {span for one in self.open.values() for span in one.spans}
        spans |= {(one.scope, one.period) for one in self.spent}
        for scope, period in spans:
            held = [one.need for one in self.open.values() if (scope, period) in one.spans]
            reserved = Need(sum(one.tokens for one in held), sum(one.micro_usd for one in held))
            taken, limit = self.total(scope, period, reserved), PATTERNS[pattern(scope)]
            assert taken.tokens <= (limit.tokens or 0)
            assert limit.cost_usd is None or taken.micro_usd <= limit.cost_usd * 1_000_000
        for one in self.policy.states(self.now):
            held = [each.need for each in self.open.values() if (one.scope, one.period) in each.spans]
            assert one.spent_tokens == self.total(one.scope, one.period, NOTHING).tokens
            assert one.reserved_tokens == sum(each.tokens for each in held)
            assert one.elsewhere_tokens == 0


def pattern(scope: str) -> str:
    return "tenant:*" if scope.startswith("tenant") else scope


@settings(max_examples=150)
@given(st.lists(STEPS, max_size=40))
def test_no_interleaving_takes_a_scope_above_its_limit_and_the_sums_are_those_of_the_items(
    steps: list[Step],
) -> None:
    books = Books()
    for step in steps:
        books.do(step)
        books.check()


@settings(max_examples=100)
@given(st.lists(STEPS, max_size=40))
def test_every_call_has_its_answer_once_the_calls_before_it_are_settled(steps: list[Step]) -> None:
    books = Books()
    for step in steps:
        books.do(step)
    while books.open:
        session = next(iter(books.open)).session
        books.do(Step("settle", session, 1))
    assert books.line == []


@settings(max_examples=100)
@given(st.lists(STEPS.filter(lambda one: one.session in ("c", "d") and one.what != "crash"), max_size=40))
def test_calls_of_the_same_scopes_are_answered_in_their_order(steps: list[Step]) -> None:
    books = Books()
    answered: list[int] = []
    keep = books.answered

    def note(who: CallKey, answer: object) -> None:
        # A refusal at once needs no place in the line.
        if isinstance(answer, Given) and who.session == "d":
            answered.append(who.turn)
        keep(who, answer)

    books.answered = note  # type: ignore[method-assign]  # a spy
    for step in steps:
        books.do(step)
    assert answered == sorted(answered)


# --- what is known, in which period, and in which order -----------------------------------


def test_a_scope_is_known_once_it_is_loaded_or_asked_for_and_a_pattern_without_a_budget_never() -> None:
    found = policy(100, "day")
    assert not found.knows("*")
    found.load(["*", "other"], [], [], 0)
    assert (found.knows("*"), found.knows("other")) == (True, False)
    assert found.request(key("a"), ("*", "other"), Need(60), 0) == Given((("*", "1970-01-01"),))
    (one,) = found.reservations("a")
    assert (one.key, one.need, found.reservations("b")) == (key("a"), Need(60), ())
    assert found.states(DAY) == ()  # the next call makes the scope again, with nothing spent
    assert not found.knows("*")


def test_stored_amounts_belong_to_the_period_of_the_time_at_which_they_are_loaded() -> None:
    found = policy(100, "day")
    held = [Reservation(key(name), Need(60), (("*", "1970-01-02"),)) for name in ("a", "z")]
    found.load(["*", "other"], [Spent("other", "1970-01-02", Need(9))], held, DAY)
    assert (state(found, DAY).elsewhere_tokens, state(found, DAY).sessions) == (60, ("z",))  # `a` runs
    assert found.reservations("a") == ()


def test_a_session_that_has_left_runs_no_more_and_its_stored_reservations_count() -> None:
    found = policy()
    found.leave("a")
    found.load(["*"], [], [Reservation(key("a"), Need(60), (("*", ""),))], 0)
    assert state(found).elsewhere_tokens == 60


def test_the_reservations_of_the_epoch_that_begins_are_its_own() -> None:
    found = policy()
    asks(found, "a", 20)
    assert found.begin("a", 1, []) == []
    assert [one.key for one in found.reservations("a")] == [key("a")]


def test_the_first_end_of_a_period_is_the_one_that_is_waited_for() -> None:
    found = BudgetPolicy({"*": Budget(tokens=100, per="month"), "t": Budget(tokens=100, per="day")}, 0)
    found.begin("a", 1, ())
    for turn in (1, 2):
        found.request(key("a", turn=turn), ("*", "t"), Need(60), 5)
    assert found.wait_ms(5) == DAY - 5
    assert found.wait_ms(DAY - 1) == 1
    found.states(DAY + 3)
    assert found.wait_ms(DAY - 1) == DAY + 1  # the clock was set back
    assert [(one.scope, one.period) for one in found.states(DAY)] == [("*", "1970-01"), ("t", "1970-01-02")]
    assert found.states(31 * DAY)[0].period == "1970-02"
    assert BudgetPolicy({"*": Budget(tokens=1)}, 0).wait_ms(0) is None


def test_a_line_is_served_from_its_head_as_far_as_there_is_room() -> None:
    found = policy(100, None, "a", "b", "c", "d")
    asks(found, "a", 90)
    for name, tokens in (("b", 50), ("c", 30), ("d", 60)):
        assert asks(found, name, tokens) is None
    pays(found, "a", 90, 0)
    assert [one[0].session for one in found.give(0)] == ["b", "c"]
    assert state(found).waiting == 1
    found.cancel(key("b"))  # it has its answer: nothing to be taken out
    pays(found, "b", 50, 0)
    assert [one[0].session for one in found.give(0)] == ["d"]
