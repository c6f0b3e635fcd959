"""The import of one Claude Code session: scanned for its names, then enacted line by line."""

import asyncio
import contextlib
from typing import Final

import msgspec

from callboard.actors.protocol.errors import SessionExists, SessionFailed
from callboard.runtime.clock import now_ms
from callboard.runtime.imports.claude_code.files import (
    LineFile,
    SessionFiles,
    call_beside,
    files_of,
    is_agent_file,
    merged,
)
from callboard.runtime.imports.claude_code.scan import Scan
from callboard.runtime.imports.claude_code.transcript import FORMAT, NewNames, Transcript
from callboard.runtime.imports.writing import Changed, Writing
from callboard.runtime.log.protocol import EventLog
from callboard.runtime.secrets.registry import Secrets

POLL_S: Final = 0.3
_RESTARTS_MAX: Final = 10
QUIET_S: Final = 1.5  # after which a message that is written in pieces counts as whole


class Imported(msgspec.Struct):
    """The result of an import.

    made: the seq of the last event of each session, by its id. sessions, events: the numbers of those that
    were added. left_out: the numbers of lines that were left out, by the reason. is_again: True if the log
    had the sessions, made of other lines, and they were made again.
    """

    made: dict[str, int]
    sessions: int
    events: int
    left_out: dict[str, int]
    is_again: bool = False


class SessionImport:
    """Imports one session into a log that this process owns."""

    def __init__(self, log: EventLog, files: SessionFiles, secrets: Secrets) -> None:
        self._log, self._files, self._secrets = log, files, secrets
        self._is_again = False
        self._start = 0
        self._restart()

    async def _know(self) -> None:
        """Find the time of a transcript without times: that of its first import."""
        rows = await self._log.sessions()
        known = next((row for row in rows if row.session_id == self._files.session and row.head), None)
        self._start = known.created_ms if known else now_ms()
        self._restart()

    def _restart(self) -> None:
        self._writing = Writing(self._log)
        self._lines = [LineFile(self._files.main)]
        self._lines += [LineFile(path, agent) for agent, path in self._files.agents.items()]
        scan = self._scan = Scan()
        for agent, path in self._files.agents.items():
            scan.link(agent, call_beside(path))
        for one in self._lines:
            scan.take((line for _, line in LineFile(one.path).lines()), one.agent)
        self._transcript = Transcript(
            self._writing, scan, self._files.session, self._files.main.name, self._secrets, self._start
        )

    async def run(self) -> Imported:
        """Import all lines. Raises SessionExists for a session of the log that was not imported, HasForks."""
        await self._know()
        await self._from_the_start()
        return self.result()

    async def _from_the_start(self) -> None:
        try:
            await self._read()
            await self._transcript.finish()
        except (Changed, NewNames):
            await self._make_again()

    async def _make_again(self) -> None:
        """Make the sessions of this transcript again: their events, or the first of them, have changed."""
        await self._forget()
        self._is_again = True
        self._restart()
        await self._read()
        await self._transcript.finish()

    async def _read(self, *, last: bool = True) -> bool:
        """Take the new lines in. Return True if there were any."""
        is_any = False
        for line, agent in merged(self._lines, self._scan.calls, last=last):
            is_any = True
            await self._transcript.take(line, agent)
        return is_any

    async def _forget(self) -> None:
        """Take the sessions of this transcript out of the log."""
        name = self._files.session
        rows = [
            row
            for row in await self._log.sessions()
            if row.session_id == name or row.session_id.startswith(f"{name}.")
        ]
        for row in rows:
            if row.head == 0:
                continue  # it was about to be made
            if row.metadata.get("format") != FORMAT or row.metadata.get("session") != name:
                raise SessionExists(
                    f"the log has a session {row.session_id!r} that is not of this transcript; import it "
                    "into another log: --log OTHER.db"
                )
        rows.sort(key=lambda row: row.number)
        await self._writing.erase([row.session_id for row in rows])

    def result(self) -> Imported:
        """Return the result so far."""
        left_out = dict(self._transcript.left_out)
        if unread := sum(one.unread for one in self._lines):
            left_out["lines that are not JSON objects"] = unread
        writing = self._writing
        return Imported(writing.made, writing.sessions, writing.events, left_out, self._is_again)

    async def follow(self, stop: asyncio.Event) -> Imported:
        """Import, and go on with each new line until `stop` is set.

        A message that is written in pieces counts as whole once nothing came for a while.
        """
        await self._know()
        await self._start_following()
        quiet_since: float | None = asyncio.get_running_loop().time()
        while not stop.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), POLL_S)
            now = asyncio.get_running_loop().time()
            try:
                self._find_new_files()
                if await self._read(last=False):
                    quiet_since = now
                elif quiet_since is not None and now - quiet_since >= QUIET_S:
                    quiet_since = None
                    await self._transcript.settle()
                await self._writing.flush()
            except (Changed, NewNames):
                await self._start_following(again=True)
        await self._read()
        await self._transcript.finish()
        return self.result()

    async def _start_following(self, *, again: bool = False) -> None:
        """Take in the lines of now, without the end of the last message."""
        for _ in range(_RESTARTS_MAX):
            if again:
                await self._forget()
                self._is_again = True
                self._restart()
            try:
                await self._read(last=False)
                await self._writing.flush()
                return
            except (Changed, NewNames):  # also of lines that came since the scan
                again = True
        raise SessionFailed(f"{self._files.main} changes faster than it can be read; follow it later")

    def _find_new_files(self) -> None:
        """Find the files of sub-agents that began meanwhile."""
        if is_agent_file(self._files.main):
            return
        known = {one.path for one in self._lines}
        for agent, path in files_of(self._files.main).agents.items():
            if path not in known:
                self._scan.link(agent, call_beside(path))
                self._lines.append(LineFile(path, agent))
