import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from callboard.actors.protocol.errors import CallboardError, MisuseError
from callboard.replay.testing.explore import Plan, merge_shards
from callboard.replay.testing.parallel import explore_in_parallel, start
from callboard.replay.testing.statistics import CampaignProgress
from tests.replay.testing.job_scenarios import Found, broken, broken_in_one, dying, failing, fine, no_needle


@pytest.mark.slow
def test_jobs_make_the_same_runs_each_time_and_tell_how_far_they_are() -> None:
    plan = Plan(scheduler="pct", runs=301, seed=4)
    glances: list[CampaignProgress] = []

    def progress(glance: CampaignProgress) -> bool:
        glances.append(glance)
        return True

    shares = explore_in_parallel(fine, plan, 2, progress)
    assert [share.statistics.runs for share in shares] == [151, 150], "in the order of the jobs"
    found = merge_shards(shares, plan, 0.0)
    assert found.figures == merge_shards(explore_in_parallel(fine, plan, 2), plan, 0.0).figures
    assert glances[-1].runs == 301
    assert [one.runs for one in glances] == sorted(one.runs for one in glances)


@pytest.mark.slow
def test_a_violation_ends_the_campaign_and_a_goal_is_met_if_one_job_met_it() -> None:
    plan = Plan(runs=1_000_000, scenario="account")
    found = merge_shards(explore_in_parallel(broken, plan, 2), plan, 0.0)
    (one,) = found.counterexamples
    assert len(one.steps) == 8
    assert found.figures.runs < 1_000_000
    plan = Plan(runs=1_000)
    found = merge_shards(explore_in_parallel(no_needle, plan, 2), plan, 0.0)
    assert (found.unmet_goals, found.is_exhausted, found.is_ok) == (("never",), True, False)


@pytest.mark.slow
def test_the_first_job_that_breaks_a_rule_stops_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLBOARD_TEST_FLAG", str(tmp_path / "flag"))
    plan = Plan(scheduler="pct", runs=1 << 40, seconds=30)
    shares = explore_in_parallel(broken_in_one, plan, 2)
    assert sorted(len(share.counterexamples) for share in shares) == [0, 1]
    assert [share.is_exhausted for share in shares] == [False, False]
    assert sum(share.statistics.runs for share in shares) < plan.runs


@pytest.mark.slow
def test_jobs_that_are_asked_to_stop_hand_in_their_findings() -> None:
    shares = explore_in_parallel(
        fine, Plan(scheduler="pct", runs=1 << 40), 2, lambda glance: glance.runs < 200
    )
    assert len(shares) == 2
    assert not any(share.is_exhausted for share in shares)
    assert sum(share.statistics.runs for share in shares) >= 200


@pytest.mark.slow
def test_a_job_that_fails_or_dies_ends_the_campaign_with_its_message() -> None:
    with pytest.raises(CallboardError, match="failed: ValueError: no luck"):
        explore_in_parallel(failing, Plan(), 2)
    with pytest.raises(CallboardError, match="a process of the campaign has ended"):
        explore_in_parallel(dying, Plan(), 2)


@pytest.mark.slow
def test_there_are_never_more_jobs_than_runs_and_never_less_than_one() -> None:
    assert [share.statistics.runs for share in explore_in_parallel(fine, Plan("pct", 1), 40)] == [1]
    with pytest.raises(MisuseError, match="jobs=0: a campaign has 1 process or more"):
        explore_in_parallel(fine, Plan(), 0)


def test_a_scenario_that_other_processes_cannot_find_is_refused() -> None:
    def inner() -> Found:
        return fine()

    with pytest.raises(MisuseError, match="not at the top of a module"):
        explore_in_parallel(inner, Plan(), 2)


def tell(connection: Connection, names: list[str]) -> None:
    """Send the process's signal handling and environment at its start."""
    ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    connection.send((ignored, [os.environ.get(name) for name in names]))


@pytest.mark.slow
def test_a_process_starts_deaf_to_ctrl_c_and_with_the_variables_it_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ONE", "kept")
    monkeypatch.delenv("TWO", raising=False)
    handler = signal.getsignal(signal.SIGINT)
    process, connection = start(tell, ["ONE", "TWO"], environment={"ONE": "1", "TWO": "2"})
    assert connection.recv() == (True, ["1", "2"])
    process.join()
    connection.close()
    assert (os.environ["ONE"], os.environ.get("TWO")) == ("kept", None)
    assert signal.getsignal(signal.SIGINT) == handler


def test_what_has_no_name_elsewhere_is_refused() -> None:
    with pytest.raises(MisuseError, match="<lambda> is not at the top of a module"):
        start(tell, lambda: None)
