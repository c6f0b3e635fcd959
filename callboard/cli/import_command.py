"""`callboard import`: sessions that come into a log."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterable

import click

from callboard.cli.errors import misused, not_found
from callboard.cli.formats import counted
from callboard.cli.options import log_option
from callboard.cli.output import percent_on, talk
from callboard.cli.recordings import key_options, keyed_log, log_keys
from callboard.replay.exports.importing import Importing
from callboard.replay.exports.parsing import ExportReader
from callboard.runtime.log.protocol import EventLog
from callboard.runtime.log.reading import file_of


@click.command("import")
@click.argument("file")
@log_option
@key_options
def import_file(file: str, log: str) -> None:
    """Put exported sessions into a log after checking their digests.

    FILE is what `callboard export` writes as jsonl, without --parsed; `-` is stdin. A session keeps its id
    and therefore its digests, so a session that is already in the log is refused. Digests that were computed
    with a key need that key: --key-file.

    Either every session of the file is imported or the log stays unchanged: one changed line, or any other
    failure, stops the whole import. If its process is killed, repeat the import to complete it.

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
