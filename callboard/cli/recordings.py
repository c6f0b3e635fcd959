"""The log and the session that a command is about."""

import click

from callboard.cli.errors import misused, not_found
from callboard.cli.keys import log_keys
from callboard.cli.output import talk
from callboard.cli.terminal_escape import safe_line
from callboard.replay.recording import Recording
from callboard.runtime.log import reading
from callboard.runtime.log.protocol import Head, LogReader, SessionRow
from callboard.runtime.log.reading import file_of, is_memory

_LISTED = 5


def open_reader(log: str) -> LogReader:
    """Open the log for reading. Fails if it does not exist, and names the logs in that folder."""
    path = None if is_memory(log) else file_of(log)
    if path is None or path.is_file():
        return reading.open_reader(log, *log_keys())
    folder = path if path.is_dir() else path.parent
    others = sorted(one.name for one in folder.glob("*.db"))[:_LISTED] if folder.is_dir() else []
    seen = f"logs in {folder.resolve()}: {', '.join(others)}" if others else "run an agent to make one"
    raise not_found(f"there is no log at {path}; {seen}; name it with --log or CALLBOARD_LOG")


def find_session(reader: LogReader, wanted: str) -> SessionRow:
    """Return the session with this id, or the one whose id begins so; without an id, the newest."""
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
    """Open a session and return it with its row; it is closed when the command ends."""
    with open_reader(log) as reader:
        row = find_session(reader, wanted)
    key, encryption_key = log_keys()
    recording = Recording.open(log, row.session_id, head=head, key=key, encryption_key=encryption_key)
    if (context := click.get_current_context(silent=True)) is not None:
        context.call_on_close(recording.close)
    return recording, row


def say_checked(*, is_checked: bool) -> None:
    """Say on stderr that digests were not checked, if they were not."""
    if not is_checked:
        talk("chain not checked: only the events that were needed were read; --check reads all")


def parse_head(text: str) -> Head:
    """Parse `SEQ:HEX`, the form in which `run`, `show` and `verify` print a head."""
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
