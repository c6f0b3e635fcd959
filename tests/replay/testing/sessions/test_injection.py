"""A process ends at any event, with any tail lost, and another one goes on: nothing durable is undone."""

from dataclasses import replace

from callboard.actors.protocol.client_messages import AskEnded, Resumed, SessionClosed, SessionOpened
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.port_messages import ModelReplied, ToolReturned, ToolStarted
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Usage
from callboard.replay.testing.sessions.faults import ABORTED, FAULTS, faults, kind_of
from callboard.replay.testing.sessions.monitors import breaches_of
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from tests.replay.testing.scenarios import RICH
from tests.tables import table

CRASHING = replace(RICH, faults=faults("crash", "fence", most=9, fault_mixes=0))


def saving(request: ModelRequest) -> Reply:
    return calls(("save", {}), ("put", {})) if request.turn == 1 else Reply("done")


SAVING = Scenario(
    [profile("host", writes=["save"], repeats=["put"])],
    saving,
    [ask(), ask(request_id="r2")],
    faults=faults("crash", "fence", fault_mixes=0),
)


def make(world: SessionWorld, strand: str) -> None:
    world.make(next(move for move in world.moves() if move.strand == strand))


def until(world: SessionWorld, strand: str) -> SessionWorld:
    """Go on, first come, first served, until something is on offer."""
    while strand not in world.offers:
        world.make(next(iter(world.offers.values())))
    return world


def finish(world: SessionWorld) -> SessionWorld:
    world.heal()
    return world.run()


def test_after_a_crash_a_session_goes_on_to_its_end() -> None:
    world = until(SessionWorld(CRASHING), "model host/1")
    make(world, "fault crash")
    assert [move.strand for move in world.moves()] == ["resume", "fault lose one", "fault lose half"]
    make(world, "resume")
    assert breaches_of(finish(world)) == []
    assert [event.kind for event in world.log if isinstance(event.body, Resumed)] == ["Resumed"]
    assert world.ended.kind == "answered"


def test_lost_events_are_gone_from_the_log_and_happen_again() -> None:
    world = until(SessionWorld(CRASHING), "model host/1")
    length = len(world.log)
    make(world, "fault crash")
    make(world, "fault lose one")
    assert len(world.log) == length - 1
    make(world, "fault lose half")
    assert len(world.log) < length - 1
    make(world, "resume")
    assert breaches_of(finish(world)) == []


def test_a_session_that_lost_all_begins_again() -> None:
    world = SessionWorld(CRASHING)
    make(world, "fault crash")
    while any(move.strand == "fault lose one" for move in world.moves()):
        make(world, "fault lose one")
    assert world.log == []
    make(world, "resume")
    assert isinstance(world.log[0].body, SessionOpened)
    assert [move.strand for move in world.offers.values()] == ["client"], "the client asks again"
    assert breaches_of(finish(world)) == []
    assert world.ended.kind == "answered"


def test_what_the_client_was_shown_and_what_tools_did_stays() -> None:
    world = until(SessionWorld(SAVING), "client")
    world.make(world.offers["client"])
    shown = world.events(AskEnded)[0]
    make(world, "fault crash")
    while any(move.strand == "fault lose half" for move in world.moves()):
        make(world, "fault lose half")
    assert world.log[-1].seq == world.durable >= shown.seq
    make(world, "resume")
    assert world.of(AskEnded)[0] == shown.body
    assert breaches_of(finish(world)) == []
    assert [ended.request_id for ended in world.of(AskEnded)] == ["r1", "r2"]


def test_a_write_tool_that_was_under_way_has_run_and_never_runs_again() -> None:
    world = until(SessionWorld(SAVING), "tool host/1.0")
    assert len(world.of(ToolStarted)) == 1
    make(world, "fault crash")
    make(world, "resume")
    finish(world)
    assert [effect.tool for effect in world.effects].count("save") == 1
    assert [effect.tool for effect in world.effects].count("put") == 2, "an idempotent one runs again"
    assert "interrupted" in {one.status for one in world.of(ToolReturned)}
    assert breaches_of(world) == []


def test_a_write_tool_whose_start_was_lost_has_not_run() -> None:
    world = until(SessionWorld(SAVING), "tool host/1.0")
    make(world, "fault crash")
    while any(isinstance(event.body, ToolStarted) for event in world.log):
        make(world, "fault lose one")
    make(world, "resume")
    assert "save" not in [effect.tool for effect in world.effects]
    assert breaches_of(finish(world)) == []


