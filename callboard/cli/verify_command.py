"""`callboard verify` and `callboard check`: digests and decisions, and the rules of delegation."""

from collections.abc import Callable
from typing import Final, TypeAlias

import click

from callboard.actors.protocol.errors import CorruptLog
from callboard.actors.protocol.events import is_closed_after
from callboard.cli.errors import CORRUPT, DIVERGED, FAILED, Failure, refuse_if
from callboard.cli.options import all_option, json_option, log_option, session_argument
from callboard.cli.outcomes import head_text
from callboard.cli.output import emit, emit_json, talk
from callboard.cli.recordings import find_place, key_options, open_reader, parse_head
from callboard.cli.terminal_escape import safe_line
from callboard.replay.formats import counted
from callboard.replay.recording import Recording
from callboard.replay.testing.rules.invariants import LogChecker
from callboard.replay.testing.rules.requests import check_requests
from callboard.runtime.log.protocol import Head, LogReader
from callboard.runtime.log.reading import shown_address

# The result of one session, as JSON. result: "ok", or one of those below.
Found: TypeAlias = dict[str, object]
Place: TypeAlias = tuple[str, int | None]
"""A session, and the last event of it that is checked; None for all."""

# The worst result first: it decides the exit code.
_CODES: Final = {"corrupt": CORRUPT, "diverged": DIVERGED, "broken": FAILED}


@click.command("verify")
@session_argument
@all_option
@click.option(
    "--head", metavar="SEQ:HEX", default="", help="Also check that the log still contains this head."
)
@log_option
@key_options
@json_option
def verify(session: str, is_all: bool, head: str, log: str, as_json: bool) -> int:
    """Check digests, and whether the code does what the log says.

    This makes two checks. The chain of digests shows changed, missing and reordered events. A replay runs
    every decider again on the recorded inputs: it must post, byte for byte, the events that are in the log.
    The first divergence is shown with the expected and the actual event, and the events that led to this
    decision. No model is called and no tool runs.

    The log alone cannot show that its tail was cut off: keep the head that `callboard run` prints and pass it
    with --head. Digests without a key can be recomputed by anyone who edits a log: use a key, and pass it
    with --key-file.

    The exit code is 0 if all is well, 4 if a log is corrupt, and 5 if the code diverges.

    \b
    Examples:
      callboard verify
      callboard verify --all --json | jq '.sessions[] | select(.result != "ok")'
      callboard verify 2026 --head 22:22b9df5ede9b25311350...
    """
    refuse_if(is_all and (session or head), "--all checks every session: leave SESSION and --head out")
    kept = parse_head(head)
    with open_reader(log) as reader:
        damage = _damage(reader, is_quiet=as_json)
        try:
            places = _places_of(reader, session, is_all=is_all)
        except Failure:
            if not damage:
                raise
            places = []  # the session may be in the part of the file that cannot be read
        found = _check_each(places, lambda place: _verified(reader, place, kept), is_quiet=as_json)
    return _conclude(found, log, "all as recorded", is_all=is_all, as_json=as_json, damage=damage)


@click.command("check")
@session_argument
@all_option
@log_option
@key_options
@json_option
def check(session: str, is_all: bool, log: str, as_json: bool) -> int:
    """Check the rules of delegation on recorded sessions.

    The rules are those of simulated sessions (`callboard explore`): depth and caps, one winner, one end for
    every delegation, nothing after a stop, no budget exceeded, no rights or limits passed down that were not
    granted, and the requests to models. `callboard verify` finds decisions that differ from the recorded
    ones; `callboard check` finds recorded ones that were wrong.

    The exit code is 0 if every rule was kept, 1 if one was broken, and 4 if a log is corrupt.

    \b
    Examples:
      callboard check
      callboard check --all --json | jq '.sessions[].breaches[].rule'
    """
    refuse_if(is_all and session, "--all checks every session: leave SESSION out")
    with open_reader(log) as reader:
        places = _places_of(reader, session, is_all=is_all)
        found = _check_each(places, lambda place: _checked(reader, place), is_quiet=as_json)
    return _conclude(found, log, "every rule kept", is_all=is_all, as_json=as_json)


