"""`callboard explore`: many orders and faults of one scenario, and a small example of each broken rule."""

import os
import shlex
import sys
from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Final, NamedTuple

import click

from callboard.cli.errors import FAILED, INTERRUPTED, misused, refuse_if
from callboard.cli.options import json_option
from callboard.cli.output import attributes, console_on, emit, emit_json, talk
from callboard.cli.progress import Progress, reporting
from callboard.cli.scenarios import load_parts, load_subject
from callboard.replay.testing.agents.subject import Subject, made, run_lines
from callboard.replay.testing.determinism import Nondeterminism, check_schedule, explore_twice
from callboard.replay.testing.explore import (
    RUNS,
    Campaign,
    Counterexample,
    Explored,
    Plan,
    ShardResult,
    merge_shards,
)
from callboard.replay.testing.monitors import Unstable
from callboard.replay.testing.parallel import explore_in_parallel
from callboard.replay.testing.run import Bounds, Run
from callboard.replay.testing.schedule import STEPS_MAX, parse
from callboard.replay.testing.schedulers.portfolio import NAMES, scheduler_named
from callboard.replay.testing.statistics import Stopwatch
from callboard.replay.testing.world import World, steps_of

_RUNS_IN_TIME: Final = 1 << 40  # the runs of a campaign that only time limits
_JOBS_A_CORE: Final = 4
_SQLITE: Final = b"SQLite format 3\0"


class Job(NamedTuple):
    """A scenario to explore, and how."""

    subject: Subject
    spec: str
    plan: Plan
    jobs: int
    is_checked: bool

    def command(self, text: str) -> str:
        """Return the command that repeats a run."""
        return f"callboard explore {shlex.quote(self.spec)} --schedule {text}"


@click.command("explore")
@click.argument("scenario", metavar="MODULE:SCENARIO")
@click.option(
    "--runs",
    type=click.IntRange(1),
    envvar="CALLBOARD_RUNS",
    show_envvar=True,
    help=f"Number of runs: {RUNS:,}, or with --seconds as many as fit.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    help="Stop after this time. An example found at the end gets one more second to be made small.",
)
@click.option(
    "--seed",
    default="0",
    envvar="CALLBOARD_SEED",
    show_default=True,
    show_envvar=True,
    help="Any text. 'random' draws a seed, and the result shows it.",
)
@click.option(
    "--scheduler",
    metavar="NAME",
    default="portfolio",
    show_default=True,
    help=f"How each next step is chosen: {', '.join(NAMES)}; with a bound, pct:2, delays:3, exhaustive:2.",
)
@click.option(
    "--steps",
    type=click.IntRange(1),
    default=STEPS_MAX,
    show_default=True,
    help="Steps of a run with faults; it then has ten times as many to come to rest.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=1,
    envvar="CALLBOARD_JOBS",
    show_default=True,
    show_envvar=True,
    help="Number of processes, at most 4 for each core. Without --keep-going, the example may differ each "
    "time.",
)
@click.option("--schedule", metavar="TEXT", default="", help="Repeat one run, from the text of an example.")
@click.option("--keep-going", is_flag=True, help="Do not stop at the first broken rule.")
@click.option(
    "--check-determinism",
    is_flag=True,
    envvar="CALLBOARD_CHECK_DETERMINISM",
    show_envvar=True,
    help="Repeat every run in another process and compare all states.",
)
@click.option("--save", metavar="FILE", default="", help="Record the examples in this log, as sessions.")
@json_option
def explore(
    scenario: str,
    runs: int | None,
    seconds: float | None,
    seed: str,
    scheduler: str,
    steps: int,
    jobs: int,
    schedule: str,
    keep_going: bool,
    check_determinism: bool,
    save: str,
    as_json: bool,
) -> int:
    """Try many orders and faults of a scenario, and show the runs that break a rule.

    MODULE:SCENARIO names a callboard.testing.Scenario in a Python module (agents, the answers of their
    models, prompts, possible faults), a function without arguments that returns one, or a function that
    returns (make_world, monitors). The module is found from the current folder; path/to/file.py:scenario
    works too. No model is called.

    Each run is one order in which messages are handled and ports answer, with faults if the scenario has any.
    A run that breaks a rule is made as small as possible and shown as a chart, with the command that repeats
    it. The same seed repeats a campaign; with several jobs this holds only with --keep-going, because the
    campaign otherwise stops at the first example that any job reports.

    Progress goes to stderr, the result to stdout. Ctrl-C ends the campaign and shows its results so far.

    Exit code 0: no rule was broken. Exit code 1: a rule was broken, a goal was never reached, no run came to
    rest, or two processes reached different states. Exit code 2: the command cannot work, for example with
    a schedule that no longer fits the code.

    \b
    Examples:
      callboard explore shop:booking
      callboard explore shop:booking --seconds 60 --jobs 4 --keep-going
      callboard explore shop:booking --schedule 1.5be1a6b2.eNpr... --save found.db
      callboard explore shop:booking --json | jq '.counterexamples[].rule'
    """
    subject = load_subject(scenario)
    scheduler_named(scheduler)
    if save:
        refuse_if(
            subject.session is None,
            f"--save: {scenario} is not a session, and only sessions can be recorded; leave it out",
        )
        _check_writable(Path(save))
    refuse_if(
        check_determinism and jobs > 1, "--check-determinism starts its own processes: leave --jobs out"
    )
    count = runs or (RUNS if seconds is None else _RUNS_IN_TIME)
    seed = token_hex(4) if seed == "random" else seed
    plan = Plan(scheduler, count, seconds, seed, Bounds(steps), subject.fingerprint, keep_going)
    job = Job(subject, scenario, plan, _jobs(jobs, count), check_determinism)
    try:
        if schedule:
            return _replay(job, schedule, save, as_json)
        return _explore(job, save, as_json)
    except Nondeterminism as error:
        return _nondeterministic(job, error, as_json)


