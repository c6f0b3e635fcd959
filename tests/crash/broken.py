"""Ways to break the runtime, which prove that the campaign notices them. Each patches a process.

reruns writes          a write tool that had started runs again
denies writes          a write tool that had started is reported as not started
tells early            events and outcomes are shown, and tools started, before the log is durable
commits late           the store acknowledges before it has committed
new keys               an idempotent call gets another key in every process
forgets outcomes       asking again after a crash starts a new ask
gives back             a lost model call costs nothing
drops an event         recovery omits the last unhandled event
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.port_messages import CallModel, ModelReplied
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.protocol.usage import ZERO
from callboard.actors.session import port_table, recovery
from callboard.actors.session.port_table import interrupted, owner_of
from callboard.runtime.log.protocol import Head
from callboard.runtime.log.sqlite.store import SQLiteStore
from callboard.runtime.ports.tool_port import ToolPort
from callboard.runtime.sessions.board import Board
from callboard.runtime.sessions.session import Session
from callboard.runtime.tools.context import ToolContext
from tests.crash.points import patch


def _reruns_writes() -> None:
    def left(self: "recovery._Recovery", request: Event) -> Post | None:
        body = request.body
        if isinstance(body, CallModel | RunStep):
            turn, attempt = self.gate.repeated_in(request)
            return Post(owner_of(request), ModelReplied(turn, attempt, "lost"))
        return None

    patch(recovery._Recovery, "_left_by_crash", left)


def _denies_writes() -> None:
    patch(port_table, "interrupted", port_table._tool_cancelled)


def _tells_early() -> None:
    note = Board._note

    def early(self: Board, events: Sequence[Event]) -> None:
        note(self, events)
        self._on_durable(Head(self.seq, bytes(32)))

    patch(Board, "_note", early)


def _commits_late() -> None:
    @contextmanager
    def lazy(self: SQLiteStore, doing: str) -> Iterator[None]:
        with self._reported(doing):
            if not self._connection.in_transaction:
                self._connection.execute("BEGIN IMMEDIATE")
            yield

    patch(SQLiteStore, "_transaction", lazy)

    @contextmanager
    def as_before(self: SQLiteStore) -> Iterator[None]:  # SQLite keeps its level inside a transaction
        yield

    patch(SQLiteStore, "_unsynced", as_before)
    patch(SQLiteStore, "_note_written", lambda self, sessions, size: None)


def _new_keys() -> None:
    context = ToolPort._context

    def keyed(self: ToolPort, *parts: Any) -> ToolContext:
        made = context(self, *parts)
        made.idempotency_key += f"/{os.getpid()}"
        return made

    patch(ToolPort, "_context", keyed)


def _forgets_outcomes() -> None:
    patch(Session, "_remember", lambda self, past, is_closing: None)


def _gives_back() -> None:
    def left(self: "recovery._Recovery", request: Event) -> Post | None:
        body = request.body
        if isinstance(body, CallModel | RunStep):
            turn, attempt = self.gate.repeated_in(request)
            return Post(owner_of(request), ModelReplied(turn, attempt, "lost", usage=ZERO))
        return interrupted(request, self.gate.repeated_in(request)) if request.seq in self.started else None

    patch(recovery._Recovery, "_left_by_crash", left)


def _drops_an_event() -> None:
    repeat = recovery._Recovery.repeat

    def forgetful(self: "recovery._Recovery") -> None:
        repeat(self)
        if self.inbox:
            self.inbox.pop()

    patch(recovery._Recovery, "repeat", forgetful)


BREAKS: Final[dict[str, Callable[[], None]]] = {
    "reruns writes": _reruns_writes,
    "denies writes": _denies_writes,
    "tells early": _tells_early,
    "commits late": _commits_late,
    "new keys": _new_keys,
    "forgets outcomes": _forgets_outcomes,
    "gives back": _gives_back,
    "drops an event": _drops_an_event,
}
