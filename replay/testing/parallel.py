"""A campaign in several processes, which reports its progress and can be stopped with its results so far.

    shares = explore_in_parallel(scenario, Plan(runs=100_000), 4, progress)

Rules
  - The scenario is found by its name in each process, which must find it there. Job k has the seed "SEED/k":
    a campaign of n jobs makes the same runs every time, if it is bounded by runs and goes on at a violation.
  - progress is called a few times a second with the progress of all jobs; False stops them.
  - The first job that breaks a rule stops the others, unless the plan keeps going. A job that is stopped ends
    its run or its shrinking, and hands in its results. Which job is first depends on the system, so the
    example may differ from one campaign to the next of the same seed.
  - Results come in the order of the jobs; of two examples of one size the lower job's is kept.
"""

from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

import msgspec

from callboard.actors.protocol.errors import CallboardError, MisuseError
from callboard.replay.testing.explore import Campaign, Plan, ShardResult
from callboard.replay.testing.statistics import CampaignProgress, Statistics
from callboard.replay.testing.stopwatch import Stopwatch
from callboard.replay.testing.worker_process import start
from callboard.replay.testing.world import Scenario

TOLD_EVERY_S = 0.25


def explore_in_parallel(
    scenario: Scenario[Any],
    plan: Plan,
    jobs: int,
    progress: Callable[[CampaignProgress], bool] = lambda glance: True,
) -> list[ShardResult]:
    """Run a campaign in `jobs` processes, or as many as there are runs.

    Raises MisuseError for less than one, and for a scenario that they cannot find; CallboardError if one of
    them fails.
    """
    if jobs < 1:
        raise MisuseError(f"jobs={jobs}: a campaign has 1 process or more")
    jobs = min(jobs, plan.runs)
    glances: dict[Connection, CampaignProgress] = {}
    shares: dict[Connection, ShardResult] = {}
    processes = []
    for job in range(jobs):
        runs = plan.runs // jobs + (job < plan.runs % jobs)
        part = msgspec.structs.replace(plan, seed=f"{plan.seed}/{job}", runs=runs)
        process, ours = start(_work, scenario, part)
        processes.append(process)
        glances[ours] = CampaignProgress()
    try:
        _collect(glances, shares, plan, progress)
    finally:
        for connection in glances:
            connection.close()
        for process in processes:
            if len(shares) < jobs:
                process.terminate()
            process.join()
    return [shares[connection] for connection in glances]


def _collect(
    glances: dict[Connection, CampaignProgress],
    shares: dict[Connection, ShardResult],
    plan: Plan,
    progress: Callable[[CampaignProgress], bool],
) -> None:
    """Receive progress and results until every job has sent its result."""
    open_ends, is_told = set(glances), False
    while open_ends:
        for ready in wait(list(open_ends), TOLD_EVERY_S):
            assert isinstance(ready, Connection)
            told = _received(ready)
            if isinstance(told, CampaignProgress):
                glances[ready] = told
            else:
                shares[ready] = told
                glances[ready] = CampaignProgress.at(told.statistics)
                open_ends.discard(ready)
        is_over = any(share.counterexamples for share in shares.values()) and not plan.keeps_going
        total = CampaignProgress(*map(sum, zip(*glances.values(), strict=True)))
        goes_on = progress(total)
        if not is_told and (is_over or not goes_on):
            is_told = True
            for connection in open_ends:
                with suppress(OSError):
                    connection.send("stop")


def _received(connection: Connection) -> CampaignProgress | ShardResult:
    try:
        told = connection.recv()
    except (EOFError, OSError) as error:
        raise CallboardError("a process of the campaign has ended; see stderr") from error
    if isinstance(told, str):
        raise CallboardError(told)
    assert isinstance(told, CampaignProgress | ShardResult)
    return told


# --- over there ---------------------------------------------------------------------


def _work(connection: Connection, scenario: Scenario[Any], plan: Plan) -> None:
    """Run one job. The campaign's process may be gone; then the result is dropped."""
    watch, told_at = Stopwatch(), 0.0

    def goes_on(statistics: Statistics) -> bool:
        nonlocal told_at
        if watch.seconds - told_at >= TOLD_EVERY_S:
            told_at = watch.seconds
            connection.send(CampaignProgress.at(statistics))
            return not connection.poll()
        return True

    with suppress(OSError), connection:
        try:
            connection.send(Campaign(*scenario(), plan).run(goes_on))
        except OSError:
            raise
        except Exception as error:
            connection.send(f"a process of the campaign failed: {type(error).__name__}: {error}")
