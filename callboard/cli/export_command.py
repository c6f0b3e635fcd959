"""`callboard export`: sessions to keep, to send, or to read with other programs."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import click
import msgspec

from callboard.cli.errors import misused, not_found
from callboard.cli.events_command import event_json, event_of
from callboard.cli.formats import counted, utc
from callboard.cli.keys import key_options
from callboard.cli.options import Command, log_option, session_argument
from callboard.cli.outcomes import head_text
from callboard.cli.output import is_terminal, talk
from callboard.cli.recordings import find_session, open_reader
from callboard.cli.terminal_escape import safe_json
from callboard.runtime.log.addresses import file_of
from callboard.runtime.log.protocol import FileReader, LogReader, SessionRow

_PAGE: Final = 1_000
_encode = msgspec.json.Encoder().encode


@click.command("export", cls=Command)
@session_argument
@click.option("--all", "is_all", is_flag=True, help="Every session of the log.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "json", "db"]),
    default="jsonl",
    show_default=True,
    help="jsonl: an event a line. json: one document. db: a log again.",
)
@click.option("-o", "--output", metavar="FILE", default="", help="Where to write; stdout if it is not given.")
@click.option("--force", is_flag=True, help="Write over FILE if it is there.")
@log_option
@key_options
def export(session: str, is_all: bool, form: str, output: str, force: bool, log: str) -> None:
    """Write sessions to a file, to keep or to send.

    With --format db the result is a log in one file: whole, also if its origin is being written at this
    moment, so this is the way to back a log up. Copying the file with other means leaves out what is in
    FILE-wal, and such a copy is refused.

    With jsonl every event is a line as `callboard events --json` prints it; with json a session is one
    document with its head and its events. Digests are checked before anything is written. A copy of an
    encrypted log is encrypted; jsonl and json are not.

    \b
    Examples:
      callboard export 2026 -o session.jsonl
      callboard export --format json | jq '.events[].kind'
      callboard export --all --format db -o backup.db
    """
    if is_all and session:
        raise misused("--all exports every session: leave SESSION out")
    if form == "db" and not output:
        raise misused("a database cannot go to stdout: name a file with -o FILE")
    target = _checked_target(output, log, force) if output else None
    with open_reader(log) as reader:
        rows = reader.sessions() if is_all else [find_session(reader, session)]
        wanted = Wanted(reader, rows, form, is_all)
        if target is None:
            for line in wanted.lines():
                click.echo(line)
        else:
            _save(target, wanted.copy_to if form == "db" else wanted.write_to)
            events = sum(row.head for row in rows)
            talk(f"{counted(len(rows), 'session')}, {counted(events, 'event')} written to {target}")


class Wanted:
    """What is to be exported, up to the heads that were checked: what comes meanwhile is left out."""

    def __init__(self, reader: LogReader, rows: list[SessionRow], form: str, is_all: bool) -> None:
        self._reader = reader
        self._rows = rows
        self._form = form
        self._is_all = is_all
        is_backup = is_all and form == "db"  # a damaged log is copied as it is
        self._heads = {} if is_backup else {row: reader.verify_chain(row.session_id) for row in rows}

    def copy_to(self, target: Path) -> None:
        """As a log again."""
        if not isinstance(self._reader, FileReader):
            raise misused("--format db copies a log that is a file; choose jsonl or json for this one")
        session_id = "" if self._is_all else self._rows[0].session_id
        self._reader.copy_to(target, session_id, _progress(session_id or "the log"))

    def write_to(self, target: Path) -> None:
        """As lines of text."""
        with target.open("wb") as file:
            for line in self.lines():
                file.write(line + b"\n")

    def lines(self) -> Iterator[bytes]:
        """The export, line by line."""
        if self._form == "jsonl":
            for row in self._rows:
                yield from self._events(row)
        elif self._is_all:
            yield b'{"sessions":['
            for place, row in enumerate(self._rows):
                yield from self._document(row, b"," if place else b"")
            yield b"]}"
        else:
            yield from self._document(self._rows[0], b"")

    def _document(self, row: SessionRow, before: bytes) -> Iterator[bytes]:
        head = self._heads[row]
        about = {
            "session": row.session_id,
            "title": row.title,
            "started": utc(row.created_ms),
            "head": head_text((head.seq, head.digest.hex())),
        }
        yield before + safe_json(_encode(about)[:-1]) + b',"events":['
        for place, line in enumerate(self._events(row)):
            yield (b"," if place else b"") + line
        yield b"]}"

    def _events(self, row: SessionRow) -> Iterator[bytes]:
        last, tell, following = self._heads[row].seq, _progress(row.session_id), 1
        while following <= last:
            page = self._reader.events(row.session_id, following, min(_PAGE, last - following + 1))
            for stored in page:
                event = event_of(row.session_id, stored)
                yield safe_json(_encode(event_json(row.session_id, stored, event)))
            following += len(page)
            tell(following - 1, last)


def _save(target: Path, write: Callable[[Path], None]) -> None:
    """Write a file whole or not at all."""
    part = target.with_name(f"{target.name}.part")
    try:
        part.unlink(missing_ok=True)
        write(part)
        part.replace(target)
    except OSError as error:
        raise misused(f"{target} cannot be written: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)


def _checked_target(output: str, log: str, force: bool) -> Path:
    """The file to write. Fails if it is there and --force is not given, or if it is a log that is open."""
    target, origin = Path(output), file_of(log)
    if not target.parent.is_dir():
        raise not_found(f"the folder {target.parent} does not exist; make it first")
    if target.is_dir():
        raise misused(f"{target} is a folder; name a file in it")
    if target.exists() and origin.exists() and target.samefile(origin):
        raise misused(f"{target} is the log itself; name another file")
    if target.exists() and not force:
        raise misused(f"{target} is there already; --force writes over it")
    if target.with_name(f"{target.name}-wal").exists():
        raise misused(f"{target} is a log that is open, or was not closed; name another file")
    return target


def _progress(what: str) -> Callable[[int, int], None]:
    """Tells on a terminal how far a long export is; nothing elsewhere, and nothing of a short one."""
    is_told = is_terminal(sys.stderr)

    def tell(done: int, total: int) -> None:
        if is_told and total > _PAGE:
            end = "\n" if done >= total else ""
            click.echo(f"\r{what}: {100 * done // total} %", err=True, nl=False)
            click.echo(end, err=True, nl=False)

    return tell