def test_a_fenced_process_appends_nothing_and_the_other_goes_on() -> None:
    world = until(SessionWorld(SAVING), "tool host/1.1")
    world.make(world.offers["tool host/1.0"])
    before, durable = list(world.log), world.durable
    assert durable < len(before)
    make(world, "fault fence")
    assert world.log[:durable] == before[:durable]
    assert (
        isinstance(world.log[durable].body, Resumed | ToolReturned)
        or world.log[durable].body == before[durable].body
    )
    assert breaches_of(finish(world)) == []


def test_a_closed_session_is_not_gone_on_with() -> None:
    world = SessionWorld(replace(CRASHING, closes=True))
    until(world, "client")
    world.make(world.offers["client"])
    while not world.of(SessionClosed):
        world.make(next(iter(world.offers.values())))
    world.durable = len(world.log)
    world.is_closed = False  # the process dies before anybody has noticed
    make(world, "fault crash")
    make(world, "resume")
    assert world.is_closed
    assert not world.offers
    assert not world.of(Resumed)


def test_a_reopening_that_a_fenced_process_loses_leaves_no_message_to_be_handled() -> None:
    asks = [ask(), ask("more", request_id="r2")]
    world = until(SessionWorld(replace(CRASHING, asks=asks, reopens=True)), "client reopens")
    world.make(world.offers["client reopens"])
    world.make(world.offers["client"])
    world.make(world.offers["inbox supervisor"])
    assert world.inboxes["host"]
    make(world, "fault fence")
    assert isinstance(world.log[-1].body, SessionClosed)
    assert not any(world.inboxes.values())
    assert breaches_of(finish(world)) == []


@table("seed", range(25))
def test_sessions_that_die_again_and_again_come_to_a_good_end(seed: int) -> None:
    world = SessionWorld(CRASHING).run(in_random_order(seed))
    assert world.injected
    assert breaches_of(world) == []
    assert len(world.trace()) == len(world.made)


DETACHING = replace(RICH, faults=faults("detach", "crash", most=9, fault_mixes=0))


def test_after_a_polite_end_a_session_goes_on_with_the_same_request() -> None:
    world = until(SessionWorld(DETACHING), "model host/1")
    make(world, "fault detach")
    assert {"model host/1", "process ends"} <= {move.strand for move in world.moves()}
    make(world, "process ends")
    assert [move.strand for move in world.moves()] == ["resume"]  # nothing is lost
    (reply,) = world.of(ModelReplied)
    assert (reply.status, reply.usage) == ("detached", Usage(input_tokens=1))
    make(world, "resume")
    assert breaches_of(finish(world)) == []
    first, again = world.of(TurnRequested)[:2]
    assert (again.attempt, again.digest) == (2, first.digest)
    assert world.ended.kind == "answered"
    assert world.ended.usage.unknown_calls == 0


def test_an_answer_within_the_grace_is_posted_and_delivered_by_the_next_process() -> None:
    world = until(SessionWorld(DETACHING), "model host/1")
    make(world, "fault detach")
    make(world, "model host/1")
    assert [reply.status for reply in world.of(ModelReplied)] == ["ok"]
    assert [move.strand for move in world.moves() if move.kind != "fault"] == ["process ends"]
    make(world, "process ends")
    make(world, "resume")
    assert breaches_of(finish(world)) == []
    hosts = [one.body for one in world.log if one.recipient == "host" and isinstance(one.body, ModelReplied)]
    assert [reply.status for reply in hosts if reply.turn == 1] == ["ok"]


def test_a_process_may_be_killed_while_it_detaches() -> None:
    world = until(SessionWorld(DETACHING), "model host/1")
    make(world, "fault detach")
    make(world, "fault crash")
    make(world, "fault lose one")
    make(world, "resume")
    assert not world.is_detaching
    assert breaches_of(finish(world)) == []


def test_nothing_but_a_port_or_a_kill_strikes_a_process_that_detaches() -> None:
    every = replace(DETACHING, faults=faults(most=9, fault_mixes=0))
    world = until(SessionWorld(every), "model host/1")
    make(world, "fault detach")
    struck = {kind_of(move.strand) for move in world.moves() if move.kind == "fault"}
    assert struck == (set(FAULTS["model"]) - ABORTED) | {"crash"}


@table("seed", range(8))
def test_polite_ends_and_kills_at_any_moment_leave_a_good_log(seed: int) -> None:
    world = SessionWorld(DETACHING).run(in_random_order(seed), 3_000)
    assert breaches_of(finish(world)) == []
