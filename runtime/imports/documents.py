"""The import of files that hold whole conversations: items of three APIs, or spans."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from callboard.actors.protocol.errors import SessionExists
from callboard.runtime.clock import now_ms
from callboard.runtime.imports import items, spans
from callboard.runtime.imports.claude_code.importing import Imported
from callboard.runtime.imports.conversations import Conversation, enact
from callboard.runtime.imports.writing import Changed, Writing
from callboard.runtime.log.protocol import EventLog
from callboard.runtime.log.session_rows import SessionRow
from callboard.runtime.secrets.registry import Secrets

Reading = Callable[[bytes], list[tuple[str, Conversation]]]
READERS: Final[Mapping[str, Reading]] = {
    "messages": items.conversations_in,
    "otlp": spans.conversations_in,
}
_ODD: Final = re.compile(r"[^\x21-\x7e]+")
_NAME_CHARS_MAX: Final = 150


class DocumentImport:
    """Imports the conversations of one file into a log that this process owns. kind: of the file."""

    def __init__(self, log: EventLog, path: Path, kind: str, secrets: Secrets) -> None:
        self._log, self._path, self._kind, self._secrets = log, path, kind, secrets

    async def run(self) -> Imported:
        """Import the file. Raises InvalidHistory, SessionExists, HasForks."""
        whole = Imported({}, 0, 0, {})
        given = [name for name, _ in self._read()]
        for place, name in enumerate(given):
            name = name or (self._path.stem if len(given) == 1 else f"{self._path.stem}-{place + 1}")
            await self._import(_ODD.sub("_", name)[:_NAME_CHARS_MAX], place, whole)
        return whole

    def _read(self) -> list[tuple[str, Conversation]]:
        return READERS[self._kind](self._path.read_bytes())

    async def _import(self, session: str, place: int, whole: Imported) -> None:
        """Import one conversation of the file. place: among them."""
        known = next((row for row in await self._log.sessions() if row.session_id == session), None)
        try:
            writing = await self._enacted(session, place, known)
        except Changed:
            self._refuse_other(known)
            await Writing(self._log).erase([session])
            whole.is_again = True
            writing = await self._enacted(session, place, known)
        whole.made |= writing.made
        whole.sessions += writing.sessions
        whole.events += writing.events

    async def _enacted(self, session: str, place: int, known: SessionRow | None) -> Writing:
        one = self._read()[place][1]  # anew each time: it is changed while it is enacted
        # Where the traffic has no times, that of the first import holds.
        start = min((part.at for part in one.parts if part.at), default=0)
        at = start or (known.created_ms if known and known.head else now_ms())
        writing = Writing(self._log)
        about = {"session": session, "file": self._path.name}
        await enact(writing, session, at, one, self._kind, about, self._secrets)
        return writing

    def _refuse_other(self, row: SessionRow | None) -> None:
        if row is not None and row.head and row.metadata.get("format") != self._kind:
            raise SessionExists(
                f"the log has a session {row.session_id!r} that is not of this file; import it into another "
                "log: --log OTHER.db"
            )