def _checked(reader: LogReader, place: Place) -> tuple[Found, list[str]]:
    session_id, seq = place
    events = Recording.open(reader, session_id, upto=seq).events
    checker, is_over = LogChecker(), False
    for event in events:
        checker.hear(event)
        is_over = is_closed_after(event.body, was_closed=is_over)
    checker.rest(is_over)
    # Reads the log again, several times: a list of its events might not fit into memory.
    breaches = sorted([*checker.breaches, *check_requests(events)], key=lambda breach: breach.seq)
    verdict = f"{counted(len(breaches), 'rule')} broken" if breaches else "every rule kept"
    lines = [f"session {safe_line(session_id)}: {counted(len(events), 'event')}, {verdict}"]
    for one in breaches:
        lines += [f"  seq {one.seq}: {safe_line(one.detail)}", f"    {one.name}: {one.rule}"]
    result = "broken" if breaches else "ok"
    return {"session": session_id, "result": result, "events": len(events), "breaches": breaches}, lines


def _damage(reader: LogReader, *, is_quiet: bool) -> str:
    """Return the damage of the file as a whole, or nothing: events may be missing from any session."""
    try:
        reader.check_whole()
    except CorruptLog as error:
        if not is_quiet:
            emit(_corrupt_line(error))
        return str(error)
    return ""


def _verified(reader: LogReader, place: Place, head: Head | None) -> tuple[Found, list[str]]:
    session_id, seq = place
    checked = Recording.open(reader, session_id, upto=seq, head=head).verify()
    found: Found = {
        "session": session_id,
        "result": "ok" if checked.is_ok else "diverged",
        "events": checked.events,
        "decisions": checked.decisions,
        "head": head_text((checked.head.seq, checked.head.digest.hex())),
    }
    if checked.divergence is not None:
        found["divergence"] = checked.divergence
    return found, ["  " * line.startswith(" ") + safe_line(line) for line in checked.lines()]


def _places_of(reader: LogReader, session: str, *, is_all: bool) -> list[Place]:
    if is_all:
        return [(row.session_id, None) for row in reader.sessions()]
    row, seq = find_place(reader, session)
    return [(row.session_id, seq)]


def _check_each(
    places: list[Place], check: Callable[[Place], tuple[Found, list[str]]], *, is_quiet: bool
) -> list[Found]:
    """Check sessions and print each result. check: returns it as JSON and as safe lines."""
    found = []
    for place in places:
        try:
            result, lines = check(place)
        except CorruptLog as error:
            result = {"session": place[0], "result": "corrupt", "seq": error.seq, "error": str(error)}
            lines = [_corrupt_line(error)]
        found.append(result)
        for line in [] if is_quiet else lines:
            emit(line)
    return found


def _corrupt_line(error: CorruptLog) -> str:
    return f"corrupt: {safe_line(str(error))}"


def _conclude(
    found: list[Found], log: str, good: str, *, is_all: bool, as_json: bool, damage: str = ""
) -> int:
    """Print the JSON, or the sum of all sessions, and return the exit code.

    good: the verdict if no session failed. damage: that of the whole file.
    """
    if as_json:
        result = found[0] if found and not is_all else {"log": shown_address(log), "sessions": found}
        emit_json({**result, "damage": damage} if damage else result)
    elif is_all:
        bad = sum(one["result"] != "ok" for one in found)
        talk(f"{counted(len(found), 'session')} checked, {f'{bad} failed' if bad else good}")
    results = {"corrupt"} if damage else {one["result"] for one in found}
    codes = [code for result, code in _CODES.items() if result in results]
    return codes[0] if codes else 0
