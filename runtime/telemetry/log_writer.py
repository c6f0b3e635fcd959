"""Log records of a service, through `logging`."""

import logging
from collections.abc import Sequence
from typing import Final

from callboard.actors.protocol.errors import Fenced
from callboard.actors.protocol.events import Event
from callboard.runtime.log.protocol import Append
from callboard.runtime.log.telemetry import records
from callboard.runtime.log.telemetry.records import Record, record_of

SLOW_COMMIT_S: Final = 1.0  # a commit that takes longer is worth a record: it is a thousand times the usual
_ABOVE: Final = logging.getLogger("callboard")
_LOGGERS: Final = {name: logging.getLogger(name) for name in records.LOGGERS}


class LogWriter:
    """Writes records. has_content: with the words of errors, which events hold without secrets.

    lost: the number of records whose handler raised.
    """

    def __init__(self, *, has_content: bool = False) -> None:
        self._has_content = has_content
        self.lost = 0

    @staticmethod
    def is_on() -> bool:
        """Return whether a handler would take any of these records. It takes about a microsecond."""
        return _is_heard(_ABOVE) or any(logger.handlers for logger in _LOGGERS.values())

    def on_event(self, session: str, tags: tuple[str, ...], event: Event) -> None:
        """Write the record of a durable event, if it has one."""
        found = record_of(event, has_content=self._has_content)
        if found is not None:
            self._write(found, session, tags, event.seq, event.kind)

    def on_failure(self, session: str, tags: tuple[str, ...], seq: int, error: BaseException) -> None:
        """Write the record of a session that can go no further in this process. error: the reason."""
        name = type(error).__name__
        level = logging.WARNING if isinstance(error, Fenced) else logging.ERROR
        logger = records.STORE if isinstance(error, Fenced) else records.SESSIONS
        text = "taken over by another process" if isinstance(error, Fenced) else "failed in this process: %s"
        arguments = () if isinstance(error, Fenced) else (name,)
        self._write(Record(logger, level, text, arguments, "", error=name), session, tags, seq, name)

    def on_commit(self, seconds: float, batch: Sequence[Append]) -> None:
        """Write the record of a commit, if it was slow."""
        if seconds >= SLOW_COMMIT_S:
            text, events = "slow commit: %.1f s for %d events", sum(len(part.events) for part in batch)
            self._write(Record(records.STORE, logging.WARNING, text, (seconds, events), ""), "", (), 0, "")

    def once(self, text: str, *arguments: object) -> None:
        """Write a record about telemetry itself."""
        self._write(Record(records.TELEMETRY, logging.WARNING, text, arguments, ""), "", (), 0, "")

    def _write(self, found: Record, session: str, tags: tuple[str, ...], seq: int, kind: str) -> None:
        logger = _LOGGERS[found.logger]
        if not logger.isEnabledFor(found.level) or not _is_heard(logger):
            return
        extra: dict[str, object] = {
            "session": session,
            "actor": found.actor,
            "seq": seq,
            "tag": ",".join(tags),
            "kind": kind,
            "error": found.error,
        }
        text, arguments = found.text, found.arguments
        if session:
            text, arguments = f"%s#%d: {text}", (session, seq, *arguments)
        if found.frames:
            extra["frames"] = found.frames
        if found.detail:
            extra["detail"] = found.detail
            text, arguments = f"{text}: %s", (*arguments, found.detail)
        try:
            logger.log(found.level, text, *arguments, extra=extra)
        except Exception:  # a handler or a filter of the program: a session must not end by its log file
            self.lost += 1


def _is_heard(logger: logging.Logger) -> bool:
    """Return whether a handler takes records of a logger.

    Without one, `logging` itself would print warnings on stderr: a library has nothing to say there.
    """
    if not logger.isEnabledFor(logging.CRITICAL):
        return False
    above: logging.Logger | None = logger
    while above is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in above.handlers):
            return True
        above = above.parent if above.propagate else None
    return False
