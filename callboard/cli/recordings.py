"""The log that a command is about, its keys, and its session."""

import os
import re
from collections.abc import Callable, Container
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from callboard.actors.session.place_names import (
    call_named,
    call_of,
    checkpoint_named,
    few_named,
    is_number,
    named,
    seq_of,
)
from callboard.cli.errors import misused, not_found, refuse_if
from callboard.cli.output import talk
from callboard.cli.terminal_escape import safe_line
from callboard.replay.reading import Source
from callboard.replay.recording import Recording
from callboard.runtime.log import reading
from callboard.runtime.log.protocol import EventLog, Head, LogReader
from callboard.runtime.log.reading import file_of, is_memory, is_server
from callboard.runtime.log.session_rows import SessionRow

_LISTED: Final = 5
PLACE_FORMS: Final = "SESSION#SEQ, SESSION#AGENT:TURN:CALL or SESSION@CHECKPOINT"
F = TypeVar("F", bound=Callable[..., Any])

# A key is the content of a file, because one on the command line would stand in the process list.
KEY_FILE: Final = "CALLBOARD_KEY_FILE"
ENCRYPTION_KEY_FILE: Final = "CALLBOARD_ENCRYPTION_KEY_FILE"
_BYTES_MAX: Final = 4_096


def key_options(function: F) -> F:
    """Add `--key-file FILE` and `--encryption-key-file FILE`, which `log_keys` then finds."""
    add = partial(
        click.option, metavar="FILE", default="", show_envvar=True, expose_value=False, callback=_remember
    )
    of_digests = add("--key-file", envvar=KEY_FILE, help="The file with the key of the log's digests.")
    of_encryption = add(
        "--encryption-key-file", envvar=ENCRYPTION_KEY_FILE, help="The file with the log's encryption key."
    )
    return of_digests(of_encryption(function))


def _remember(context: click.Context, option: click.Parameter, value: str) -> None:
    context.meta[str(option.envvar)] = value


def log_keys() -> tuple[bytes | None, bytes | None]:
    """Return the digest key and the encryption key of this command; None for one that is not named."""
    return _key(KEY_FILE), _key(ENCRYPTION_KEY_FILE)


def keyed_log(path: str) -> EventLog:
    """Return the log to write, with its keys."""
    from callboard.runtime.log.opening import open_log  # here: commands that only read need no asyncio

    key, encryption_key = log_keys()
    return open_log(path, key=key, encryption_key=encryption_key)


def read_key(name: str) -> bytes:
    """Read the key in a file. Raises Failure for a file that is not readable, empty or too large."""
    try:
        with Path(name).open("rb") as file:
            content = file.read(_BYTES_MAX + 1)
    except OSError as error:
        raise not_found(f"the key file {name} cannot be read: {error.strerror}") from None
    if re.fullmatch(rb"[\r\n -~]*", content):  # a text file
        content = content.rstrip(b"\r\n")
    if not 0 < len(content) <= _BYTES_MAX:
        wrong = f"too large (at most {_BYTES_MAX:,} bytes)" if content else "empty"
        raise misused(f"the key file {name} is {wrong}; name the file with the key")
    return content


def _key(variable: str) -> bytes | None:
    """Read the key that the option names; for commands without the option, the environment."""
    context = click.get_current_context(silent=True)
    name = context.meta.get(variable) if context else None
    name = os.environ.get(variable, "") if name is None else name
    return read_key(name) if name else None


def open_reader(log: str) -> LogReader:
    """Open the log for reading. Fails if it does not exist, and names the logs in that folder."""
    if is_memory(log) or is_server(log) or (path := file_of(log)).is_file():
        return reading.open_reader(log, *log_keys())
    folder = path if path.is_dir() else path.parent
    others = sorted(one.name for one in folder.glob("*.db"))[:_LISTED]
    seen = f"logs in {folder.resolve()}: {', '.join(others)}" if others else "run an agent to make one"
    raise not_found(f"there is no log at {path}; {seen}; name it with --log or CALLBOARD_LOG")


def find_session(reader: LogReader, wanted: str) -> SessionRow:
    """Return the session with this id, or the one whose id begins so; without an id, the newest."""
    rows = reader.sessions()
    if not rows:
        raise not_found("the log has no sessions yet; record one with `callboard run`")
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


def find_place(reader: LogReader, wanted: str) -> tuple[SessionRow, int | None]:
    """Return the session and the event that a place names (`place_names.py`); None without an event.

    Raises Failure for a session, an event, a call or a checkpoint that is not there.
    """
    session, where = split_place(wanted, {row.session_id for row in reader.sessions()})
    row = find_session(reader, session)
    return row, _seq_of(reader, row, where) if where else None


