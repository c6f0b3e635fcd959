"""`callboard import`: sessions that come into a log."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final

import click

from callboard.actors.protocol.errors import CorruptLog, MisuseError, SessionExists
from callboard.actors.protocol.events import Event
from callboard.cli.errors import misused, not_found
from callboard.cli.formats import counted
from callboard.cli.options import log_option
from callboard.cli.output import percent_on, talk
from callboard.cli.recordings import key_options, keyed_log, log_keys
from callboard.replay.exports.lines import Header
from callboard.replay.exports.parsing import ExportReader, Item
from callboard.runtime.log.protocol import Append, EventLog, Head
from callboard.runtime.log.reading import file_of
from callboard.runtime.log.removal import erase

_BATCH_EVENTS: Final = 500


@click.command("import")
@click.argument("file")
@log_option
@key_options
def import_file(file: str, log: str) -> None:
    """Put exported sessions into a log, their digests checked.

    FILE is what `callboard export` writes as jsonl, without --parsed; `-` is stdin. A session keeps its id,
    and so its digests: one that the log already has is refused. Digests that were computed under a key need
    that key: --key-file.

    Either every session of the file is imported or the log stays as it was: one changed line, or any other
    failure, stops the whole import. If its process is killed, the same import completes it.

    \b
    Examples:
      callboard import session.jsonl
      ssh host callboard export 2026 | callboard import - --log here.db
    """
    try:
        with click.open_file(file, "rb") as stream:
            sessions, events = _import(stream, "stdin" if file == "-" else file, log)
    except IsADirectoryError:
        raise misused(f"{file} is a folder; name a file that `callboard export` wrote") from None
    except OSError as error:
        raise not_found(f"{file} cannot be read: {error.strerror}") from None
    talk(f"{counted(sessions, 'session')}, {counted(events, 'event')} imported into {log}")


def _import(lines: Iterable[bytes], where: str, address: str) -> tuple[int, int]:
    """Import into a log file, which is made if it does not exist, and removed again if that fails."""
    path = file_of(address)
    is_new = not path.exists()
    try:
        return asyncio.run(_write(lines, where, address))
    except BaseException:
        if is_new:
            for suffix in ("", "-wal", "-shm", ".lock"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
        raise


async def _write(lines: Iterable[bytes], where: str, address: str) -> tuple[int, int]:
    async with opened_log(address) as log:
        with ExportReader(lines, log_keys()[0], where) as reader:
            return await Importing(log, percent_on(sys.stderr)).run(reader.items())


@contextlib.asynccontextmanager
async def opened_log(address: str) -> AsyncIterator[EventLog]:
    """Own a log for a while."""
    log = keyed_log(address)
    await log.open()
    try:
        yield log
    finally:
        await log.close()


class Importing:
    """Writes the items of an export to a log; a failure leaves no new session behind.

    progress: called with a session, how many of its events are written, and how many it has.
    """

    def __init__(self, log: EventLog, progress: Callable[[str, int, int], object]) -> None:
        self._log = log
        self._progress = progress
        self._made: list[str] = []
        self._sessions = self._events = 0
        self._header: Header | None = None
        self._epoch = 0
        self._head = Head(0, b"")
        self._batch: list[Event] = []
        self._digest = b""
        self._passed: list[str] = []

    async def run(self, items: Iterable[Item]) -> tuple[int, int]:
        """Import, and return the numbers of sessions and of written events.

        Raises SessionExists, CorruptLog, StoreError, and the errors of `items`.
        """
        try:
            for item in items:
                if isinstance(item, Header):
                    await self._flush()
                    await self._begin(item)
                else:
                    await self._take(*item)
            await self._flush()
            if self._passed and not self._made and not self._events:
                raise _exists(self._passed[0])
        except BaseException:
            for session_id in self._made:
                await erase(self._log, session_id)
            raise
        return self._sessions, self._events

    async def _begin(self, header: Header) -> None:
        name, origin = header.session, bytes.fromhex(header.origin)
        if header.lineage:
            raise MisuseError(
                f"session {name} is a fork: its first events stand under other ids, and an import writes all "
                "of them under one. Hand it on with `callboard export --format db`"
            )
        self._header, self._head = header, Head(0, origin)
        self._sessions += 1
        try:
            self._epoch = await self._log.create(name, header.created, header.title, origin)
            self._made.append(name)
        except SessionExists:
            await self._find(header)

    async def _find(self, header: Header) -> None:
        """Go on after an import that was killed: it left whole sessions, then the beginning of one."""
        name = header.session
        self._head = await self._log.head(name)
        if self._head.seq >= header.events:
            is_same = header.head == f"{self._head.seq}:{self._head.digest.hex()}"
            if not is_same or self._made or self._events:
                raise _exists(name)
            self._passed.append(name)
        elif self._head.seq == 0:
            await self._continue(name, bytes.fromhex(header.origin))

    async def _take(self, event: Event, digest: bytes) -> None:
        assert self._header is not None
        if event.seq > self._head.seq:
            self._batch.append(event)
            self._digest = digest
            if len(self._batch) >= _BATCH_EVENTS:
                await self._flush()
        elif event.seq == self._head.seq < self._header.events:
            await self._continue(self._header.session, digest)

    async def _continue(self, name: str, digest: bytes) -> None:
        """Go on with a session of the log. digest: the export's at its head, which all before decides."""
        if digest != self._head.digest:
            raise _exists(name)
        self._epoch, _ = await self._log.take_over(name)

    async def _flush(self) -> None:
        """Append the batch; the log must compute the digest that the export has."""
        if not self._batch or self._header is None:
            return
        name, batch = self._header.session, self._batch
        (answer,) = await self._log.append([Append(name, self._head.seq, self._epoch, batch)])
        if isinstance(answer, Exception):
            raise answer
        if answer.digest != self._digest:
            raise CorruptLog(
                f"session {name}: this callboard would write event {answer.seq}, or one of the "
                f"{len(batch)} before it, with other bytes; import it with the version that exported it",
                name,
                answer.seq,
            )
        self._head = answer
        self._events += len(batch)
        self._batch = []
        self._progress(name, answer.seq, self._header.events)


def _exists(session_id: str) -> SessionExists:
    return SessionExists(
        f"the log has a session {session_id!r} already; an import keeps the id: choose another log with "
        "--log, or delete that session"
    )
