"""`callboard check`: the rules of delegation, checked on recorded sessions."""

import click

from callboard.actors.protocol.messages import SessionClosed
from callboard.cli.errors import misused
from callboard.cli.formats import counted
from callboard.cli.options import all_option, json_option, log_option, session_argument
from callboard.cli.recordings import key_options, open_reader
from callboard.cli.terminal_escape import safe_line
from callboard.cli.verify_command import Found, check_each, conclude, names_of
from callboard.replay.recording import Recording
from callboard.replay.testing.rules.invariants import LogChecker
from callboard.replay.testing.rules.requests import check_requests
from callboard.runtime.log.protocol import LogReader


@click.command("check")
@session_argument
@all_option
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
        names = names_of(reader, session, is_all=is_all)
        found = check_each(names, lambda name: _check(reader, name), is_quiet=as_json)
    return conclude(found, log, "not as they should be", is_all=is_all, as_json=as_json)


def _check(reader: LogReader, session_id: str) -> tuple[Found, list[str]]:
    events = Recording.open(reader, session_id).events
    checker, is_over = LogChecker(), False
    for event in events:
        checker.hear(event)
        is_over = isinstance(event.body, SessionClosed)
    checker.rest(is_over)
    # Reads the log again, several times: a list of its events might not fit into memory.
    breaches = sorted([*checker.breaches, *check_requests(events)], key=lambda breach: breach.seq)
    verdict = f"{counted(len(breaches), 'rule')} broken" if breaches else "every rule kept"
    lines = [f"session {safe_line(session_id)}: {counted(len(events), 'event')}, {verdict}"]
    for one in breaches:
        lines += [f"  seq {one.seq}: {safe_line(one.detail)}", f"    {one.name}: {one.rule}"]
    result = "broken" if breaches else "ok"
    return {"session": session_id, "result": result, "events": len(events), "breaches": breaches}, lines
