"""The rules of conversations in which several models take part."""

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
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.origin import Origin, named
from callboard.actors.protocol.profiles import ModelSpec, Profile
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.testing.rules.requests import check_requests, requests_of
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls
from callboard.replay.testing.sessions.world import SessionWorld
from tests.mutants.scenarios_fallback import BUSY, SECOND
from tests.several_models import FILE

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
