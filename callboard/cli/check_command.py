"""`callboard check`: the rules of delegation, checked on recorded sessions."""

import click

from callboard.actors.protocol.errors import CorruptLog
from callboard.actors.protocol.messages import SessionClosed
from callboard.cli.errors import CORRUPT, FAILED, misused
from callboard.cli.formats import counted
from callboard.cli.keys import key_options
from callboard.cli.options import Command, json_option, log_option, session_argument
from callboard.cli.output import emit, emit_json, talk
from callboard.cli.recordings import find_session, open_reader
from callboard.cli.terminal_escape import safe_line
from callboard.replay.recording import Recording
from callboard.replay.testing.rules.base import Breach
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.rules.requests import check_requests
from callboard.runtime.log.protocol import LogReader


@click.command("check", cls=Command)
@session_argument
@click.option("--all", "is_all", is_flag=True, help="Every session of the log.")
@log_option
@key_options
@json_option
def check(session: str, is_all: bool, log: str, as_json: bool) -> int:
    """Check the rules of delegation on recorded sessions.

    The rules are those of simulated sessions (`callboard explore`): depth and caps, one winner, one end for
    every delegation, nothing after a stop, budgets never overshot, nothing handed down that was not granted,
    and the requests of models. `callboard verify` finds decisions that differ from the recorded ones;
    `callboard check` finds recorded ones that were wrong.

    Exit code 0 if every rule was kept, 1 if one was broken, 4 if a log is corrupt.

    \b
    Examples:
      callboard check
      callboard check --all --json | jq '.sessions[].breaches[].rule'
    """
    if is_all and session:
        raise misused("--all checks every session: leave SESSION out")
    with open_reader(log) as reader:
        if is_all:
            names = [row.session_id for row in reader.sessions()]
        else:
            names = [find_session(reader, session).session_id]
        found = [_check(reader, name, is_quiet=as_json) for name in names]
    if as_json:
        emit_json({"log": log, "sessions": found} if is_all else found[0])
    elif is_all:
        bad = sum(one["result"] != "ok" for one in found)
        talk(f"{counted(len(found), 'session')} checked, {bad or 'none'} not as they should be")
    results = {one["result"] for one in found}
    return CORRUPT if "corrupt" in results else FAILED if "broken" in results else 0


def _check(reader: LogReader, session_id: str, *, is_quiet: bool) -> dict[str, object]:
    """Check one session, print the result, and return it."""
    try:
        events = list(Recording.open(reader, session_id).events)
    except CorruptLog as error:
        if not is_quiet:
            emit(f"corrupt: {safe_line(str(error))}")
        return {"session": session_id, "result": "corrupt", "seq": error.seq, "error": str(error)}
    is_over = bool(events) and isinstance(events[-1].body, SessionClosed)
    breaches = [*check_log(events, is_at_rest=is_over), *check_requests(events)]
    breaches.sort(key=lambda breach: breach.seq)
    if not is_quiet:
        for line in _lines(session_id, len(events), breaches):
            emit(line)
    return {
        "session": session_id,
        "result": "broken" if breaches else "ok",
        "events": len(events),
        "breaches": breaches,
    }


def _lines(session_id: str, events: int, breaches: list[Breach]) -> list[str]:
    verdict = f"{counted(len(breaches), 'rule')} broken" if breaches else "every rule kept"
    lines = [f"session {safe_line(session_id)}: {counted(events, 'event')}, {verdict}"]
    for one in breaches:
        lines.append(f"  seq {one.seq}: {safe_line(one.detail)}")
        lines.append(f"    {one.name}: {one.rule}")
    return lines
