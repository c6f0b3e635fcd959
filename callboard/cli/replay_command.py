"""`callboard replay`: a session, event by event."""

import sys

import click

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
@log_option
@json_option
def replay(session: str, at: int | None, check: bool, log: str, as_json: bool) -> None:
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

    \b
    Examples:
      callboard replay
      callboard replay 2026 --at 12
      callboard replay --at 12 | less
    """
    recording, seq = open_place(log, session)
    at = event_at(at, seq)
    if at is not None:
        recording.event(at)
    is_stepped = not as_json and sys.stdin.isatty() and is_terminal(sys.stdout)
    is_checked = check or (at is None and not is_stepped)
    if is_checked:
        recording.check()
    if is_stepped:
        Stepper(recording, at or 1).run()
    else:
        _print(recording, at, is_checked=is_checked, as_json=as_json)


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