def split_place(wanted: str, known: Container[str]) -> tuple[str, str]:
    """Return the session of a place, and the part behind it: `SEQ`, a call's name or `@CHECKPOINT`.

    known: ids of sessions, which may hold a `#` or an `@` themselves.
    """
    if wanted in known:
        return wanted, ""
    session, mark, where = wanted.rpartition("#")
    if mark:
        refuse_if(not where, f"{wanted!r}: name a session, or a place in it: {PLACE_FORMS}")
        return session, where
    session, mark, checkpoint = wanted.partition("@")
    refuse_if(mark and not checkpoint, f"{wanted!r}: name a session, or a place in it: {PLACE_FORMS}")
    return (session, f"@{checkpoint}") if mark else (wanted, "")


def _seq_of(reader: LogReader, row: SessionRow, where: str) -> int:
    """Return the event that the part of a place behind its session names."""
    if where.startswith("@"):
        recording = Recording.open(reader, row.session_id)
        return checkpoint_named(row.session_id, recording.events, where[1:])
    if (call := call_named(where)) is None:
        return _checked_seq(row, where)
    recording = Recording.open(reader, row.session_id)
    if seq := seq_of(recording.events_of(call[0], row.head), call):
        return seq
    few = few_named({*filter(None, map(call_of, recording.events))}, call[0])
    raise not_found(f"session {row.session_id} has no {named(call)}; there are: {few}")


def _checked_seq(row: SessionRow, seq: str) -> int:
    if not (is_number(seq) and 1 <= int(seq) <= row.head):
        raise not_found(
            f"session {row.session_id} has events 1 to {row.head}; there is no {seq:.20}; write {PLACE_FORMS}"
        )
    return int(seq)


def beside_source(reader: LogReader, wanted: str) -> list[Source]:
    """Return the session that a page shows beside its own; none if none is wanted. Raises Failure."""
    if not wanted:
        return []
    row, seq = find_place(reader, wanted)
    return [Source.upto(reader, row.session_id, seq)]


def open_event(log: str, words: tuple[str, ...]) -> tuple[Recording, int]:
    """Open a session, and return it with the event that a place, `SESSION SEQ` or `SEQ` names.

    The part behind `#` alone names an event of the newest session. Raises Failure for other words.
    """
    place = words[-1]
    if len(words) == 2:
        place = f"{words[0]}#{place}"
    elif is_number(place) or call_named(place) is not None:
        place = f"#{place}"
    wrong = f"name an event: {PLACE_FORMS}, or SEQ alone for one of the newest session"
    refuse_if(len(words) > 2 or not {"#", "@"} & set(place), wrong)
    recording, seq = open_place(log, place)
    if seq is None:
        raise misused(wrong)
    return recording, seq


def open_recording(
    log: str, wanted: str, head: Head | None = None, at: int | None = None
) -> tuple[Recording, SessionRow]:
    """Open a session and return it with its row; it is closed when the command ends.

    wanted: SESSION, or SESSION#SEQ for the session as it was after that event. at: that event, named by
    `--at`. Raises Failure for a session or an event that is not there.
    """
    row, seq = _found(log, wanted)
    upto = event_at(at, seq)
    return _opened(log, row, head, upto if upto is None else _checked_seq(row, str(upto))), row


def open_place(log: str, wanted: str) -> tuple[Recording, int | None]:
    """Open the whole session that SESSION or SESSION#SEQ names, and return it with the event, if any."""
    row, seq = _found(log, wanted)
    return _opened(log, row), seq


def open_at(log: str, wanted: str, at: int | None, *, check: bool) -> tuple[Recording, int]:
    """Open the whole session, and return it with the event of `#SEQ` or `--at`; without both, the last."""
    recording, seq = open_place(log, wanted)
    if check:
        recording.check()
    chosen = event_at(at, seq)
    return recording, recording.head.seq if chosen is None else chosen


def _found(log: str, wanted: str) -> tuple[SessionRow, int | None]:
    with open_reader(log) as reader:
        return find_place(reader, wanted)


def _opened(log: str, row: SessionRow, head: Head | None = None, upto: int | None = None) -> Recording:
    key, encryption_key = log_keys()
    recording = Recording.open(
        log, row.session_id, upto=upto, head=head, key=key, encryption_key=encryption_key
    )
    if (context := click.get_current_context(silent=True)) is not None:
        context.call_on_close(recording.close)
    return recording


def event_at(at: int | None, seq: int | None) -> int | None:
    """Return the event that `--at` or `#SEQ` names; None for neither. Raises Failure for two."""
    refuse_if(None not in (at, seq) and at != seq, f"#{seq} and --at {at} name two events: leave one out")
    return seq if at is None else at


def say_checked(*, is_checked: bool) -> None:
    """Say on stderr that digests were not checked, if they were not."""
    if not is_checked:
        talk("chain not checked: only the events that were needed were read; --check reads all")


def parse_head(text: str) -> Head | None:
    """Parse `SEQ:HEX`, the form in which `run`, `show` and `verify` print a head; None for no text."""
    if not text:
        return None
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
