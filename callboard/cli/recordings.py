"""Finding the log and the session that a command is about."""

from callboard.actors.protocol.events import Event
from callboard.cli.errors import NOT_FOUND, Failure, misused, not_found
from callboard.cli.keys import log_keys
from callboard.cli.terminal_escape import safe_line
from callboard.replay.recording import Recording
from callboard.runtime.log import reading
from callboard.runtime.log.addresses import SQLITE, file_of, scheme_of
from callboard.runtime.log.protocol import Head, LogReader, SessionRow

_LISTED = 5


def open_reader(log: str) -> LogReader:
    """Open the log for reading. Fails with the logs that are there, if it is not."""
    path = file_of(log) if scheme_of(log) == SQLITE else None
    if path is None or path.is_file():
        return reading.open_reader(log, *log_keys())
    folder = path if path.is_dir() else path.parent
    others = sorted(one.name for one in folder.glob("*.db"))[:_LISTED] if folder.is_dir() else []
    seen = f"logs in {folder.resolve()}: {', '.join(others)}" if others else "run an agent to make one"
    raise not_found(f"there is no log at {path}; {seen}; name it with --log or CALLBOARD_LOG")


def find_session(reader: LogReader, wanted: str) -> SessionRow:
    """The session of this id, or whose id begins so; the newest if nothing is wanted."""
    rows = reader.sessions()
    if not rows:
        raise not_found("the log holds no session yet; record one with `callboard run`")
    if not wanted:
        return rows[0]
    found = [row for row in rows if row.session_id == wanted]
    found = found or [row for row in rows if row.session_id.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    if found:
        raise misused(
            f"{wanted!r} could be any of {len(found)} sessions: {_names(found)}; write more of the id"
        )
    raise not_found(
        f"there is no session {wanted!r}; the newest are: {_names(rows)}; see `callboard sessions`"
    )


def open_recording(log: str, wanted: str, head: Head | None = None) -> tuple[Recording, SessionRow]:
    """A session opened to look at, its digests checked, and its row."""
    with open_reader(log) as reader:
        row = find_session(reader, wanted)
        return Recording.open(reader, row.session_id, head=head), row


def check_seq(events: list[Event], at: int, session_id: str) -> int:
    """The seq, if the session has it."""
    if 1 <= at <= len(events):
        return at
    raise Failure(f"session {session_id} has events 1 to {len(events)}; there is no {at}", NOT_FOUND)


def parse_head(text: str) -> Head:
    """`SEQ:HEX`, as `run`, `show` and `verify` print it."""
    seq, colon, digest = text.strip().partition(":")
    try:
        if not colon or len(digest) != 64:
            raise ValueError
        return Head(int(seq), bytes.fromhex(digest))
    except ValueError:
        raise misused(
            f"--head {safe_line(text, 80)}: write SEQ:HEX with all 64 digits, as `callboard run` prints it"
        ) from None


def _names(rows: list[SessionRow]) -> str:
    names = ", ".join(row.session_id for row in rows[:_LISTED])
    return names + (f" and {len(rows) - _LISTED:,} more" if len(rows) > _LISTED else "")
