"""`callboard verify`: check that the log is whole and that the code still makes the logged decisions."""

import click

from callboard.actors.protocol.errors import CorruptLog
from callboard.cli.errors import CORRUPT, DIVERGED, Failure, misused
from callboard.cli.formats import counted
from callboard.cli.keys import key_options
from callboard.cli.options import Command, json_option, log_option, session_argument
from callboard.cli.outcomes import head_text
from callboard.cli.output import emit, emit_json, talk
from callboard.cli.recordings import find_session, open_reader, parse_head
from callboard.cli.terminal_escape import safe_line
from callboard.replay.recording import Recording, Verification
from callboard.runtime.log.protocol import Head, LogReader
from callboard.runtime.log.sqlite.reader import SQLiteReader


@click.command("verify", cls=Command)
@session_argument
@click.option("--all", "is_all", is_flag=True, help="Every session of the log.")
@click.option(
    "--head", metavar="SEQ:HEX", default="", help="Also check that the log still contains this head."
)
@log_option
@key_options
@json_option
def verify(session: str, is_all: bool, head: str, log: str, as_json: bool) -> int:
    """Check digests, and that the code does what the log says.

    Two checks are made. The chain of digests shows changed, missing and reordered events. A replay runs every
    decider again on the recorded inputs: it must post, byte for byte, the events that the log has. The first
    divergence is shown with the expected and the actual event, and the events that led to this decision. No
    model is called and no tool runs.

    The log alone cannot show that its tail was cut off: keep the head that `callboard run` prints and give it
    with --head. Digests without a key can be computed again by anyone who edits a log: use a key, and give it
    with --key-file.

    Exit code 0 if all is well, 4 if a log is corrupt, 5 if the code diverges.

    \b
    Examples:
      callboard verify
      callboard verify --all --json | jq '.sessions[] | select(.result != "ok")'
      callboard verify 2026 --head 22:22b9df5ede9b25311350...
    """
    if is_all and (session or head):
        raise misused("--all checks every session: leave SESSION and --head out")
    kept = parse_head(head) if head else None
    with open_reader(log) as reader:
        damage = _damage(reader, is_quiet=as_json)
        names = _names(reader, session, is_all, is_damaged=bool(damage))
        found = [_check(reader, name, kept, is_quiet=as_json) for name in names]
    if as_json:
        result = found[0] if found and not is_all else {"log": log, "sessions": found}
        emit_json({**result, "damage": damage} if damage else result)
    elif is_all:
        _count(found)
    return CORRUPT if damage else _worst(found)


def _damage(reader: LogReader, *, is_quiet: bool) -> str:
    """Return the damage of the file as a whole, or nothing: events may be missing from any session."""
    if not isinstance(reader, SQLiteReader):
        return ""
    try:
        reader.check_wal()
    except CorruptLog as error:
        if not is_quiet:
            emit(f"corrupt: {safe_line(str(error))}")
        return str(error)
    return ""


def _count(found: list[dict[str, object]]) -> None:
    bad = sum(one["result"] != "ok" for one in found)
    talk(f"{counted(len(found), 'session')} checked, {bad or 'none'} not as recorded")


def _worst(found: list[dict[str, object]]) -> int:
    results = {one["result"] for one in found}
    return CORRUPT if "corrupt" in results else DIVERGED if "diverged" in results else 0


def _names(reader: LogReader, session: str, is_all: bool, *, is_damaged: bool) -> list[str]:
    if is_all:
        return [row.session_id for row in reader.sessions()]
    try:
        return [find_session(reader, session).session_id]
    except Failure:
        if not is_damaged:
            raise
        return []  # the session may be in the part of the file that cannot be read


def _check(reader: LogReader, session_id: str, head: Head | None, *, is_quiet: bool) -> dict[str, object]:
    """Check one session, print the result, and return it."""
    try:
        verification = Recording.open(reader, session_id, head=head).verify()
    except CorruptLog as error:
        if not is_quiet:
            emit(f"corrupt: {safe_line(str(error))}")
        return {"session": session_id, "result": "corrupt", "seq": error.seq, "error": str(error)}
    if not is_quiet:
        for line in _lines(verification):
            emit(line)
    return _json(verification)


def _lines(verification: Verification) -> list[str]:
    """Return the result as lines, each safe for a terminal: they hold values from the log."""
    return [
        safe_line(line) if not line.startswith(" ") else f"  {safe_line(line)}"
        for line in verification.lines()
    ]


def _json(verification: Verification) -> dict[str, object]:
    found: dict[str, object] = {
        "session": verification.session_id,
        "result": "ok" if verification.is_ok else "diverged",
        "events": verification.events,
        "decisions": verification.decisions,
        "head": head_text((verification.head.seq, verification.head.digest.hex())),
    }
    if verification.divergence is not None:
        found["divergence"] = verification.divergence
    return found
