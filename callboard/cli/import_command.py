"""`callboard import`: sessions of an export, and of the traffic of other programs."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import click

from callboard.actors.protocol.errors import InvalidHistory
from callboard.cli.errors import FAILED, misused, not_found, refuse_if
from callboard.cli.export_command import opened_log
from callboard.cli.options import log_option
from callboard.cli.output import percent_on, talk
from callboard.cli.recordings import key_options, log_keys
from callboard.cli.terminal_escape import safe_line
from callboard.replay.exports.importing import Importing
from callboard.replay.exports.jsonl import ExportReader
from callboard.replay.formats import counted
from callboard.runtime import event_loop
from callboard.runtime.imports.claude_code.files import SessionFiles, sessions_in
from callboard.runtime.imports.claude_code.importing import Imported, SessionImport
from callboard.runtime.imports.documents import READERS, DocumentImport
from callboard.runtime.imports.kinds import CALLBOARD, CLAUDE_CODE, KINDS, kind_of
from callboard.runtime.log.reading import file_of, is_memory, is_server, shown_address
from callboard.runtime.secrets.registry import Secrets

T = TypeVar("T")
STDIN: Final = "-"


@click.command("import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--from",
    "kind",
    type=click.Choice(KINDS),
    default=None,
    help="The kind of the files; by default it is recognised by their content.",
)
@click.option(
    "--follow", is_flag=True, help="claude-code: keep importing new lines of the file until Ctrl-C."
)
@log_option
@key_options
def import_file(files: tuple[str, ...], kind: str | None, follow: bool, log: str) -> int:
    """Put exported sessions, or the transcripts of other programs, into a log.

    \b
    callboard    what `callboard export` writes as jsonl, without --parsed
    claude-code  transcripts of Claude Code, with those of sub-agents
    messages     JSON of the Messages API, Chat Completions or Responses
    otlp         JSON of OpenTelemetry spans for generative AI

    An exported session keeps its id and therefore its digests, so one that is already in the log is refused.
    Digests that were computed with a key need that key: --key-file. Either every session of the file is
    imported or the log stays unchanged. `-` is stdin.

    A transcript becomes a session whose model and tools answered as the transcript says. Such a session
    cannot be resumed, but you can inspect it with every command, and fork it with your own agents. A second
    import adds only what is new. For a folder, all sessions below it are imported.
    docs/import.md has the details.

    \b
    Examples:
      callboard import session.jsonl
      ssh host callboard export 2026 | callboard import - --log here.db
      callboard import ~/.claude/projects/PROJECT --log claude.db
      callboard import SESSION.jsonl --follow --log claude.db
      callboard import conversation.json --log other.db
    """
    paths = [Path(file) for file in files]
    found = kind or _kind_of(files)
    refuse_if(follow and found != CLAUDE_CODE, "--follow is for the transcripts of claude-code")
    refuse_if(follow and len(files) > 1, "--follow keeps up with one session: name one file")
    with _new_log_removed(log):
        if found == CALLBOARD:
            refuse_if(len(files) > 1, "one export at a time: call `callboard import` for each file")
            _import_export(files[0], log)
            return 0
        if found in READERS:
            return _import_documents(paths, found, log)
        return _import_transcripts(paths, log, follows=follow)


def _kind_of(files: Sequence[str]) -> str:
    """Return the kind of the files, which all have the same."""
    if files == (STDIN,):
        return CALLBOARD
    found = {file: kind_of(Path(file)) for file in files if _exists(file)}
    kinds = {kind for kind in found.values() if kind}
    if len(kinds) > 1:
        raise misused(
            f"the files are of several kinds ({', '.join(sorted(kinds))}); import one kind at a time"
        )
    if not kinds:
        raise misused(f"{safe_line(files[0])} does not tell what it is; say it with --from {'|'.join(KINDS)}")
    return kinds.pop()


def _exists(file: str) -> bool:
    if not Path(file).exists():
        raise not_found(f"{file} does not exist")
    return True


@contextlib.contextmanager
def _new_log_removed(address: str) -> Iterator[None]:
    """Remove a log again that did not exist before, if the import fails."""
    if is_memory(address) or is_server(address):
        yield
        return
    path = file_of(address)
    is_new = not path.exists()
    try:
        yield
    except BaseException:
        if is_new:
            for suffix in ("", "-wal", "-shm", ".lock"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
        raise


# --- exports of callboard --------------------------------------------------------------


def _import_export(file: str, log: str) -> None:
    try:
        with click.open_file(file, "rb") as stream:
            where = "stdin" if file == STDIN else file
            sessions, events = asyncio.run(_import_write(stream, where, log))
    except IsADirectoryError:
        raise misused(f"{file} is a folder; name a file that `callboard export` wrote") from None
    except OSError as error:
        raise not_found(f"{file} cannot be read: {error.strerror}") from None
    talk(f"{counted(sessions, 'session')}, {counted(events, 'event')} imported into {shown_address(log)}")


async def _import_write(lines: Iterable[bytes], where: str, address: str) -> tuple[int, int]:
    async with opened_log(address) as log:
        with ExportReader(lines, log_keys()[0], where) as reader:
            return await Importing(log, percent_on(sys.stderr)).run(reader.items())


# --- transcripts -------------------------------------------------------------------------


def _import_transcripts(paths: Sequence[Path], address: str, *, follows: bool) -> int:
    try:
        sessions = sessions_in(paths)
        refuse_if(not sessions, f"{paths[0]} has no transcripts: no file named *.jsonl is below it")
        refuse_if(follows and len(sessions) > 1, "--follow keeps up with one session: name its file")
        found = event_loop.run(_import_all(sessions, address, follows=follows))
    except OSError as error:
        raise not_found(f"{error.filename} cannot be read: {error.strerror}") from None
    return 0 if found else FAILED


async def _import_all(sessions: Sequence[SessionFiles], address: str, *, follows: bool) -> int:
    """Import sessions one after the other. Return the number of those that have a conversation."""
    found = sums = 0
    async with opened_log(address) as log:
        for one in sessions:
            work = SessionImport(log, one, Secrets())
            result = await (_until_ctrl_c(work, address) if follows else work.run())
            found += bool(result.made)
            sums += result.sessions
            _tell(one.main, result)
    if len(sessions) > 1:
        place = shown_address(address)
        talk(f"{counted(sums, 'new session')} of {counted(found, 'transcript')} imported into {place}")
    return found


async def _until_ctrl_c(work: SessionImport, address: str) -> Imported:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
    talk(f"following into {address}; Ctrl-C ends it. In another shell: callboard events --follow")
    return await work.follow(stop)


def _import_documents(paths: Sequence[Path], kind: str, address: str) -> int:
    try:
        return 0 if event_loop.run(_import_each(paths, kind, address)) else FAILED
    except OSError as error:
        raise not_found(f"{error.filename} cannot be read: {error.strerror}") from None


async def _import_each(paths: Sequence[Path], kind: str, address: str) -> int:
    found = 0
    async with opened_log(address) as log:
        for path in paths:
            try:
                result = await DocumentImport(log, path, kind, Secrets()).run()
            except InvalidHistory as error:
                said = f"{path} {error.fault}; docs/import.md has the forms of --from {kind}"
                raise misused(said) from None
            found += bool(result.made)
            _tell(path, result)
    return found


def _tell(path: Path, result: Imported) -> None:
    """Name the added sessions and the parts that were left out."""
    if not result.made:
        talk(f"{path}: no conversation in it; nothing was imported")
        return
    names = ", ".join(result.made)
    again = "; it has changed since the last import, so it was made again" if result.is_again else ""
    talk(f"{safe_line(names, 200)}: {counted(result.events, 'new event')}{again}")
    for why, count in result.left_out.items():
        talk(f"  left out: {count:,} {why}")
