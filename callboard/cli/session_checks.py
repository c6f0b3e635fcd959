"""Checks of several sessions: the part that `verify` and `check` share."""

from collections.abc import Callable
from typing import Final, TypeAlias

from callboard.actors.protocol.errors import CorruptLog
from callboard.cli.errors import CORRUPT, DIVERGED, FAILED
from callboard.cli.formats import counted
from callboard.cli.output import emit, emit_json, talk
from callboard.cli.recordings import find_session
from callboard.cli.terminal_escape import safe_line
from callboard.runtime.log.protocol import LogReader

Found: TypeAlias = dict[str, object]
"""The result of one session, as JSON. result: "ok", or one of those below."""

_CODES: Final = {"corrupt": CORRUPT, "diverged": DIVERGED, "broken": FAILED}
"""The worst result first: it decides the exit code."""


def names_of(reader: LogReader, session: str, *, is_all: bool) -> list[str]:
    """Return the ids of all sessions, or of the one that is wanted."""
    if is_all:
        return [row.session_id for row in reader.sessions()]
    return [find_session(reader, session).session_id]


def check_each(
    names: list[str], check: Callable[[str], tuple[Found, list[str]]], *, is_quiet: bool
) -> list[Found]:
    """Check sessions and print each result. check: returns it as JSON and as safe lines."""
    found = []
    for name in names:
        try:
            result, lines = check(name)
        except CorruptLog as error:
            result = {"session": name, "result": "corrupt", "seq": error.seq, "error": str(error)}
            lines = [corrupt_line(error)]
        found.append(result)
        for line in [] if is_quiet else lines:
            emit(line)
    return found


def corrupt_line(error: CorruptLog) -> str:
    """Return the line for a corrupt log."""
    return f"corrupt: {safe_line(str(error))}"


def conclude(
    found: list[Found], log: str, wrong: str, *, is_all: bool, as_json: bool, damage: str = ""
) -> int:
    """Print the JSON, or the sum of all sessions, and return the exit code.

    wrong: describes sessions that are not ok. damage: of the file as a whole, if there is any.
    """
    if as_json:
        result = found[0] if found and not is_all else {"log": log, "sessions": found}
        emit_json({**result, "damage": damage} if damage else result)
    elif is_all:
        bad = sum(one["result"] != "ok" for one in found)
        talk(f"{counted(len(found), 'session')} checked, {bad or 'none'} {wrong}")
    results = {"corrupt"} if damage else {one["result"] for one in found}
    return next((code for result, code in _CODES.items() if result in results), 0)
