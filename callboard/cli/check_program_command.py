"""`callboard check-program`: does a changed program still repeat the recorded steps of live sessions?"""

from typing import Final

import click
import msgspec

from callboard.cli.errors import DIVERGED, FAILED, refuse_if
from callboard.cli.formats import counted
from callboard.cli.offline_child import CheckRuns
from callboard.cli.offline_process import OfflineProcess
from callboard.cli.options import json_option, log_option, session_argument
from callboard.cli.output import emit, emit_json, talk
from callboard.cli.recordings import find_place, key_options, open_reader
from callboard.cli.terminal_escape import safe_line
from callboard.replay.recording import Recording
from callboard.runtime.log.protocol import LogReader
from callboard.runtime.log.session_rows import SessionQuery
from callboard.runtime.programs.checking import RunCheck, programs_of

_CODES: Final = {"diverged": DIVERGED, "missing": DIVERGED, "stopped": FAILED}


class _SessionCheck(msgspec.Struct, frozen=True, omit_defaults=True):
    """The check of one session. result: the worst of its runs, or `stopped` for one over the time limit."""

    session: str
    result: str
    runs: tuple[RunCheck, ...] = ()
    error: str = ""


@click.command("check-program")
@session_argument
@click.option("--with", "spec", metavar="MODULE:AGENT", required=True, help="The host agent as it is now.")
@click.option("--unfinished", is_flag=True, help="Every session whose ask has no outcome yet.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="The time that one session may take.",
)
@log_option
@key_options
@json_option
def check_program(
    session: str, spec: str, unfinished: bool, timeout_s: float, log: str, as_json: bool
) -> int:
    """Check a changed program against the recorded steps of sessions, before it is deployed.

    Each program of a session is executed again, step by step, with the answers and times that are in the log.
    It must ask the same again: a session in which it does not would wait for its code. Of an
    unfinished session the runs that still go on are checked, of another one the last run of each program.

    The programs run in a process of their own, without network and subprocesses. No model is called, no tool
    runs, and the log is only read.

    Exit code 0 if each step is repeated, 5 if one is not, 1 if a session was over its time.

    \b
    Examples:
      callboard check-program --unfinished --with shop:host
      callboard check-program 2026 --with shop.py:host --json | jq '.runs[]'
    """
    refuse_if(unfinished and session, "--unfinished checks many sessions: leave SESSION out")
    with open_reader(log) as reader:
        places = _places(reader, session, is_unfinished=unfinished)
        found = []
        with OfflineProcess(spec) as child:
            for name, seq in places:
                recording = Recording.open(reader, name, upto=seq)
                found.append(_checked(child, recording, timeout_s))
                if not as_json:
                    _emit(found[-1])
    if as_json:
        emit_json({"log": log, "sessions": found} if unfinished else found[0])
    elif unfinished:
        bad = sum(one.result != "ok" for one in found)
        talk(f"{counted(len(found), 'session')} checked, {bad or 'none'} would not go on")
    return max((_CODES.get(one.result, 0) for one in found), default=0)


def _places(reader: LogReader, session: str, *, is_unfinished: bool) -> list[tuple[str, int | None]]:
    """Return the sessions to check, and the last event to look at; None for all of them."""
    if is_unfinished:
        return [(row.session_id, None) for row in reader.sessions(SessionQuery(status="unfinished"))]
    row, seq = find_place(reader, session)
    return [(row.session_id, seq)]


def _checked(child: OfflineProcess, recording: Recording, timeout_s: float) -> _SessionCheck:
    name = recording.session_id
    agents = tuple(programs_of(recording.states(recording.head.seq) if recording.head.seq else {}))
    runs = child.ask(CheckRuns(agents), tuple[RunCheck, ...], timeout_s) if agents else ()
    if runs is None:
        return _SessionCheck(name, "stopped", error=f"not done within {timeout_s:g} s (--timeout)")
    results = {run.result for run in runs}
    return _SessionCheck(name, next((one for one in _CODES if one in results), "ok"), runs)


def _emit(one: _SessionCheck) -> None:
    verdict = one.error or ("no program" if not one.runs else one.result)
    emit(f"session {safe_line(one.session)}: {verdict}")
    for run in one.runs:
        emit(f"  {safe_line(run.line())}")
