"""`callboard check-program`: does a changed program still repeat the recorded steps of live sessions?

The programs of a recorded session, also those of sub-agents that ended long ago.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

import click
import msgspec

from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.conversation import message
from callboard.actors.protocol.errors import CallboardError
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.cli.errors import DIVERGED, FAILED, refuse_if
from callboard.cli.offline_process import CheckRuns, Describe, Described, OfflineProcess
from callboard.cli.options import json_option, log_option, session_argument
from callboard.cli.output import emit, emit_json, emit_lines, percent_on, table, talk
from callboard.cli.recordings import find_place, key_options, open_reader
from callboard.cli.terminal_escape import safe_line
from callboard.replay.formats import counted
from callboard.replay.recording import Recording
from callboard.runtime.log.protocol import LogReader
from callboard.runtime.log.reading import shown_address
from callboard.runtime.log.session_rows import SessionQuery, SessionRow
from callboard.runtime.programs.checking import RecordedAgent, RunCheck, programs_of
from callboard.runtime.programs.history import read_step

_CODES: Final = {"diverged": DIVERGED, "missing": DIVERGED, "stopped": FAILED, "unreadable": FAILED}
_SHOWN_FROM: Final = 10  # sessions, each of which may take its whole time


class _SessionCheck(msgspec.Struct, frozen=True, omit_defaults=True):
    """The check of one session.

    result: `ok`, or the worst of its runs; `stopped` for one over the time limit, `unreadable` for one whose
    log cannot be read, `other_host` for one of another host. status: `open`, `unfinished` or `closed`.
    first_difference: the first step of all programs that differs, with its event; '' for none.
    """

    session: str
    result: str
    runs: tuple[RunCheck, ...] = ()
    error: str = ""
    status: str = ""
    first_difference: str = ""

    def verdict(self) -> str:
        """Return the result in a few words."""
        if self.error:
            return f"not checkable ({self.error})"
        wrong = [run for run in self.runs if run.result == self.result != "ok"]
        if not wrong:
            return "ok" if self.runs else "ok (no program)"
        first, more = wrong[0], f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        if first.result == "missing":
            return f"program is gone ({first.address}: {first.program}{more})"
        return f"differs at step {first.step} ({first.address}: {first.program}{more})"


class _Place(NamedTuple):
    """A session to check. upto: the last event to look at, None for all. only_running: no ended runs."""

    row: SessionRow
    upto: int | None = None
    only_running: bool = False


@click.command("check-program")
@session_argument
@click.option("--with", "spec", metavar="MODULE:AGENT", required=True, help="The host agent as it is now.")
@click.option("--unfinished", is_flag=True, help="Every session whose ask has no outcome yet.")
@click.option("--all", "every", is_flag=True, help="Every session of the log, including ended ones.")
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
    session: str, spec: str, unfinished: bool, every: bool, timeout_s: float, log: str, as_json: bool
) -> int:
    """Check a changed program against the recorded steps of sessions, before it is deployed.

    Each program of a session is executed again, step by step, with the answers and times in the log. It must
    make the same calls again; a session in which it does not would wait for its code when it continues. For
    an unfinished session, the runs in progress are checked; for any other, the last run of each program,
    including sub-agents.

    The programs run in a separate process, without network and subprocesses. No model is called, no tool
    runs, and the log is only read. With --all and --unfinished, sessions of another host are left out.

    The exit code is 0 if each step is repeated, 5 if one is not, and 1 if a session could not be checked.

    \b
    Examples:
      callboard check-program --unfinished --with shop:host
      callboard check-program --all --with shop:host --json | jq '.sessions[]'
      callboard check-program 2026 --with shop.py:host --json | jq '.runs[]'
    """
    is_sweep = unfinished or every
    refuse_if(unfinished and every, "--all also checks unfinished sessions: leave --unfinished out")
    refuse_if(is_sweep and bool(session), "--all and --unfinished check many sessions: leave SESSION out")
    with open_reader(log) as reader, OfflineProcess(spec) as child:
        if not is_sweep:
            row, seq = find_place(reader, session)
            found = [_checked(child, reader, _Place(row, seq), timeout_s)]
        else:
            found = _swept(child, reader, None if every else "unfinished", timeout_s)
    if as_json:
        emit_json({"log": shown_address(log), "sessions": found} if is_sweep else found[0])
    elif is_sweep:
        _emit_table(found)
    else:
        _emit(found[0])
    return max((_CODES.get(one.result, 0) for one in found), default=0)


def _swept(
    child: OfflineProcess, reader: LogReader, status: Literal["unfinished"] | None, timeout_s: float
) -> list[_SessionCheck]:
    """Check many sessions, and show how far it is."""
    rows = reader.sessions(SessionQuery(status=status))
    show = percent_on(sys.stderr, _SHOWN_FROM)
    host = child.ask(Describe(), Described, timeout_s)
    found = []
    for done, row in enumerate(rows, 1):
        if host is not None and row.host not in ("", host.host):
            error = f"its host is {row.host}"
            found.append(_SessionCheck(row.session_id, "other_host", error=error, status=row.status))
        else:
            place = _Place(row, only_running=row.status == "unfinished")
            try:
                found.append(_checked(child, reader, place, timeout_s))
            except CallboardError as error:  # of one session: the others are checked
                found.append(_SessionCheck(row.session_id, "unreadable", (), str(error), row.status))
        show("checked", done, len(rows))
    return found


def _checked(child: OfflineProcess, reader: LogReader, place: _Place, timeout_s: float) -> _SessionCheck:
    """Check one session. Raises CorruptLog, Diverged for one that cannot be read."""
    name, status = place.row.session_id, place.row.status
    recording = Recording.open(reader, name, upto=place.upto)
    agents = tuple(recorded_programs(recording, only_running=place.only_running))
    runs = child.ask(CheckRuns(agents), tuple[RunCheck, ...], timeout_s) if agents else ()
    if runs is None:
        error = f"not done within {timeout_s:g} s (--timeout)"
        return _SessionCheck(name, "stopped", (), error, status)
    results = {run.result for run in runs}
    result = next((one for one in _CODES if one in results), "ok")
    return _SessionCheck(name, result, runs, "", status, _first_difference(recording, runs))


def _first_difference(recording: Recording, runs: Sequence[RunCheck]) -> str:
    """Return the first difference in the order of the log, as `replay --with` names it."""
    found = [(step_event(recording, run.address, run.step), run) for run in runs if run.result == "diverged"]
    seq, first = min(found, key=lambda one: one[0], default=(0, None))
    if first is None or not seq:
        return ""
    says = f"{first.address} decides differently: recorded: {first.recorded}; now: {first.now}"
    return f"event {seq}: {says}"


def _emit(one: _SessionCheck) -> None:
    """Print one session, with each of its programs."""
    verdict = one.error or ("no program" if not one.runs else one.result)
    emit(f"session {safe_line(one.session)}: {verdict}")
    _emit_runs(one, one.runs)


def _emit_runs(of: _SessionCheck, runs: Sequence[RunCheck]) -> None:
    if of.first_difference:
        emit(f"  first difference: {safe_line(of.first_difference)}")
    for run in runs:
        emit(f"  {safe_line(run.line())}")


def _emit_table(found: Sequence[_SessionCheck]) -> None:
    """Print a line for each session, then both sides of those that differ."""
    if found:
        rows = [(safe_line(one.session), one.status, safe_line(one.verdict())) for one in found]
        emit_lines(table(rows, ("SESSION", "STATUS", "RESULT")))
    wrong = [one for one in found if _CODES.get(one.result) == DIVERGED]
    for one in wrong:
        emit(f"\nsession {safe_line(one.session)}: {one.result}")
        _emit_runs(one, [run for run in one.runs if run.result != "ok"])
    unknown = sum(bool(one.error) for one in found)
    verb = "differ" if len(wrong) > 1 else "differs"
    said = f"{counted(len(found) - unknown, 'session')} checked, {len(wrong) or 'none'} {verb}"
    talk(f"{said}; {unknown} could not be checked" if unknown else said)


def recorded_programs(recording: Recording, *, only_running: bool = False) -> list[RecordedAgent]:
    """Return the programs of a session: those that run at its end, or the last run of each if none runs.

    only_running: True for none if none runs. Raises CorruptLog, Diverged.
    """
    head = recording.head.seq
    if not head:
        return []
    running = programs_of(recording.states(head), only_running=True)
    return running if running or only_running else list(_last_runs(recording))


def step_event(recording: Recording, address: str, step: int) -> int:
    """Return the seq of the reply with a step of a program's last run; 0 if the log has no such step."""
    found = 0
    for event in recording.events_of(address, recording.head.seq):
        body = event.body
        if isinstance(body, ModelReplied) and body.status == "ok" and event.recipient == address:
            found = event.seq if read_step(body.content).head.step == step else found
    return found


def _last_runs(recording: Recording) -> Iterator[RecordedAgent]:
    """Yield the last run of each program. An agent that has ended keeps no conversation but in the log."""
    begun: set[str] = set()
    last: dict[str, Event] = {}
    for event in recording.events:
        if isinstance(event.body, Begin) and event.body.model.is_program:
            begun.add(event.recipient)
        elif isinstance(event.body, ModelReplied) and event.recipient in begun:
            last[event.recipient] = event
    for address, reply in last.items():
        state = recording.state(reply.seq - 1, address)
        if isinstance(state, AgentState) and state.prefix is not None:
            messages = (*state.history.values(), *_said(reply.body))
            yield RecordedAgent(address, state.prefix.profile.name, messages)


def _said(reply: object) -> tuple[Json, ...]:
    """Return the message of a reply; none for a call without an answer."""
    if isinstance(reply, ModelReplied) and reply.status == "ok":
        return (message("assistant", reply.content),)
    return ()
