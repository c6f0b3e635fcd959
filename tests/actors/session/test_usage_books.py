"""The charges of a session by day, model and profile: those of its supervisor, each once."""

from dataclasses import replace
from functools import reduce

from callboard.actors.protocol.client_messages import AskEnded, Forked, Resumed
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import (
    AnyMessage,
    Begin,
    Delegate,
    Finished,
    ReportBack,
    Stopped,
    TurnRequested,
    TurnSettled,
    Wake,
)
from callboard.actors.protocol.port_messages import CallModel, ModelReplied
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.usage import ZERO, Need, Usage, plus
from callboard.actors.protocol.value_types import FirstTurn, Settled
from callboard.actors.session.usage_books import UsageBooks
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, task
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from callboard.runtime.log.spending import summed
from tests.mutants.scenarios_programs import gather
from tests.mutants.scripts import BUSY, DONE, LOOK, script
from tests.tables import table

PEOPLE = [profile("host", ["kid"]), profile("kid", [], ["look"])]
POLICY = script(
    host=[calls(task("kid"), task("kid", copies=2)), DONE],
    kid=[lambda request: Reply(failure=BUSY) if request.attempt == 1 else calls(LOOK), DONE],
)


def test_each_call_is_charged_to_its_profile_model_and_day() -> None:
    world = SessionWorld(Scenario(PEOPLE, POLICY, [ask()])).run()
    charges = UsageBooks().take(world.log)
    assert {(one.day, one.model, one.profile) for one in charges} == {
        ("2026-01-01", "scripted", "host"),
        ("2026-01-01", "scripted", "kid"),
    }
    assert sum(one.usage.calls for one in charges) == world.ended.usage.calls


@table("seed", range(20))
def test_the_sum_of_the_charges_is_what_the_session_has_spent(seed: int) -> None:
    chosen = faults("cancel", "crash", "detach", "timeout", "unmetered", "overloaded", most=3, seed=seed)
    limits = Limits(max_parallel_calls=2, deadline_s=100)
    world = SessionWorld(Scenario(PEOPLE, POLICY, [ask(limits=limits)], faults=chosen))
    world.run(in_random_order(seed))
    total = ZERO
    for charge in UsageBooks().take(world.log):
        total = plus(total, charge.usage)
    host = world.supervisor.host
    if world.of(AskEnded) and host is not None and world.supervisor.in_flight == 0:
        assert total == host.spent


@table("seed", range(12))
def test_the_charges_of_questions_are_what_the_session_has_spent(seed: int) -> None:
    chosen = faults("cancel", "crashes", "crash", "detach", "unmetered", "overloaded", most=3, seed=seed)
    world = SessionWorld(replace(gather(), faults=chosen))
    world.run(in_random_order(seed))
    charged = reduce(plus, (one.usage for one in UsageBooks().take(world.log)), ZERO)
    host = world.supervisor.host
    if world.of(AskEnded) and host is not None and world.supervisor.in_flight == 0:
        assert charged == host.spent


def test_a_turn_that_a_begin_grants_is_charged_by_the_end_of_its_agent_once() -> None:
    begin = Begin(Json(b'{"name":"ask_model"}'), Json(b'"go"'), ModelSpec("m"), Limits(), granted=Need(9))
    call = CallModel("host.1", 2, FirstTurn(Need(9), "d"))
    posts: list[tuple[str, str, AnyMessage]] = [
        ("supervisor", "host.1", begin),
        ("host.1", "model", call),
        ("host.1", "supervisor", Finished("answered", settled=Settled(Usage(4)))),
        ("host.1", "supervisor", Stopped()),
    ]
    made = [Event(seq, 0, who, to, 0, body) for seq, (who, to, body) in enumerate(posts, 2)]
    assert [one.usage for one in UsageBooks().take(made)] == [Usage(4, calls=1)]
    unasked = [made[0], made[3]]  # its decider failed before the call
    assert [one.usage.charged_tokens for one in UsageBooks().take(unasked)] == [9]