def _jobs(wanted: int, runs: int) -> int:
    """Limit the number of processes to the useful ones, and say so if that changes it."""
    most = min(_JOBS_A_CORE * (os.cpu_count() or 1), runs)
    if wanted > most:
        talk(f"--jobs {wanted}: only {most} are used, because of the number of runs and cores")
    return min(wanted, most)


def _explore(job: Job, save: str, as_json: bool) -> int:
    is_bounded = job.plan.runs < _RUNS_IN_TIME
    progress = Progress(sys.stderr, job.plan.runs if is_bounded else None)
    watch = Stopwatch()
    with reporting(progress):
        shares = _shares(job, progress)
    found = merge_shards(shares, job.plan, watch.seconds)
    if progress.is_stopped:
        talk("interrupted; the results so far:")
    if as_json:
        emit_json(_report(job, found, progress.is_stopped))
    else:
        emit("\n".join(job.subject.lines(found, console_on().width, job.command)))
    if save and not found.counterexamples:
        talk(f"no rule was broken, so nothing was written to {save}")
    for one in found.counterexamples if save else ():
        _save(job, one.text, save)
    if found.counterexamples:
        return FAILED
    return INTERRUPTED if progress.is_stopped else 0 if found.is_ok else FAILED


def _shares(job: Job, progress: Progress) -> list[ShardResult]:
    if job.jobs > 1:
        return explore_in_parallel(partial(load_parts, job.spec), job.plan, job.jobs, progress.begins)
    if job.is_checked:
        return [explore_twice(partial(load_parts, job.spec), job.plan, progress.begins)]
    return [Campaign(*job.subject(), job.plan).run(progress.begins)]


def _report(job: Job, found: Explored, is_interrupted: bool) -> Mapping[str, object]:
    return {
        "scenario": job.spec,
        "fingerprint": job.subject.fingerprint,
        **attributes(found, "is_ok", "is_without_end"),
        "is_interrupted": is_interrupted,
        **attributes(found, "is_exhausted", "scheduler"),
        "seed": str(found.seed),
        "jobs": job.jobs,
        "is_determinism_checked": job.is_checked,
        "seconds": round(found.seconds, 3),
        "figures": found.figures,
        "goals_not_reached": found.unmet_goals,
        "unstable": _unstable(job, found.unstable),
        "counterexamples": [_example(job, one) for one in found.counterexamples],
    }


