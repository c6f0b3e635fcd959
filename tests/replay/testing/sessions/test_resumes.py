"""Every prefix resumes; and a recovery that does not keep its rules is found out."""

import pytest

from callboard.actors.protocol.client_messages import AskEnded, Resumed
from callboard.actors.protocol.events import Event, Post
from callboard.actors.session import recovery
from callboard.replay.testing.sessions.resumes import check_resumes, go_on
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from tests.replay.testing.scenarios import RICH, TWO, rich


@pytest.mark.slow
def test_every_prefix_of_a_rich_session_resumes_to_a_good_end() -> None:
    assert check_resumes(RICH, rich().log) == []
    assert check_resumes(RICH, rich().log, in_random_order(3), start=40) == []


def test_going_on_asks_nothing_new_and_starts_where_the_log_ended() -> None:
    log = SessionWorld(TWO).run().log
    world = go_on(TWO, log[:12], at=log[0].at + 500)
    assert world.log[:12] == log[:12]
    assert isinstance(world.log[12].body, Resumed)
    assert world.log[12].at == log[0].at + 500
    assert [ended.kind for ended in world.run().of(AskEnded)] == ["answered"]


@pytest.mark.slow
def test_a_recovery_that_runs_write_tools_again_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    left = recovery._Recovery._left_by_crash

    def forgets(self: recovery._Recovery, request: Event) -> Post | None:
        return None if request.kind == "CallTool" else left(self, request)

    monkeypatch.setattr(recovery._Recovery, "_left_by_crash", forgets)
    found = check_resumes(RICH, rich().log)
    assert "started-once" in {breach.name for breach in found}


@pytest.mark.slow
def test_a_recovery_that_forgets_to_answer_lost_calls_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery._Recovery, "answer", lambda self: None)
    found = check_resumes(TWO, SessionWorld(TWO).run().log)
    assert "resumes" in {breach.name for breach in found}
    assert found[0].seq > 0
