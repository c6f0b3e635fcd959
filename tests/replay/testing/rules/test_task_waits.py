"""The rule of calls that wait for tasks: of good sessions it holds, and of logs that answer too early or late
it does not.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from callboard.actors.agent.waiting import waits_of
from callboard.actors.protocol import prompts
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Begin, Delegated, DelegationEnded, Told, TurnRequested
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.profiles import ModelSpec
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.rules.task_waits import Waited, Waits
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from tests.mutants import scenarios_waits as scenarios
from tests.mutants.campaign import without_faults
from tests.tables import table

BEGIN = Begin(Json(b'{"name":"host"}'), NULL, ModelSpec("m", 10), Limits())


def broken(log: Sequence[Event]) -> bool:
    return bool(check_log(log, kinds=[Waits]))


def wishes(log: Sequence[Event]) -> list[Event]:
    return [one for one in log if isinstance(one.body, TurnRequested) and one.sender == "host"]


def with_cause(log: Sequence[Event], wish: Event, cause: int) -> list[Event]:
    return [replace(one, cause=cause) if one.seq == wish.seq else one for one in log]


def ends(log: Sequence[Event]) -> list[Event]:
    return [one for one in log if isinstance(one.body, DelegationEnded) and one.recipient == "host"]


@table("name", scenarios.WAITS)
def test_sessions_with_waits_keep_the_rule_in_any_order(name: str) -> None:
    for seed in range(5):
        assert not broken(SessionWorld(scenarios.WAITS[name]).run(in_random_order(seed)).log)


def test_a_named_wait_that_returns_at_the_end_of_another_task_is_found() -> None:
    log = SessionWorld(scenarios.first_of_named()).run().log
    wish = wishes(log)[2]  # after the wait for the first of host.2 and host.3
    named = [one for one in ends(log) if one.seq == wish.cause]
    assert [one.body.address for one in named if isinstance(one.body, DelegationEnded)] == ["host.2"]
    other = next(one for one in ends(log) if one.seq != wish.cause)
    assert broken(with_cause(log, wish, other.seq))


def test_a_wait_that_returns_with_its_reply_although_its_tasks_run_is_found() -> None:
    log = SessionWorld(scenarios.first_of_named()).run().log
    wish = wishes(log)[2]
    reply = max(one.seq for one in log if one.kind == "ModelReplied" and one.seq < wish.cause)
    assert broken(with_cause(log, wish, reply))


def test_a_wait_that_goes_on_after_the_words_that_answer_it_is_found() -> None:
    world = SessionWorld(without_faults(scenarios.words_at_named_waits()))
    while "host" not in world.states or not waits_of(world.agent().calls):
        world.make(next(one for one in world.moves() if not one.strand.startswith("client tells")))
    world.make(next(one for one in world.moves() if one.strand == "client tells t0"))
    while not world.of(Told):
        world.make(next(one for one in world.moves() if one.strand == "inbox supervisor"))
    log = world.run().log
    assert not broken(log)
    told = next(one.seq for one in log if isinstance(one.body, Told))
    wish = next(one for one in wishes(log) if one.cause == told)
    assert broken(with_cause(log, wish, told + 1))


def told(*running: str) -> bytes:
    return bytes(encode(prompts.waited([*running])))


def waited() -> Waited:
    found = Waited()
    for body in (BEGIN, Delegated(1, 0, "host.1"), Delegated(1, 1, "host.2"), ModelReplied(2)):
        found.hear(body)
    return found


def test_an_answer_is_allowed_for_each_moment_since_the_reply_and_for_no_other() -> None:
    found = waited()
    found.hear(DelegationEnded(1, 0, "answered", "host.1"))
    assert found.allows(told("host.1", "host.2"))
    assert found.allows(told("host.2"))
    assert not found.allows(told("host.1"))
    assert not found.allows(told())
    found.hear(ModelReplied(3))
    assert not found.allows(told("host.1", "host.2"))


def test_an_answer_of_the_ask_before_may_be_sent_in_the_next() -> None:
    found = waited()
    found.hear(BEGIN)
    assert found.allows(told("host.1", "host.2"))
    assert found.allows(told())


def test_another_text_is_not_allowed() -> None:
    assert not waited().allows(b'"Still here"')
