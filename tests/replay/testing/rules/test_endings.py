"""The rules of silence, refusals and questions: they hold of good logs, and fail on logs that break them."""

from collections.abc import Callable

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Begin, DelegationEnded, Finished
from callboard.actors.protocol.port_messages import CallTool
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.rules.latches import Latched, QuestionLimit
from callboard.replay.testing.rules.repeated_requests import EmptyAnswers
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile, program_profile
from callboard.replay.testing.sessions.scripted_replies import delegate, question, tool
from callboard.replay.testing.sessions.world import SessionWorld
from tests.mutants.scenarios_endings import DEAR, NOTHING
from tests.mutants.scenarios_programs import cast, everything
from tests.mutants.scripts import DONE, script
from tests.replay.testing.edited_logs import Log, appended, edited, find, limited, of_kind
from tests.tables import table


def ran(*asks: object, limits: Limits = Limits(), **own: Limits) -> Log:  # noqa: B008  # never changed
    def host(prompt: object):  # type: ignore[no-untyped-def]  # a script
        for one in asks:
            yield from everything(one)  # type: ignore[arg-type]  # an Asked
        return "done"

    kid = profile("kid", limits=own.get("kid", Limits()))
    lead = program_profile("host", ["kid"], ["look"], models=[DEAR], limits=own.get("host", Limits()))
    policy = cast({"host": host}, kid=[DONE], ask_model=[DONE])
    return SessionWorld(Scenario([lead, kid], policy, [ask()], limits, model=DEAR)).run().log


SILENT = SessionWorld(Scenario([profile("host")], script(host=[NOTHING]), [ask()])).run().log
SAID = SessionWorld(Scenario([profile("host")], script(host=[DONE]), [ask()])).run().log
REFUSED = ran(question("q"), tool("t", "look"), limits=Limits(tokens=50), kid=Limits(tokens=5))
SMALL = ran(delegate("k", "kid"), limits=Limits(tokens=600), kid=Limits(tokens=5))
ASKED = ran(question("q"), question("r"), host=Limits(max_iterations=2))
OVER = ran(question("q"), question("r"), host=Limits(max_iterations=1))
HOST_END = of_kind(Finished, sender="host")


def asks_on() -> Log:
    end = find(REFUSED, of_kind(DelegationEnded))
    call = CallTool(9, 0, "look", "read", Json(b"{}"))
    return appended(REFUSED, "host", "tools", end.seq, call)


DOCTORED: dict[str, tuple[type[Invariant], Callable[[], Log]]] = {
    "silence as an answer": (EmptyAnswers, lambda: edited(SILENT, HOST_END, kind="answered")),
    "an answer as silence": (EmptyAnswers, lambda: edited(SAID, HOST_END, kind="empty")),
    "a refusal swallowed": (Latched, lambda: edited(REFUSED, HOST_END, kind="answered")),
    "a refusal that is not told": (Latched, lambda: edited(REFUSED, of_kind(DelegationEnded), latch="")),
    "a refusal told without need": (Latched, lambda: edited(SMALL, of_kind(DelegationEnded), latch="no")),
    "an ask after a refusal": (Latched, asks_on),
    "one question too many": (
        QuestionLimit,
        lambda: limited(ASKED, of_kind(Begin, "host"), max_iterations=1),
    ),
    "an end without a question too many": (
        QuestionLimit,
        lambda: edited(ASKED, HOST_END, kind="iteration_cap"),
    ),
    "a limit from nowhere": (
        QuestionLimit,
        lambda: edited(SMALL, of_kind(Begin, "host"), bounds_questions=True),
    ),
}


@table("name", DOCTORED)
def test_a_log_that_breaks_a_rule_is_found(name: str) -> None:
    kind, log = DOCTORED[name]
    assert {breach.name for breach in check_log(log(), is_at_rest=True, kinds=(kind,))} == {kind.name}


@table(
    "log",
    [SILENT, SAID, REFUSED, SMALL, ASKED, OVER],
    ids=["silent", "said", "refused", "small", "asked", "over"],
)
def test_good_logs_and_their_prefixes_break_no_rule(log: Log) -> None:
    kinds = (EmptyAnswers, Latched, QuestionLimit)
    for length in range(len(log) + 1):
        assert not check_log(log[:length], kinds=kinds)


def test_a_reply_that_cannot_be_read_is_no_word() -> None:
    mute = script(host=[NOTHING])
    world = SessionWorld(Scenario([profile("host")], mute, [ask()], faults=faults("garbage", fault_mixes=0)))
    made = ("inbox supervisor", "inbox host", "inbox supervisor", "model host/1", "inbox host")
    for strand in (*made, "inbox supervisor", "fault garbage model host/1 attempt 2"):
        world.make(next(move for move in world.moves() if move.strand == strand))
    world.run()
    assert [end.kind for end in world.of(Finished)] == ["empty"]
    assert [breach for breach in check_log(world.log) if breach.rule == EmptyAnswers.rule] == []
