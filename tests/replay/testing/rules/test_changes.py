"""The rule of agents that change holds of good sessions, and fires on logs that are damaged for it."""

from callboard.actors.protocol.client_messages import resumed_in
from callboard.actors.protocol.messages import DelegationEnded
from callboard.actors.protocol.port_messages import ContextMade
from callboard.replay.testing.rules.changes import ChangedAgents
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from tests.mutants.scenarios_changed import CHANGED, agents_gone
from tests.replay.testing.edited_logs import Log, edited, find


def is_gone(end: object) -> bool:
    return isinstance(end, DelegationEnded) and "is gone" in end.detail


def with_an_end() -> Log:
    """Return the log of a session in which an agent is gone while its context is made."""
    for seed in range(200):
        log = list(SessionWorld(agents_gone()).run(in_random_order(seed)).log)
        ends = [event.cause for event in log if is_gone(event.body)]
        if any(isinstance(log[cause - 1].body, ContextMade) for cause in ends):
            return log
    raise AssertionError("no schedule lets a resume come while a context is made")


LOG = with_an_end()


def broken(log: Log) -> list[str]:
    return [one.detail for one in check_log(log, kinds=[ChangedAgents])]


def test_sessions_whose_agents_change_keep_the_rule() -> None:
    assert broken(LOG) == []
    for scenario in CHANGED.values():
        assert broken(list(SessionWorld(scenario).run(in_random_order(1)).log)) == []


def test_an_end_that_does_not_name_the_agent_is_found() -> None:
    assert any(
        "does not name it" in one
        for one in broken(edited(LOG, lambda event: is_gone(event.body), detail="an agent is lost"))
    )


def test_an_end_for_want_of_an_agent_that_is_there_is_found() -> None:
    resume = find(LOG, lambda event: resumed_in(event.body) is not None)
    same = edited(LOG, lambda event: event.seq == resume.seq, profiles=())
    assert any("no agent has changed" in one for one in broken(same))


def test_an_agent_that_begins_after_it_is_gone_is_found() -> None:
    later, first = agents_gone().resumed, SessionWorld(agents_gone()).run().log
    early = edited(first, lambda event: event.seq == 1, profiles=later.profiles)
    assert any("begins, and agent 'kid' is gone" in one for one in broken(early))
