"""The rules of fallbacks and needs: they hold of good logs, and fail on logs that break them."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from callboard.actors.protocol.client_messages import RULES, Resumed
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.failures import PASSING
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.makers import NO_ORIGINS, Origins
from callboard.actors.protocol.messages import Begin, TurnRequested
from callboard.actors.protocol.origin import Origin, named
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.profiles import ModelSpec, Profile
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Need
from callboard.actors.protocol.value_types import ModelFailure
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.rules.model_choice import Fallbacks, Needs
from callboard.replay.testing.rules.requests import check_requests, requests_of
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.monitors import breaches_of
from callboard.replay.testing.sessions.resumes import check_resumes
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from callboard.replay.verify import Verifier
from tests.effort import effort
from tests.mutants.campaign import without_faults
from tests.mutants.scenarios_fallback import BUSY, FALLBACK, SECOND, rounds, small
from tests.replay.testing.edited_logs import Log
from tests.several_models import FILE
from tests.tables import table

SMALL = SessionWorld(small()).run().log
ROUNDS = SessionWorld(without_faults(rounds())).run().log


def wished(log: Log, nth: int, **changes: Any) -> Log:
    """Change the nth request for a turn."""
    places = [at for at, event in enumerate(log) if isinstance(event.body, TurnRequested)]
    at = places[nth]
    changed = replace(log[at], body=replace(log[at].body, **changes))
    return [*log[:at], changed, *log[at + 1 :]]


def replied(log: Log, nth: int, **changes: Any) -> Log:
    """Change the nth reply of a model."""
    places = [at for at, event in enumerate(log) if isinstance(event.body, ModelReplied)]
    at = places[nth]
    changed = replace(log[at], body=replace(log[at].body, **changes))
    return [*log[:at], changed, *log[at + 1 :]]


BAD = ModelFailure("invalid_request_error")

DOCTORED: dict[str, Callable[[], Log]] = {
    "the same model again": lambda: wished(SMALL, 1, model=""),
    "a wait before the next model": lambda: wished(SMALL, 1, after_ms=500),
    "the first model in the next turn": lambda: wished(SMALL, 2, model=""),
    "another model after a bad request": lambda: replied(SMALL, 0, failure=BAD),
    "another model after a call that was cut off": lambda: replied(SMALL, 0, status="lost", failure=None),
    "an ask that begins with the second model": lambda: wished(SMALL, 0, model="second"),
}


@table("name", DOCTORED)
def test_a_log_that_breaks_the_rule_is_found(name: str) -> None:
    found = check_log(DOCTORED[name](), is_at_rest=True, kinds=(Fallbacks,))
    assert {breach.rule for breach in found} == {Fallbacks.rule}


def test_no_wait_after_a_whole_round_is_found() -> None:
    wishes = [event.body for event in ROUNDS if isinstance(event.body, TurnRequested)]
    nth = next(at for at, wish in enumerate(wishes) if wish.after_ms)
    found = check_log(wished(ROUNDS, nth, after_ms=0), is_at_rest=True, kinds=(Fallbacks,))
    assert {breach.rule for breach in found} == {Fallbacks.rule}


@pytest.mark.parametrize(
    "changes", [{"need": Need(1_000, 0)}, {"need": Need(0, 0)}, {"model": ""}, {"model": "none"}]
)
def test_a_need_of_another_model_is_found(changes: dict[str, Any]) -> None:
    found = check_log(wished(SMALL, 1, **changes), is_at_rest=True, kinds=(Needs,))
    assert {breach.rule for breach in found} == {Needs.rule}


def test_good_logs_break_no_rule_and_neither_does_any_prefix_of_them() -> None:
    for log in (SMALL, ROUNDS):
        assert Verifier(log).run() is None
        assert check_log(log, is_at_rest=True) == []
        assert [one for length in range(len(log)) for one in check_log(log[:length])] == []


def test_a_fallback_goes_on_from_a_crash_at_every_event() -> None:
    assert check_resumes(small(), SMALL) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", FALLBACK)
def test_every_session_with_fallbacks_goes_on_from_a_crash(name: str) -> None:
    world = SessionWorld(without_faults(FALLBACK[name])).run()
    for length in range(0, len(world.log) + 1, effort(suite=3, campaign=1)):
        assert check_resumes(world.scenario, world.log[:length], start=length) == []


@table("name", FALLBACK)
def test_sessions_with_fallbacks_break_no_rule_in_random_orders(name: str) -> None:
    for seed in range(3):
        assert breaches_of(SessionWorld(FALLBACK[name]).run(in_random_order(seed))) == []


def test_the_sessions_ask_every_model_and_wait_after_whole_rounds() -> None:
    wishes = [event.body for event in ROUNDS if isinstance(event.body, TurnRequested)]
    assert {wish.model for wish in wishes} == {"", "second", "third"}
    assert any(wish.after_ms for wish in wishes)
    begins = [event.body for event in ROUNDS if isinstance(event.body, Begin)]
    assert all(begin.model.fallback for begin in begins)


OTHER = ModelSpec("openai:gpt-5", 100, origin=Origin("layered", "openai", "", "gpt-5"))


def policy(request: ModelRequest) -> Reply:
    """Call a tool in the first turn of each ask."""
    if request.conversation[-1]["content"] == "draw":
        return Reply(content=b'[{"type":"text","text":"Drawn."},' + msgspec.json.encode(FILE) + b"]")
    return calls(("look", {}), text="Looking.") if request.turn % 2 else Reply("Done.")


def host(model: ModelSpec | None = None) -> Profile:
    made = profile("host", [], ["look"])
    return made if model is None else replace(made, model=model)


def played(first: str = "go") -> list[Event]:
    """Play an ask of one model and the next of another, and return the log."""
    resumed = Resumed(RULES, "host", (Json(encode(host(OTHER))),), OTHER)
    asks = [ask(first), ask("again", request_id="r2")]
    world = SessionWorld(Scenario([host()], policy, asks, reopens=True, resumed=resumed))
    while moves := world.moves():
        world.make(moves[0])
    return world.log


def with_changed(requests: dict[int, ModelRequest], **fields: Any) -> dict[int, ModelRequest]:
    """Return the requests with other fields of the last one."""
    seq = max(requests)
    names = ("address", "profile", "model", "turn", "attempt", "system", "tools", "digest", "origins")
    known: dict[str, Any] = {name: getattr(requests[seq], name) for name in names}
    made = ModelRequest(**{**known, "history": requests[seq]._history, **fields})
    return {**requests, seq: made}


def without_breaks(log: list[Event]) -> list[Event]:
    return [
        replace(event, body=replace(event.body, breaks_cache=False))
        if isinstance(event.body, TurnRequested)
        else event
        for event in log
    ]


@pytest.mark.parametrize("first", ["go", "draw"])
def test_a_session_that_goes_on_with_another_model_keeps_all_rules(first: str) -> None:
    log = played(first)
    requests = requests_of(log)
    last = requests[max(requests)]
    assert last.model.name == OTHER.name
    assert last.origins.get(0) == named("scripted")
    assert check_requests(log) == []


def test_a_request_to_another_origin_that_does_not_say_so_is_found() -> None:
    log = played()
    found = check_requests(without_breaks(log))
    assert [breach.name for breach in found] == ["other-origin"]
    assert "host now asks openai:gpt-5" in found[0].detail


OTHERWISE = (NO_ORIGINS, NO_ORIGINS.put(0, OTHER.made_by).put(5, named("scripted")))


@pytest.mark.parametrize("made", OTHERWISE, ids=["all its own", "from the other"])
def test_a_conversation_that_one_origin_is_sent_otherwise_than_before_is_found(made: Origins) -> None:
    log = played()
    found = check_requests(log, with_changed(requests_of(log), origins=made))
    assert {breach.name for breach in found} == {"per-origin"}


def test_a_request_is_repaired_in_another_way_when_a_model_comes_back_after_a_refusal() -> None:
    def busy_at_times(request: ModelRequest) -> Reply:
        is_busy = request.turn % 2 == 0 and request.model.name == "scripted"
        return BUSY if is_busy else policy(request)

    first = host(ModelSpec("scripted", 100, fallback=(SECOND,), fallback_on=PASSING))
    asks = [ask(request_id=name) for name in ("r1", "r2", "r3")]
    chosen = faults("error", fault_mixes=0)
    world = SessionWorld(Scenario([first], busy_at_times, asks, faults=chosen))
    refused = "fault error model host/3"
    while moves := [move for move in world.moves() if move.kind != "fault" or move.strand == refused]:
        world.make(next((move for move in moves if move.strand == refused), moves[0]))
    requests = requests_of(world.log)
    asked = [(one.turn, one.model.name, one.repair.level) for one in requests.values()]
    assert {level for _, _, level in asked} == {0, 1}
    assert len({name for _, name, level in asked if level}) == 2
    assert check_requests(world.log) == []