def _unstable(job: Job, found: Unstable | None) -> Mapping[str, object] | None:
    if found is None:
        return None
    return {
        **attributes(found, "run", "difference"),
        "schedule": found.schedule.text(job.subject.fingerprint),
    }


def _example(job: Job, found: Counterexample) -> Mapping[str, object]:
    return {
        **attributes(found.violation, "rule", "at", "place"),
        "details": job.subject.details(found.text, found.violation.rule),
        "schedule": found.text,
        "command": job.command(found.text),
        **attributes(found, "steps", "unneeded", "races", "decided_by", "conditions", "is_minimal"),
        **attributes(found, "run", "scheduler"),
        "seed": str(found.seed),
        "steps_found": len(found.found.strands),
    }


def _replay(job: Job, text: str, save: str, as_json: bool) -> int:
    plan = parse(text, job.subject.fingerprint)
    with reporting(Progress()):
        run, world = made(job.subject, plan)
        if job.is_checked:
            check_schedule(partial(load_parts, job.spec), plan, job.subject.fingerprint)
    if as_json:
        emit_json(_replayed(job, text, run, world))
    else:
        emit("\n".join(run_lines(job.subject, run, world, console_on().width)))
    if save:
        _save(job, text, save)
    return FAILED if run.violation else 0


def _replayed(job: Job, text: str, run: Run, world: World) -> Mapping[str, object]:
    broken = run.violation
    return {
        "scenario": job.spec,
        "fingerprint": job.subject.fingerprint,
        "schedule": text,
        "is_ok": broken is None,
        **(attributes(broken, "rule", "at") if broken else {"rule": None, "at": None}),
        "details": job.subject.details(text, broken.rule) if broken else [],
        "violations": run.violations,
        "steps": steps_of(world),
    }


def _nondeterministic(job: Job, error: Nondeterminism, as_json: bool) -> int:
    """Report that two processes reached different states, which makes every other result unreliable."""
    if as_json:
        told = attributes(error, "actor", "step", "label", "field", "here", "there", "hash_seed", "schedule")
        emit_json({"scenario": job.spec, "is_ok": False, "nondeterminism": told})
        return FAILED
    emit(f"not deterministic after step {error.step} ({error.label}): {error.actor}, {error.field}")
    emit(f"  here: {error.here}")
    emit(f"  in another process (PYTHONHASHSEED={error.hash_seed}): {error.there}")
    emit("Look for iteration over a set, hash(), id(), a clock or randomness in the code that decides this.")
    emit(f"{job.command(error.schedule)} --check-determinism")
    return FAILED


def _check_writable(path: Path) -> None:
    """Check before the campaign starts that a log can be written there."""
    place, where = path if path.exists() else path.parent, f"--save {path}:"
    refuse_if(not path.parent.is_dir(), f"{where} the folder {path.parent} does not exist; make it first")
    refuse_if(path.is_dir(), f"{where} this is a folder; name a file")
    refuse_if(not os.access(place, os.W_OK), f"{where} this file cannot be written; name another")
    if path.is_file():
        try:
            with path.open("rb") as file:
                begun = file.read(len(_SQLITE))
        except OSError as error:
            raise misused(f"{where} {error}") from None
        refuse_if(begun not in (b"", _SQLITE), f"{where} this file is not a log; name a log or a new file")


def _save(job: Job, text: str, path: str) -> None:
    """Record the run in a log, as a session named after its schedule."""
    assert job.subject.session is not None
    name = f"explored-{sha256(text.encode()).hexdigest()[:8]}"
    job.subject.session.simulate(text).save(path, name)
    talk(f"recorded as session {name}; callboard events {name} --step --log {shlex.quote(path)}")
