"""A campaign in several processes, which reports its progress and can be stopped with its results so far.

    shards = explore_in_parallel(scenario, Plan(runs=100_000), 4, progress)

Job k has the seed "SEED/k": a campaign of n jobs makes the same runs every time, if it is bounded by runs and
goes on at a violation. Else the first job that breaks a rule stops the others, which end their run or their
shrinking and hand in their results; which job is first depends on the system, and so may the example.

Starting a process that makes runs for a campaign, for a scenario that is found there by its name.
"""

import atexit
import gc
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import msgspec

from callboard.actors.protocol.errors import CallboardError, MisuseError
from callboard.replay.testing.explore import Campaign, Plan, ShardResult
from callboard.replay.testing.statistics import CampaignProgress, Statistics, Stopwatch
from callboard.replay.testing.world import Scenario

TOLD_EVERY_S = 0.25


def explore_in_parallel(
    scenario: Scenario[Any],
    plan: Plan,
    jobs: int,
    progress: Callable[[CampaignProgress], bool] = lambda glance: True,
) -> list[ShardResult]:
    """Run a campaign in `jobs` processes, or as many as there are runs.

    progress: called a few times a second with the progress of all jobs; False stops them. Raises MisuseError
    for less than one job, or a scenario that they cannot find; CallboardError if one of them fails.
    """
    if jobs < 1:
        raise MisuseError(f"jobs={jobs}: a campaign has 1 process or more")
    jobs = min(jobs, plan.runs)
    latest: dict[Connection, CampaignProgress | ShardResult] = {}
    processes = []
    for job in range(jobs):
        runs = plan.runs // jobs + (job < plan.runs % jobs)
        part = msgspec.structs.replace(plan, seed=f"{plan.seed}/{job}", runs=runs)
        process, ours = start(_work, scenario, part)
        processes.append(process)
        latest[ours] = CampaignProgress()
    try:
        return _collect(latest, plan, progress)
    finally:
        for (connection, told), process in zip(latest.items(), processes, strict=True):
            connection.close()
            if isinstance(told, CampaignProgress):
                process.terminate()
            process.join()


def _collect(
    latest: dict[Connection, CampaignProgress | ShardResult],
    plan: Plan,
    progress: Callable[[CampaignProgress], bool],
) -> list[ShardResult]:
    """Receive progress and results into `latest` until every job has sent its result; return these."""
    to_stop = [*latest]
    while len(_done(latest)) < len(latest):
        for ready in wait(_working(latest), TOLD_EVERY_S):
            assert isinstance(ready, Connection)
            latest[ready] = _received(ready)
        total = CampaignProgress(*map(sum, zip(*map(_progress, latest.values()), strict=True)))
        if not progress(total) or _is_over(plan, _done(latest)):
            _stop(to_stop)
    return _done(latest)


def _working(latest: dict[Connection, CampaignProgress | ShardResult]) -> list[Connection]:
    return [end for end, told in latest.items() if isinstance(told, CampaignProgress)]


def _done(latest: dict[Connection, CampaignProgress | ShardResult]) -> list[ShardResult]:
    return [told for told in latest.values() if isinstance(told, ShardResult)]


def _is_over(plan: Plan, done: list[ShardResult]) -> bool:
    return not plan.keeps_going and any(shard.counterexamples for shard in done)


def _stop(working: list[Connection]) -> None:
    """Tell these jobs once to stop."""
    while working:
        with suppress(OSError):  # its process may have ended since
            working.pop().send("stop")


def _progress(told: CampaignProgress | ShardResult) -> CampaignProgress:
    return told if isinstance(told, CampaignProgress) else CampaignProgress.at(told.statistics)


def _received(connection: Connection) -> CampaignProgress | ShardResult:
    try:
        told: CampaignProgress | ShardResult | str = connection.recv()
    except (EOFError, OSError) as error:
        raise CallboardError("a process of the campaign has ended; see stderr") from error
    if isinstance(told, str):
        raise CallboardError(told)
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


def start(
    target: Callable[..., None],
    scenario: object,
    *about: object,
    environment: Mapping[str, str] | None = None,
) -> tuple[BaseProcess, Connection]:
    """Start `target(connection, scenario, *about)` in a new process; return the process and the other end.
    environment: additional variables for it. Raises MisuseError for a scenario that it cannot find.
    """
    _check_named(scenario)
    context = get_context("spawn")  # not fork: the child gets its arguments and no other state
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(target, theirs, scenario, *about), daemon=True)
    with _environment(environment or {}), _deaf():
        process.start()
    theirs.close()
    return process, ours


def _run(target: Callable[..., None], *arguments: object) -> None:
    # Else Python looks for garbage among all modules at the end of the process.
    atexit.register(gc.freeze)
    target(*arguments)


def _check_named(scenario: object) -> None:
    """Raise MisuseError for a scenario that another process cannot find."""
    try:
        pickle.dumps(scenario)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        name = getattr(scenario, "__qualname__", type(scenario).__name__)
        raise MisuseError(
            f"{name} is not at the top of a module, where other processes find it; move it there ({error})"
        ) from None


@contextmanager
def _environment(more: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ[name] for name in more if name in os.environ}
    os.environ.update(more)
    try:
        yield
    finally:
        for name in more:
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def _deaf() -> Iterator[None]:
    """Ignore Ctrl-C, which is for the campaign alone, in the processes that start here."""
    # A new process ignores what its parent ignored, from its first moment on.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: Any = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