def test_each_figure_is_summed_up_by_itself_and_each_day_model_and_profile_has_its_own() -> None:
    day = 86_400_000
    one, other = Usage(1, 2, 3, 4, 5, 6, 9, 7), Usage(10, 20, 30, 40, 50, 60, 9, 70)
    begin = Begin(Json(b'{"name":"kid"}'), Json(b'"go"'), ModelSpec("m"), Limits())
    posts: list[tuple[int, str, str, AnyMessage]] = [(0, "supervisor", "host", begin)]
    for at, sender, model, usage in (
        (0, "host", "", one),
        (day - 1, "host", "", other),
        (day, "host", "", None),
        (day, "host", "second", one),
        (day, "host.7", "", one),  # whose start is in no log that was taken in
    ):
        posts += [
            (at, sender, "supervisor", TurnRequested(1, need=Need(40, 8), model=model)),
            (at, "supervisor", "model", CallModel(sender, 1)),
            (at, sender, "supervisor", TurnSettled(usage)),
            (at, sender, "supervisor", TurnRequested(2)),  # the step of a program
            (at, "supervisor", "model", CallModel(sender, 1)),
            (at, sender, "supervisor", TurnSettled(one)),
        ]
    posts.append((day, "supervisor", "model", CallModel("host.8", 1)))
    posts.append((day, "host.8", "supervisor", TurnSettled(one)))
    log = [Event(seq, at, sender, to, 0, body) for seq, (at, sender, to, body) in enumerate(posts, 1)]
    assert summed(UsageBooks().take(log)) == {
        ("1970-01-01", "m", "kid"): Usage(11, 22, 33, 44, 55, 66, 2, 77),
        ("1970-01-02", "m", "kid"): Usage(charged_tokens=40, micro_usd=8, calls=1, unknown_calls=1),
        ("1970-01-02", "second", "kid"): Usage(1, 2, 3, 4, 5, 6, 1, 7),
        ("1970-01-02", "", ""): Usage(1, 2, 3, 4, 5, 6, 1, 7),
    }


def test_events_in_two_parts_give_the_charges_of_the_whole() -> None:
    log = SessionWorld(Scenario(PEOPLE, POLICY, [ask()])).run().log
    whole = UsageBooks().take(log)
    for cut in range(len(log)):
        books = UsageBooks()
        parts = summed(books.take(log[:cut]) + books.take(log[cut:]))
        assert parts == summed(whole)


def posted(*posts: tuple[str, str, AnyMessage]) -> list[Event]:
    return [Event(seq, 0, sender, to, 0, body) for seq, (sender, to, body) in enumerate(posts, 1)]


def test_each_kind_of_message_that_settles_a_call_charges_it_once() -> None:
    settled = Settled(Usage(4))
    known, unknown = Usage(4, calls=1), Usage(charged_tokens=40, calls=1, unknown_calls=1)
    for body, charge in (
        (TurnSettled(Usage(4)), known),
        (TurnSettled(), unknown),
        (TurnRequested(2, settled=settled), known),
        (TurnRequested(2), None),
        (Delegate(1, 0, ("kid",), NULL, settled=settled), known),
        (Delegate(1, 0, ("kid",), NULL), None),
        (Wake(5, settled=settled), known),
        (ReportBack(1, 0, NULL, settled), known),
        (Finished("answered", settled=settled), known),
        (Finished("answered"), unknown),
        (Stopped(settled), known),
        (Stopped(), unknown),
    ):
        ends: tuple[str, str, AnyMessage] = ("host", "supervisor", body)
        assert [one.usage for one in UsageBooks().take(posted(*CALLED, ends, ends))] == [charge] * (
            charge is not None
        ), body


def test_the_books_of_a_session_know_no_answers_and_no_forks() -> None:
    assert len(UsageBooks().take(posted(*CALLED, REUSED, SETTLED))) == 1


CALLED = (
    ("host", "supervisor", TurnRequested(1, need=Need(40))),
    ("supervisor", "model", CallModel("host", 1)),
)
AGAIN = (("host", "supervisor", TurnRequested(2, need=Need(40))), CALLED[1])
FORKED = ("client", "supervisor", Forked("o", 5, "", Resumed(2)))
REPLIED = ("model", "host", ModelReplied(1, 1))
REUSED = ("model", "host", ModelReplied(1, 1, reused=3))
SETTLED = ("host", "supervisor", TurnSettled(Usage(output_tokens=7)))


@table(
    ("posts", "calls"),
    [
        ((*CALLED, FORKED, REUSED, SETTLED), 0),
        ((*CALLED, FORKED, REPLIED, SETTLED), 1),
        ((*CALLED, REPLIED, FORKED, SETTLED), 0),
        ((*CALLED, REPLIED, SETTLED, FORKED, *CALLED, REPLIED, SETTLED), 2),
        ((*CALLED, REPLIED, SETTLED, *AGAIN, FORKED, SETTLED), 2),
        ((FORKED, REPLIED, *CALLED, FORKED, SETTLED), 1),
    ],
)
def test_a_fork_pays_for_the_calls_that_it_makes(
    posts: tuple[tuple[str, str, AnyMessage], ...], calls: int
) -> None:
    log = posted(*posts)
    charges = UsageBooks(is_fork=True).take(log)
    assert sum(one.usage.calls for one in charges) == calls
    assert UsageBooks().take(log) != [] or calls == 0
