"""`callboard replay`: a session, event by event."""

import sys

import click

from callboard.cli.errors import DIVERGED, refuse_if
from callboard.cli.options import check_option, json_option, log_option, session_argument
from callboard.cli.output import emit_json, emit_lines, is_terminal, width_of_stdout
from callboard.cli.recordings import event_at, open_place, say_checked
from callboard.cli.step_lines import step_json, step_lines
from callboard.cli.stepper import Stepper
from callboard.replay.recording import Recording


@click.command("replay")
@session_argument
@click.option("--at", type=int, metavar="N", help="Begin at event N; off a terminal, show only this one.")
@check_option
@click.option("--with", "spec", metavar="MODULE:AGENT", default="", help="Replay with the agents of today.")
@click.option("--strict", is_flag=True, help="With --with: exit code 5 also for requests that differ.")
@click.option("--full", is_flag=True, help="With --with: fold nothing.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="With --with: the time that each task of the agents' process may take.",
)
@log_option
@json_option
def replay(
    session: str,
    at: int | None,
    check: bool,
    spec: str,
    strict: bool,
    full: bool,
    timeout_s: float,
    log: str,
    as_json: bool,
) -> int:
    """Step through a session, event by event.

    For each event: its envelope, the message, the decision that posted it, the events that answer it, and
    its recipient's state afterwards, as the deciders compute it from the log. No model is called and no tool
    runs.

    \b
    Keys:
      enter, n, space, down   next          p, up    back
      12 enter                event 12      g, G     first, last
      a, A                    next event of this actor, the last one before
      d, D                    next delegation, the last one before
      f, F                    next failure or refusal, the last one before
      /                       search for a text
      v                       last change of a field of the actor's state
      b                       all of a long message
      s                       all of the actor's state, as JSON
      c                       the fields of the state that the event changed
      r                       the request of the model call
      w                       why: what the event was made of, and the way to it
      q                       leave

    Off a terminal, or with --json, all events are printed one after the other, or with --at just one; its
    JSON then has the whole state. Digests are checked when all events are printed, or with --check.

    With --with the session is decided again by the agents of today, on the recorded answers: first the
    changes of their descriptions, then of each agent the first request that differs, then the first decision
    that differs. MODULE is loaded, and programs are executed, in a process of their own, without network and
    subprocesses. The exit code is 5 if a decision differs. docs/replay-changes.md says when an answer fits.

    \b
    Examples:
      callboard replay
      callboard replay 2026 --at 12
      callboard replay --at 12 | less
      callboard replay 2026 --with survey:host --strict
    """
    refuse_if((strict or full) and not spec, "--strict and --full are for --with MODULE:AGENT")
    recording, seq = open_place(log, session)
    at = event_at(at, seq)
    refuse_if(spec and (at or check), "--with replays the whole session: leave #SEQ, --at and --check out")
    if spec:
        return _replay_with(recording, spec, timeout_s, is_strict=strict, is_full=full, as_json=as_json)
    _step_through(recording, at, has_check=check, as_json=as_json)
    return 0


def _step_through(recording: Recording, at: int | None, *, has_check: bool, as_json: bool) -> None:
    """Step through a recording in a terminal, or print its events."""
    if at is not None:
        recording.event(at)
    is_stepped = not as_json and sys.stdin.isatty() and is_terminal(sys.stdout)
    is_checked = has_check or (at is None and not is_stepped)
    if is_checked:
        recording.check()
    if is_stepped:
        Stepper(recording, at or 1).run()
    else:
        _print(recording, at, is_checked=is_checked, as_json=as_json)


def _replay_with(
    recording: Recording, spec: str, timeout_s: float, *, is_strict: bool, is_full: bool, as_json: bool
) -> int:
    """Replay with changed agents, and return the exit code."""
    # Here: the stepper needs neither agents nor a schema engine.
    from callboard.cli.changed_agents import replay_with
    from callboard.cli.changed_replay import changed_json, changed_lines

    found = replay_with(recording, spec, timeout_s)
    if as_json:
        emit_json(changed_json(found, spec))
    else:
        emit_lines(changed_lines(found, spec, is_full=is_full), is_whole=is_full)
    return DIVERGED if found.decisions or (is_strict and found.requests) else 0


def _print(recording: Recording, at: int | None, *, is_checked: bool, as_json: bool) -> None:
    """Print one step, or all of them."""
    steps = recording.steps()
    for seq in range(1, len(steps) + 1) if at is None else [at]:
        step = steps.at(seq)
        if not as_json:
            emit_lines(step_lines(recording, step, width_of_stdout(), body_lines=0))
            continue
        has_state = at is not None
        emit_json(step_json(recording, step, is_checked=is_checked, has_state=has_state), is_line=at is None)
    if not as_json:
        say_checked(is_checked=is_checked)
